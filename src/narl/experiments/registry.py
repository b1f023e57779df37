"""The experiments by id; the module of an experiment is imported when the experiment is used."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narl.experiments.experiment import Experiment

_PLACES = {
    "fig1a": "fig1a:EXPERIMENT",
    "fig1b": "fig1b:EXPERIMENT",
    "fig1c": "fig1c:EXPERIMENT",
    "table1": "table1:EXPERIMENT",
    "fig2": "fig4:FIG2",
    "table2": "table2:EXPERIMENT",
    "fig3a": "fig3a:EXPERIMENT",
    "fig3b": "fig3bc:FIG3B",
    "fig3c": "fig3bc:FIG3C",
    "fig4": "fig4:FIG4",
    "ablation": "ablation:EXPERIMENT",
    "fair": "fair:EXPERIMENT",
    "exploration-tuning": "exploration_tuning:EXPERIMENT",
    "exploration": "exploration:EXPERIMENT",
    "choice": "choice:EXPERIMENT",
    "acrobot": "acrobot:EXPERIMENT",
    "fewer-steps": "fewer_steps:EXPERIMENT",
    "fading": "fading:EXPERIMENT",
    "discrete": "discrete:EXPERIMENT",
    "lander": "lander:EXPERIMENT",
}
"""The module and the name of every experiment, in the order of the paper, then ours."""


class _Experiments(Mapping[str, "Experiment"]):
    """The table of experiments, read without importing any of them."""

    def __getitem__(self, id_: str) -> Experiment:
        module, _, name = _PLACES[id_].partition(":")
        experiment: Experiment = getattr(
            importlib.import_module(f"narl.experiments.{module}"), name
        )
        return experiment

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


EXPERIMENTS: Mapping[str, Experiment] = _Experiments()
"""The experiments in the order of the paper, then ours; `narl reproduce` runs them."""
