"""The driver of trainings: configurations in, finished runs out.

`narl train`, `narl resume`, grids and experiments all call `run_training`. While a training goes
on, everything lies in `<root>/<id>.part/`; when it is done, the run folder `<root>/<id>/` takes its
place (see `narl.storage`).
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from narl import storage
from narl.deep.callbacks import wants_stop
from narl.deep.config import Config
from narl.deep.memory import check_memory
from narl.deep.session import Session, Stopped
from narl.deep.trainer import Trainer
from narl.deep.training_environment import choose_termination, open_training_env
from narl.deep.user_parts import NO_PARTS, UserParts, check_functions
from narl.storage.checkpoints import has_checkpoints
from narl.storage.folder import clear_folder, lock_folder
from narl.storage.unfinished import CHECKPOINTS, PART, list_unfinished_runs, record_config

__all__ = ["Stopped", "TrainingOptions", "check_training", "run_training"]

OnEpoch = Callable[[dict[str, Any]], bool | np.bool_ | None]
"""Called with the metrics of every epoch; False stops the training, NumPy's False too."""


class TrainingOptions(TypedDict, total=False):
    """Options of `run_training` that do not change the outcome."""

    on_start: Callable[[], None]
    """Called before the training, once it is known to be possible; not if the run is found."""
    on_epoch: OnEpoch
    on_step: Callable[[int], None]
    """Called with the number of environment steps after every step."""
    on_resume: Callable[[int], None]
    """Called with the step of the checkpoint from which the training goes on."""
    should_stop: Callable[[], bool]
    """Asked before every step; if True, a checkpoint is written and `Stopped` raised."""
    checkpoint_every: int
    """Epochs between two checkpoints."""
    fresh: bool
    """Train again, even if the run is there, finished or not."""
    unfinished: bool
    """Resume an unfinished training, even if a finished run is there."""
    parts: UserParts
    """The user's own environment, termination or selection; give such runs a root of their own."""


def run_training(
    configs: Sequence[Config], root: Path, **options: Unpack[TrainingOptions]
) -> list[tuple[storage.Run, bool]]:
    """Return the finished run of every configuration, and whether it was found in the store.

    The configurations must have one `shape`; those that are not in the store share one program.
    Each gets a run folder of its own, as if it had been trained alone. An unfinished training of
    the same configurations goes on from its last checkpoint.
    """
    storage.check_root(root)
    fresh, unfinished = options.get("fresh", False), options.get("unfinished", False)
    found = {} if fresh or unfinished else _find_runs(configs, root)
    missing = [config for config in configs if config.run_id not in found]
    if not missing:
        return [(found[config.run_id], True) for config in configs]
    group = _unfinished_group(configs, missing, root) or missing
    check_training(group, options.get("parts", NO_PARTS))
    options.get("on_start", lambda: None)()
    part = root / f"{storage.run_id(_group_record(group))}{PART}"
    with lock_folder(part), _removed_if_useless(part):
        # Another process may have finished the training while it held the lock.
        if not (fresh or unfinished) and len(runs := _find_runs(configs, root)) == len(configs):
            return [(runs[config.run_id], True) for config in configs]
        if fresh:
            clear_folder(part)
        record_config(part, _group_record(group), options.get("checkpoint_every", 1))
        trained = _train(group, part, root, options)
        shutil.rmtree(part, ignore_errors=True)
    # A run that was done before the others, and was lost since, is trained by itself.
    lost = [config for config in configs if config.run_id not in {*found, *trained}]
    if lost:
        rest = TrainingOptions(**options)
        rest["fresh"] = rest["unfinished"] = False
        trained |= {run.id: run for run, _ in run_training(lost, root, **rest)}
    both = found | trained
    return [(both[config.run_id], config.run_id in found) for config in configs]


def _train(
    configs: Sequence[Config], part: Path, root: Path, options: TrainingOptions
) -> dict[str, storage.Run]:
    """Train to the end in the folder ``part``; return the new runs by id."""
    on_epoch = options.get("on_epoch", lambda metrics: None)
    trainer = Trainer(configs, options.get("parts", NO_PARTS))
    session = Session(trainer, configs, part)
    with contextlib.closing(trainer), contextlib.closing(session.checkpoints):
        session.resume(options.get("on_resume", lambda step: None))
        for metrics in session.train(
            options.get("on_step", lambda step: None),
            options.get("should_stop", lambda: False),
            options.get("checkpoint_every", 1),
        ):
            if wants_stop(on_epoch(metrics)) and not trainer.is_over:
                session.stop()
        replace = options.get("fresh", False) or options.get("unfinished", False)
        return session.finish(root, replace)


def check_training(configs: Sequence[Config], parts: UserParts = NO_PARTS) -> None:
    """Refuse, before anything is compiled or written, a training that cannot be run."""
    config = configs[0]
    with contextlib.closing(open_training_env(config, 0, source=parts.env)) as env:
        choose_termination(config, env.spaces, parts)
        dims = env.spaces.obs_dim, env.spaces.action_dim
    check_functions(config, parts, *dims)
    check_memory(config, *dims, sum(len(config.seeds) for config in configs))


def _group_record(configs: Sequence[Config]) -> dict[str, Any]:
    """Return the JSON that describes an unfinished training of one or several configurations."""
    first = configs[0].record()
    if len(configs) == 1:
        return first
    seeds = [seed for config in configs for seed in config.seeds]
    records = [config.record() for config in configs]
    return first | {"algo": "group", "seeds": seeds, "configs": records}


def _unfinished_group(
    configs: Sequence[Config], missing: Sequence[Config], root: Path
) -> list[Config] | None:
    """Return the configurations of an unfinished group that holds all missing ones.

    The others in it were finished by themselves since the group began.
    """
    by_id = {config.run_id: config for config in configs}
    for left in list_unfinished_runs(root):
        ids = [storage.run_id(record) for record in left.config.get("configs", ())]
        fits = {config.run_id for config in missing} <= set(ids) <= set(by_id)
        if ids and fits and not left.problems and left.step > 0:
            return [by_id[run_id] for run_id in ids]
    return None


def _find_runs(configs: Sequence[Config], root: Path) -> dict[str, storage.Run]:
    """Return the finished runs that are in the store, by id."""
    runs = {config.run_id: storage.find_run(root, config.record()) for config in configs}
    return {run_id: run for run_id, run in runs.items() if run is not None}


@contextlib.contextmanager
def _removed_if_useless(part: Path) -> Iterator[None]:
    """Remove a folder that was not stopped by an interrupt and has no checkpoint in it.

    Either the training fails before its first checkpoint, or another process has finished it.
    """

    def remove() -> None:
        if not has_checkpoints(part / CHECKPOINTS):
            shutil.rmtree(part, ignore_errors=True)

    try:
        yield
    except Exception:
        remove()
        raise
    remove()
