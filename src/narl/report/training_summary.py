"""Trainings as a report sees them: rows, times, labels, and the command that trains again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from narl.deep.config import EPOCH_COLUMNS, Config
from narl.display import seeds_as_text
from narl.errors import InputError
from narl.option_differences import differing_options
from narl.options import as_argument, as_text
from narl.report.training_curves import Rows
from narl.run_lookup import command_line
from narl.storage import METRICS_LOG, PART_SUFFIX, Run, UnfinishedRun, rows_from_bytes


@dataclasses.dataclass(frozen=True)
class TrainingSummary:
    """The facts about one training that a report shows."""

    id: str
    """The id of the run, or the name of its folder if the run is unfinished."""
    config: Config
    rows: Rows
    seconds: Mapping[str, float] | None = None
    """Seconds by activity, and in total; None: the training is unfinished."""
    num_replicas: int = 0
    """Seeds that were trained together, those of other trainings included."""
    environment: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    runs: Path | None = None
    """The folder of runs that holds it; None: the default."""

    @property
    def is_finished(self) -> bool:
        """Whether the training has ended."""
        return self.seconds is not None

    @property
    def command(self) -> str:
        """The command that trains the same configuration again."""
        return command_of(self.config)


def summarise_training(run: Run | UnfinishedRun) -> TrainingSummary:
    """Return the summary of a run of `narl train`, finished or not; refuse every other run."""
    from narl.deep.checked_config import config_from_record

    name, folder = run.path.name, run.path.parent
    if not run.config:
        remove = command_line("runs", "remove", name, runs=folder)
        raise InputError(f"run: {name}: {run.problems[0]}; remove it (`{remove}`)")
    if run.config.get("experiment") != "train":
        show = command_line("runs", "show", name, runs=folder)
        raise InputError(f"run: {name} is no training; `{show}` shows it")
    if "configs" in run.config:
        raise InputError(
            f"run: {name} is {len(run.config['configs'])} trainings together; each can be shown "
            "when all are finished (the command that began them continues them)"
        )
    config = config_from_record(run.config)
    if isinstance(run, UnfinishedRun):
        rows = run.rows(EPOCH_COLUMNS)
    else:
        rows = rows_from_bytes(run.extra(METRICS_LOG))
    if not rows:
        raise InputError(f"run: {name} has no finished epoch yet; wait for its first, or resume it")
    if isinstance(run, UnfinishedRun):
        return TrainingSummary(name, config, rows, runs=folder)
    metrics = run.metrics
    num_replicas = metrics.get("replicas", metrics.get("lanes", 0))  # "lanes" in older runs
    seconds = metrics["seconds"]
    return TrainingSummary(name, config, rows, seconds, num_replicas, run.environment, runs=folder)


def command_of(config: Config) -> str:
    """Return the command that trains a configuration, with every option that is not a default."""
    from narl.deep.checked_config import changed_options

    words = ["narl train", config.env, f"--algo {config.algo}"]
    options = changed_options(config)
    last = {name: options.pop(name) for name in ("seeds", "until_solved") if name in options}
    for name, value in (options | last).items():
        words.append(as_argument(name, seeds_as_text(value) if name == "seeds" else value))
    return " ".join(words)


def label_trainings(trainings: Sequence[TrainingSummary]) -> list[str]:
    """Return labels that tell trainings of one environment apart.

    A label is the algorithm with the options that differ among the trainings of this algorithm.
    Where this is not enough, the steps, the seeds, the end of the id or a number follow.
    """
    used = [_distinguishing_options(training.config) for training in trainings]
    labels = []
    for options in used:
        names = differing_options([other for other in used if other["algo"] == options["algo"]])
        differing = [f"{x.replace('_', ' ')} {_value_in_words(x, options[x])}" for x in names]
        labels.append(", ".join([options["algo"].upper(), *differing]))
    for marks in (
        [f", {training.config.steps} steps" for training in trainings],
        [f", seeds {seeds_as_text(training.config.seeds)}" for training in trainings],
        [f" ({_end_of_id(training)})" for training in trainings],
        [f" #{number}" for number in range(1, len(trainings) + 1)],
    ):
        labels = _add_marks(labels, marks)
    return labels


def _distinguishing_options(config: Config) -> dict[str, Any]:
    """Return the options for labels, with the numbers of members that defaults stand for.

    An option without effect has its default, so that it is no difference.
    """
    from narl.deep.checked_config import (
        options_with_effect,
        used_options,
        usual_config,
        with_numbers,
    )

    options = used_options(usual_config(config)) | options_with_effect(config)
    for name in ("steps", "seeds", "until_solved"):
        del options[name]
    return with_numbers(options, config)


def _value_in_words(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None and name not in ("radius", "solved_return"):
        return "default"
    return as_text(value)


def _end_of_id(training: TrainingSummary) -> str:
    """Return the digits at the end of the id."""
    digits = training.id.removesuffix(PART_SUFFIX)[-10:]
    return digits if training.is_finished else f"{digits}, unfinished"


def _add_marks(labels: Sequence[str], marks: Sequence[str]) -> list[str]:
    """Append the marks to labels that are equal, unless their marks are equal too."""
    pairs = list(zip(labels, marks, strict=True))
    return [
        label + mark if len({other for same, other in pairs if same == label}) > 1 else label
        for label, mark in pairs
    ]
