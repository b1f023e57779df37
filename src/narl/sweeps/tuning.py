"""Search for good values of options with Optuna; the folder of runs is its memory.

Every trial is a run. A search that is started again proposes the same values, as its sampler has a
seed, and finds their runs: finished ones at once, pruned ones by their metrics log. So it continues
where it was stopped, or goes on to more trials.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from narl import storage
from narl.console import note
from narl.deep.config import Config
from narl.errors import (
    EnvironmentFault,
    InputError,
    NoEffect,
    install_hint,
    is_out_of_memory,
    unknown,
)
from narl.options import OptionField, check_value, choices_of, option_fields, split_optional
from narl.sweeps.driver import BUSY_SECONDS, is_busy
from narl.sweeps.grid import HALVES, Axes, expand, make_effective
from narl.sweeps.planned_run import SweepRun, sweep_run
from narl.sweeps.run_notes import RunNotes
from narl.sweeps.run_task import error_line

DEFAULT_OPTIONS = (
    *("learning_rate", "updates_per_step", "members"),
    *("radius", "bonus_weight", "reach"),
)
"""The options that are searched by default, as far as the algorithm uses them."""
STARTUP_TRIALS = 5
"""Trials that are never pruned, whatever their returns."""


class Axis(NamedTuple):
    """The values of one option among which the search chooses."""

    name: str
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    whole: bool = False

    @property
    def is_logarithmic(self) -> bool:
        """Whether factors count, not differences."""
        return self.low > 0 and self.high / self.low >= 10

    def suggest(self, trial: Any) -> Any:
        """Return the value that Optuna proposes."""
        if self.choices:
            return trial.suggest_categorical(self.name, list(self.choices))
        if self.whole:
            low, high = int(self.low), int(self.high)
            return trial.suggest_int(self.name, low, high, log=self.is_logarithmic)
        return trial.suggest_float(self.name, self.low, self.high, log=self.is_logarithmic)


class Trial(NamedTuple):
    """One trial of a search."""

    number: int
    state: str
    """done, pruned or failed."""
    values: dict[str, Any]
    mean_return: float | None
    """The mean final evaluation return over the seeds; of a pruned trial, the last one."""
    run: str
    found: bool
    """Whether the trial was in the folder of runs, wholly."""


def parse_axes(text: str) -> list[Axis]:
    """Return the axes of a text such as "radius=0.01:1,exclude,members"."""
    fields = {field.name: field for field in option_fields(Config)}
    axes = [_parse_axis(piece.strip(), fields) for piece in text.split(",")]
    for name in (axis.name for axis in axes):
        if sum(axis.name == name for axis in axes) > 1:
            raise InputError(f"over: {name} is given twice; each option must appear once")
    return axes


def default_axes(env: str, algo: str, options: Mapping[str, Any]) -> list[Axis]:
    """Return those of the default options that are not given and have an effect beside these."""
    axes: list[Axis] = []
    for axis in (parse_axes(name)[0] for name in DEFAULT_OPTIONS if name not in options):
        try:
            check_axes(env, algo, options, [axis])
        except NoEffect as error:
            if error.name == axis.name:
                continue  # another option may have an effect with other axes, which tune checks
        axes.append(axis)
    if not axes:
        raise InputError("over: missing; the options that are searched by default are all given")
    return axes


def check_axes(env: str, algo: str, options: Mapping[str, Any], axes: Sequence[Axis]) -> Config:
    """Refuse options and axes that are wrong, or have no effect whatever the others choose.

    Returns a configuration at the ends of the axes.
    """
    fixed = [axis.name for axis in axes if axis.name in options]
    if fixed:
        raise InputError(f"over: {fixed[0]} is given as well; leave one of them out")
    shared: Axes = {"env": (env,), "algo": (algo,)} | {name: (x,) for name, x in options.items()}
    found: list[Config] = []
    refused: list[NoEffect] = []
    for end in ("low", "high"):
        ends = {axis.name: axis.choices or (getattr(axis, end),) for axis in axes}
        try:
            first = expand(HALVES["train"], [shared | ends])[0].config
        except NoEffect as problem:
            refused.append(problem)
        else:
            assert isinstance(first, Config)
            found.append(first)
    if not found:
        raise refused[-1]
    return found[-1]


def _parse_axis(piece: str, fields: Mapping[str, OptionField]) -> Axis:
    name, equals, span = piece.partition("=")
    name = name.strip().replace("-", "_")
    if name not in fields or name in ("env", "algo", "seeds"):
        raise unknown("over", name, sorted({*fields} - {"env", "algo", "seeds"}))
    field = fields[name]
    kind, _ = split_optional(field.annotation)
    choices = (False, True) if kind is bool else choices_of(field.annotation, field.option)
    if choices:
        if equals:
            raise InputError(f"over: {name} has choices, all of which are tried; leave out ={span}")
        return Axis(name, choices)
    if kind not in (int, float):
        raise InputError(f"over: {name} is a list of numbers, which cannot be searched")
    example = f"{name}={'2:5' if kind is int else '0.01:1'}"
    if not equals and field.option.search is None:
        raise InputError(f"over: {name} has no usual range; give one, such as {example}")
    try:
        low, high = field.option.search or (0, 0)
        if equals:
            low, high = (kind(bound) for bound in span.split(":"))
    except ValueError:
        raise InputError(f"over: {piece!r} is wrong; it must be like {example}") from None
    for bound in (low, high):
        check_value(name, bound, field.annotation, field.option)
    if not low < high:
        raise InputError(f"over: {piece!r} is empty; the second number must be larger")
    return Axis(name, low=low, high=high, whole=kind is int)


def tune(
    env: str,
    algo: str,
    options: Mapping[str, Any],
    axes: Sequence[Axis],
    num_trials: int,
    root: Path,
    *,
    sampler_seed: int = 0,
    env_timeout: float | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_trial: Callable[[Trial], None] = lambda trial: None,
) -> list[Trial]:
    """Return the trials of a search for the largest mean final return, in their order.

    ``options`` are those that all trials share. A trial whose return after an epoch is below the
    median of the earlier trials is pruned, not before a quarter of its epochs. A trial on which
    another process is working is waited for.
    """
    optuna = _import_optuna()
    first = check_axes(env, algo, options, axes)  # wrong options are named at once
    storage.check_root(root)
    num_epochs = math.ceil(first.steps / first.epoch_length)
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=sampler_seed),
        pruner=optuna.pruners.MedianPruner(STARTUP_TRIALS, n_warmup_steps=num_epochs // 4),
    )
    trials: list[Trial] = []
    for number in range(num_trials):
        proposal = study.ask()
        values = {axis.name: axis.suggest(proposal) for axis in axes}
        run_id, state, mean, found = "", "failed", None, False
        try:
            # An option without effect beside the others' values is left out of the trial's run.
            given = {"env": env, "algo": algo, **options, **values}
            config = make_effective(HALVES["train"], given, {})
        except InputError as error:  # such as more elites than members
            note(f"trial {number}: {error}")
        else:
            run = sweep_run(config, env_timeout=env_timeout)
            run_id = run.id
            state, mean, found = _try(run, root, _Reports(proposal), should_stop)
        states = optuna.trial.TrialState
        told = {"done": states.COMPLETE, "pruned": states.PRUNED, "failed": states.FAIL}[state]
        study.tell(proposal, mean if state == "done" else None, state=told)
        trials.append(Trial(number, state, values, mean, run_id, found))
        on_trial(trials[-1])
    return trials


class _Reports:
    """The returns of a trial after its epochs, told to Optuna once each."""

    def __init__(self, proposal: Any) -> None:
        self._proposal = proposal
        self._known: set[int] = set()
        self.last: float | None = None

    def add(self, row: Mapping[str, Any]) -> bool:
        """Report the return of an epoch; return whether the trial should be pruned."""
        epoch = int(row["epoch"])
        returns = [x for x in row["eval_return"] if x is not None]
        if epoch not in self._known and returns:
            self._known.add(epoch)
            self.last = sum(returns) / len(returns)
            self._proposal.report(self.last, epoch)
        return bool(self._proposal.should_prune())


def _try(
    run: SweepRun,
    root: Path,
    reports: _Reports,
    should_stop: Callable[[], bool],
    is_second: bool = False,
) -> tuple[str, float | None, bool]:
    """Return the state of a trial, its return, and whether all of it was in the folder of runs."""
    from narl.deep.finite_check import NonFiniteError
    from narl.deep.training_run import TrainingStopped, run_training
    from narl.deep.user_parts import UserParts

    if run.find_current(root) is None:
        _wait_while_busy(run, root, should_stop)
    notes = RunNotes(root, run.id)
    if (finished := run.find_current(root)) is not None:
        return "done", _report_all(finished, reports), True
    if notes.has_failed:
        return "failed", None, True
    unfinished = storage.UnfinishedRun(root / f"{run.id}{storage.PART_SUFFIX}", {}, 1)
    for row in unfinished.rows(("epoch", "eval_return")):
        if reports.add(row):
            return "pruned", reports.last, True
    is_pruned = False

    def on_epoch(row: dict[str, Any]) -> bool:
        nonlocal is_pruned
        is_pruned = reports.add(row)
        return not is_pruned

    parts = UserParts(env_timeout=run.env_timeout)
    options: dict[str, Any] = {"on_epoch": on_epoch, "should_stop": should_stop, "parts": parts}
    assert isinstance(run.config, Config)
    try:
        ((done, _),) = run_training([run.config], root, **options)
    except TrainingStopped:
        if is_pruned:
            return "pruned", reports.last, False
        raise
    except Exception as error:
        if isinstance(error, NonFiniteError | EnvironmentFault) or is_out_of_memory(error):
            notes.note_failure(error=error_line(error), together=1)
            return "failed", None, False
        # Another process may have been faster, and may have ended since.
        if not isinstance(error, InputError) or (is_second and not is_busy(run, root)):
            raise
        return _try(run, root, reports, should_stop, is_second=True)
    return "done", _report_all(done, reports), False


def _wait_while_busy(run: SweepRun, root: Path, should_stop: Callable[[], bool]) -> None:
    """Wait until no other process is working on a run."""
    if is_busy(run, root):
        note(f"another process is working on {run.id}; the search waits for it")
    while is_busy(run, root):
        if should_stop():
            raise KeyboardInterrupt(f"stopped while another process works on {run.id}")
        time.sleep(BUSY_SECONDS)


def _report_all(run: storage.Run, reports: _Reports) -> float | None:
    """Report every epoch of a finished run; return its mean final return."""
    for row in storage.rows_from_bytes(run.extra(storage.METRICS_LOG)):
        reports.add(row)
    return reports.last


def _import_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise InputError(f"tune: Optuna is not installed; {install_hint('tune')}") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
