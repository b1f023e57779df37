"""The driver of trainings: configurations in, finished runs out.

`narl train`, `narl resume`, grids and experiments all call `run_training`. While a training goes
on, everything lies in `<root>/<id>.part/`; when it is done, the run folder `<root>/<id>/` takes its
place (see `narl.storage`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from narl import storage
from narl.deep.callbacks import wants_stop
from narl.deep.config import CHECKPOINT_EVERY, ENV_CODE, Config
from narl.deep.device_memory import check_memory, groups_that_fit
from narl.deep.env_code import current_env_code, env_code
from narl.deep.extended_run import extension_problem, keeps_data
from narl.deep.trainer import Trainer
from narl.deep.training_environment import (
    check_target_entropy,
    check_value_samples,
    choose_termination,
    open_training_env,
)
from narl.deep.training_session import TrainingSession, TrainingStopped
from narl.deep.user_parts import NO_PARTS, UserParts, check_functions
from narl.errors import InputError
from narl.storage.checkpoints import has_checkpoints
from narl.storage.folder import clear_folder, refuse_links, remove_folder
from narl.storage.folder_lock import lock_folder
from narl.storage.unfinished import CHECKPOINTS, PART_SUFFIX, record_config

__all__ = ["TrainingOptions", "TrainingStopped", "check_training", "run_training"]

OnEpoch = Callable[[dict[str, Any]], bool | np.bool_ | None]
"""Called with the metrics of every epoch; False stops the training, NumPy's False too."""
_log = logging.getLogger("narl")


def _nothing(*arguments: Any) -> None:
    """Ignore what is reported."""


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """Options of `run_training` that do not change the outcome."""

    on_start: Callable[[], None] = _nothing
    """Called before the training, once it is known to be possible; not if the run is found."""
    on_epoch: OnEpoch = _nothing
    on_step: Callable[[int], None] = _nothing
    """Called with the number of environment steps after every step."""
    on_resume: Callable[[int], None] = _nothing
    """Called with the step of the checkpoint from which the training goes on."""
    should_stop: Callable[[], bool] = lambda: False
    """Asked before every step; if True, a checkpoint is written and `TrainingStopped` raised."""
    checkpoint_every: int = CHECKPOINT_EVERY
    """Epochs between two checkpoints."""
    fresh: bool = False
    """Train again, even if the run is there, finished or not."""
    unfinished: bool = False
    """Resume an unfinished training, even if a finished run is there."""
    any_code: bool = False
    """Take a run or a checkpoint that other code of a user's environment has made."""
    keep_data: bool = False
    """Keep the data from which a run can be extended in its folder; for one configuration."""
    parts: UserParts = NO_PARTS
    """The user's own environment, termination or selection; give such runs a root of their own."""

    @property
    def replaces(self) -> bool:
        """Whether finished runs are not looked for, but replaced."""
        return self.fresh or self.unfinished


class TrainingSettings(TypedDict, total=False):
    """The fields of `TrainingOptions` as a type of keywords, for editors and type checkers."""

    on_start: Callable[[], None]
    on_epoch: OnEpoch
    on_step: Callable[[int], None]
    on_resume: Callable[[int], None]
    should_stop: Callable[[], bool]
    checkpoint_every: int
    fresh: bool
    unfinished: bool
    any_code: bool
    keep_data: bool
    parts: UserParts


def run_training(
    configs: Sequence[Config], root: Path | str, **options: Unpack[TrainingSettings]
) -> list[tuple[storage.Run, bool]]:
    """Return the finished run of every configuration, and whether it was found in the store.

    Each configuration gets a run folder of its own, as if it had been trained alone. An unfinished
    training of the same configurations goes on from its last checkpoint.

    Args:
        configs: Configurations of one `shape`; those that are not in the store share one program.
        root: The folder of runs.
        **options: Fields of `TrainingOptions`, such as ``on_epoch``, which is called with the
            metrics of every epoch, or ``fresh=True``, which trains even if the run is there.

    Returns:
        One (run, found) per configuration; ``run.metrics`` and ``run.arrays()`` hold the
        outcome.

    Example:
        >>> from pathlib import Path
        >>> configs = [narl.deep.make_config("Pendulum-v1", "sac", **tiny)]
        >>> [(run, found)] = narl.deep.run_training(configs, Path("runs"))
        >>> run.metrics["steps"], found
        (60, False)
        >>> narl.deep.run_training(configs, Path("runs"))[0][1]  # now it is found
        True
    """
    return _run_training(configs, Path(root), TrainingOptions(**options))


def _run_training(
    configs: Sequence[Config], root: Path, options: TrainingOptions
) -> list[tuple[storage.Run, bool]]:
    storage.check_root(root)
    find = _RunFinder(configs, root, options)
    found = find.runs()
    if options.keep_data:
        _check_keep_data(configs, list(found.values()))
    missing = [config for config in configs if config.run_id not in found]
    if not missing:
        return [(found[config.run_id], True) for config in configs]
    groups = [missing] if options.fresh else _begun_groups(configs, missing, root)
    if len(groups) == 1:
        (group,) = groups
        groups = check_training(group, options.parts)
        if len(groups) > 1:
            _log.warning("the device has no room for all seeds at once: %d groups", len(groups))
    if len(groups) > 1:
        runs = {run.id: run for part in groups for run, _ in _run_training(part, root, options)}
        return [((found | runs)[each.run_id], each.run_id in found) for each in configs]
    options.on_start()
    part = root / f"{storage.run_id(_group_record(group))}{PART_SUFFIX}"
    with lock_folder(part), _removed_at_the_end(part):
        # Another process may have finished the training while it held the lock.
        if len(runs := find.runs()) == len(configs):
            return [(runs[config.run_id], True) for config in configs]
        find.set_others_aside()
        if options.fresh:
            clear_folder(part)
        refuse_links(part)
        record_config(part, _group_record(group), options.checkpoint_every, options.keep_data)
        trained = _train(group, part, root, options)
    # A run that was done before the others, and was lost since, is trained by itself.
    lost = [config for config in configs if config.run_id not in {*found, *trained}]
    if lost:
        again = dataclasses.replace(options, fresh=False, unfinished=False)
        trained |= {run.id: run for run, _ in _run_training(lost, root, again)}
    both = found | trained
    return [(both[config.run_id], config.run_id in found) for config in configs]


def _train(
    configs: Sequence[Config], part: Path, root: Path, options: TrainingOptions
) -> dict[str, storage.Run]:
    """Train to the end in the folder ``part``; return the new runs by id."""
    trainer = Trainer(configs, options.parts)
    with contextlib.closing(trainer), contextlib.ExitStack() as stack:
        code = env_code(trainer.envs.example.env)
        session = TrainingSession(trainer, configs, part, code, options.any_code)
        stack.enter_context(contextlib.closing(session.checkpoints))
        session.resume(options.on_resume)
        epochs = session.train(options.on_step, options.should_stop, options.checkpoint_every)
        for metrics in epochs:
            if wants_stop(options.on_epoch(metrics)) and not trainer.is_over:
                session.stop()
        return session.finish(root, options.replaces, options.keep_data)


def _check_keep_data(configs: Sequence[Config], found: Sequence[storage.Run]) -> None:
    """Refuse to keep data of several configurations; warn where no data are or can be of use."""
    if len(configs) > 1:
        raise InputError(
            f"keep_data: {len(configs)} configurations share a program; train one at a time"
        )
    for run in found:
        if not keeps_data(run):
            _log.warning("%s is there without its data; --fresh trains it again with them", run.id)
    if problem := extension_problem(configs[0]):
        _log.warning("the run cannot be extended with `narl train --extend`: %s", problem)


def check_training(
    configs: Sequence[Config], parts: UserParts = NO_PARTS
) -> list[Sequence[Config]]:
    """Refuse, before anything is compiled or written, a training that cannot be run.

    Returns the configurations in the groups in which the device has room for them, usually one.
    """
    config = configs[0]
    opened = open_training_env(config, 0, source=parts.env, timeout=parts.env_timeout)
    with contextlib.closing(opened) as env:
        choose_termination(config, env.spaces, parts)
        check_target_entropy(config, env.spaces)
        check_value_samples(config, env.spaces)
        dims = env.spaces.obs_dim, env.spaces.action_dim
    groups = groups_that_fit(configs, *dims)
    for group in groups:
        num_replicas = sum(len(config.seeds) for config in group)
        for each in group:
            check_functions(each, parts, *dims)
            check_memory(each, *dims, num_replicas)
    return groups


def _group_record(configs: Sequence[Config]) -> dict[str, Any]:
    """Return the JSON that describes an unfinished training of one or several configurations."""
    first = configs[0].record()
    if len(configs) == 1:
        return first
    seeds = [seed for config in configs for seed in config.seeds]
    records = [config.record() for config in configs]
    return first | {"algo": "group", "seeds": seeds, "configs": records}


def _begun_groups(
    configs: Sequence[Config], missing: Sequence[Config], root: Path
) -> list[Sequence[Config]]:
    """Return the missing configurations in the groups in which they were begun, then the others.

    A group may hold configurations that were finished by themselves since it began.
    """
    if len(configs) == 1:
        return [configs]
    by_id = {config.run_id: config for config in configs}
    begun = storage.begun_groups(root, by_id, {config.run_id for config in missing}, busy=False)
    groups: list[Sequence[Config]] = [[by_id[id_] for id_ in ids] for ids in begun]
    others = [config for config in missing if not any(config in group for group in groups)]
    return [*groups, others] if others else groups


class _RunFinder:
    """Finds finished runs, and those that other code of a user's environment has made."""

    def __init__(self, configs: Sequence[Config], root: Path, options: TrainingOptions) -> None:
        self._configs, self._root, self._options = configs, root, options
        self._code: str | None = None
        """The hash of the environment's present code, once it is needed."""

    def runs(self) -> dict[str, storage.Run]:
        """Return the finished runs of the environment's present code, by id."""
        if self._options.replaces:
            return {}
        return {id_: run for id_, run in self._stored().items() if not self._is_by_other_code(run)}

    def set_others_aside(self) -> None:
        """Move the runs that other code has made to ids of their own, and say so."""
        for run in {} if self._options.replaces else self._stored().values():
            if self._is_by_other_code(run):
                moved = storage.move_run_to_id(run, {ENV_CODE: run.environment[ENV_CODE]})
                _log.warning(
                    "the code of %s has CHANGED since run %s was made: that run is now %s, and the "
                    "training begins anew",
                    run.config["env"],
                    run.id,
                    moved.id,
                )

    def _stored(self) -> dict[str, storage.Run]:
        runs = {
            each.run_id: storage.find_run_of_config(self._root, each.record())
            for each in self._configs
        }
        return {run_id: run for run_id, run in runs.items() if run is not None}

    def _is_by_other_code(self, run: storage.Run) -> bool:
        """Return whether the run's recorded code hash differs; without one it counts as equal."""
        if self._options.any_code:
            return False
        if self._code is None:
            parts = self._options.parts
            self._code = current_env_code(self._configs[0], parts.env, parts.env_timeout)
        return bool(run.environment.get(ENV_CODE, self._code) != self._code)


@contextlib.contextmanager
def _removed_at_the_end(part: Path) -> Iterator[None]:
    """Remove the folder of a training that is done, or that fails before its first checkpoint.

    An interrupt leaves the folder as it is.
    """
    try:
        yield
    except Exception:
        if not has_checkpoints(part / CHECKPOINTS):
            remove_folder(part)
        raise
    remove_folder(part)
