"""A run of a sweep: a configuration with its id, and both as JSON for another process."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from narl import storage
from narl.deep.config import Config as TrainingConfig
from narl.errors import EnvironmentFault, InputError
from narl.option_differences import differing_options
from narl.options import as_text
from narl.storage.runs import is_run_id
from narl.tabular.config import Config as TabularConfig
from narl.tabular.options import AGENT_OPTIONS

RunConfig: TypeAlias = TabularConfig | TrainingConfig
"""A configuration that is run with all its seeds, of the tabular or the deep half."""


class SweepRun(NamedTuple):
    """A configuration of a sweep and the id of its run."""

    id: str
    config: RunConfig
    label: str = ""
    """The options in which the runs of the sweep differ, for people."""
    options: Mapping[str, Any] = {}
    """The options that were given, without those that have no effect here."""
    env_timeout: float | None = None
    """Seconds that an environment may take (`UserParts.env_timeout`); no part of the id."""

    @property
    def is_training(self) -> bool:
        """Whether the run is a training, of the deep half."""
        return isinstance(self.config, TrainingConfig)

    @property
    def length(self) -> int:
        """Environment steps or episodes of each seed."""
        config = self.config
        return config.episodes if isinstance(config, TabularConfig) else config.steps

    def find(self, root: Path) -> storage.Run | None:
        """Return the finished run, if an intact one is in the folder of runs."""
        # The look-up by id needs no environment; `record` of a tabular run would build it.
        if not (root / self.id).is_dir():
            return None
        return storage.find_run_of_config(root, self.config.record())

    def find_current(self, root: Path) -> storage.Run | None:
        """Return the finished run, unless other code of a user's environment has made it.

        `narl.deep.training_run` then moves that run to another id and trains anew.
        """
        run = self.find(root)
        if run is None or not isinstance(self.config, TrainingConfig):
            return run
        from narl.deep.config import ENV_CODE

        recorded = run.environment.get(ENV_CODE)
        if recorded is None or recorded == _env_code(self.config, recorded, self.env_timeout):
            return run
        return None


_env_codes: dict[str, str] = {}
"""The hashes of the code of environments in this process, which imports their modules once."""


def _env_code(config: TrainingConfig, unknown: str, timeout: float | None) -> str:
    """Return the hash of the code of an environment; ``unknown`` if it cannot be opened here."""
    from narl.deep.env_code import current_env_code

    if config.env not in _env_codes:
        try:
            _env_codes[config.env] = current_env_code(config, timeout=timeout)
        except (InputError, EnvironmentFault):
            return unknown
    return _env_codes[config.env]


def sweep_run(config: RunConfig, **fields: Any) -> SweepRun:
    """Return the run of a configuration."""
    return SweepRun(config.run_id, config, **fields)


def label_runs(runs: Sequence[SweepRun]) -> list[SweepRun]:
    """Return the runs with labels: the given options in which they differ."""
    differing = differing_options([run.options for run in runs])
    return [run._replace(label=_label(run, differing)) for run in runs]


def _label(run: SweepRun, names: Iterable[str]) -> str:
    pairs = [(name, run.options[name]) for name in names if name in run.options]
    return " ".join(f"{name}={as_text(value)}" for name, value in pairs)


def runs_to_json(runs: Iterable[SweepRun]) -> list[dict[str, Any]]:
    """Return runs as JSON values, from which `runs_from_json` makes them again."""
    return [
        {
            "id": run.id,
            "half": "train" if run.is_training else "tabular",
            "config": dataclasses.asdict(run.config),
            "label": run.label,
            "options": dict(run.options),
            "env_timeout": run.env_timeout,
        }
        for run in runs
    ]


def runs_from_json(entries: Iterable[Mapping[str, Any]]) -> list[SweepRun]:
    """Return the runs that `runs_to_json` wrote; ValueError if an id is none."""
    return [
        SweepRun(
            _checked_id(entry["id"]),
            _config(entry["half"], entry["config"]),
            entry["label"],
            _with_tuples(entry["options"]),
            entry.get("env_timeout"),
        )
        for entry in entries
    ]


def _checked_id(run_id: str) -> str:
    """Return an id; it names a folder, so it must not lead elsewhere."""
    if not is_run_id(run_id):
        raise ValueError(f"{run_id!r} is not the id of a run")
    return run_id


def _config(half: str, fields: Mapping[str, Any]) -> RunConfig:
    values = _with_tuples(fields)
    if half == "train":
        return TrainingConfig(**values)
    options = AGENT_OPTIONS[values["agent"]](**_with_tuples(values.pop("options")))
    return TabularConfig(options=options, **values)


def _with_tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values that JSON turned from tuples into lists as tuples again."""
    return {name: tuple(x) if isinstance(x, list) else x for name, x in values.items()}
