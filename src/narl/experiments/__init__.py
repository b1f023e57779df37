"""The experiments of the paper, by id."""

from narl.experiments import ablation, fig1a, fig1b, fig1c, fig3a, table1, table2
from narl.experiments.experiment import (
    SCALES,
    Experiment,
    ExperimentHooks,
    Findings,
    Scale,
    reproduce,
)
from narl.report.document import Outcome

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.id: module.EXPERIMENT
    for module in (fig1a, fig1b, fig1c, table1, ablation, fig3a, table2)
}

__all__ = [
    "EXPERIMENTS",
    "SCALES",
    "Experiment",
    "ExperimentHooks",
    "Findings",
    "Outcome",
    "Scale",
    "reproduce",
]
