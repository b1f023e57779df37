"""A training that is kept: a journal and checkpoints on the way, a run folder at the end.

While it goes on, everything lies in `<runs>/<id>.part/`; when it is done, the run folder
`<runs>/<id>/` takes its place (see `narl.store`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from narl import __version__, store
from narl.deep.checkpoint import flatten_tree, hold, load_checkpoint, save_checkpoint
from narl.deep.envs import MakeEnv
from narl.deep.journal import NAME as JOURNAL
from narl.deep.journal import Journal
from narl.deep.policy import Interface, interface_of
from narl.deep.resume import capture, reinstate
from narl.deep.rollout import Ends
from narl.deep.settings import Settings
from narl.deep.tasks import find_task
from narl.deep.train import Fault, LaneSpec, Training, choose_ends, open_course
from narl.deep.unfinished import CHECKPOINTS, COURSE, PART, record_course
from narl.errors import InputError
from narl.provenance import version_of

_log = logging.getLogger("narl")

OnEpoch = Callable[[dict[str, Any]], bool | None]
"""Called with every line of the journal; False ends the training."""


class Stopped(KeyboardInterrupt):
    """The training was asked to stop; it can be continued from step ``kept``."""

    def __init__(self, step: int, kept: int) -> None:
        behind = f", the last checkpoint is of step {kept}" if kept < step else ""
        super().__init__(f"stopped at step {step}{behind}")
        self.step, self.kept = step, kept


@dataclasses.dataclass(frozen=True)
class Course:
    """What is trained, and nothing else."""

    settings: Settings
    seeds: tuple[int, ...] = (0,)
    until_solved: bool = False
    """Stop when every seed has solved the task."""

    def config(self) -> dict[str, Any]:
        """What the run folder records and its name is a hash of."""
        return {
            "experiment": "train",
            "algo": self.settings.algo,
            "env": self.settings.env,
            "seeds": list(self.seeds),
            "until_solved": self.until_solved,
            "settings": dataclasses.asdict(self.settings),
        }

    @property
    def id(self) -> str:
        return store.run_id(self.config())

    def specs(self) -> list[LaneSpec]:
        settings = self.settings
        return [LaneSpec(seed, settings.algo, settings.radius) for seed in self.seeds]


def course_from(config: dict[str, Any]) -> Course:
    """The course that a configuration describes."""
    try:
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in config["settings"].items()
        }
        settings = Settings(**values)
        return Course(settings, tuple(config["seeds"]), config["until_solved"])
    except (KeyError, TypeError) as error:
        raise InputError(f"run: its configuration is not one of this version ({error})") from None


def check_course(
    course: Course, make_env: MakeEnv | None = None, termination: Ends | None = None
) -> None:
    """Refuses, before anything is compiled or written, what cannot be trained."""
    settings = course.settings
    if course.until_solved and settings.solved_return is None:
        raise InputError(
            f"until_solved: {settings.env} has no return that counts as solved; give solved_return"
        )
    task = find_task(settings.env) if make_env is None else None
    with contextlib.closing(open_course(settings, 0, make_env=make_env)) as env:
        choose_ends(settings, env.spaces, termination, task.termination if task else None)


def train(
    course: Course,
    root: Path,
    *,
    on_epoch: OnEpoch = lambda row: None,
    on_step: Callable[[int], None] = lambda step: None,
    on_resume: Callable[[int], None] = lambda step: None,
    should_stop: Callable[[], bool] = lambda: False,
    checkpoint_every: int = 1,
    fresh: bool = False,
    unfinished: bool = False,
    make_env: MakeEnv | None = None,
    termination: Ends | None = None,
) -> tuple[store.Run, bool]:
    """The finished run, found in the store (True) or trained to its end now (False).

    An unfinished training of the same configuration is continued from its last checkpoint, and
    ``on_resume`` is told of which step that is; with ``unfinished`` even where a finished run is
    there, as after a ``fresh`` training that was stopped. ``checkpoint_every`` counts epochs.
    When ``should_stop`` says so, a checkpoint is written and `Stopped` raised.
    """
    store.check_root(root)
    config = course.config()
    anew = fresh or unfinished
    if not anew and (found := store.find(root, config)) is not None:
        return found, True
    check_course(course, make_env, termination)
    part = root / f"{course.id}{PART}"
    with hold(part), _leaving_no_empty(part):
        if not anew and (found := store.find(root, config)) is not None:
            return found, True  # whoever held the folder before has finished it
        if fresh:
            _empty(part)
        record_course(part, config, checkpoint_every)
        training = Training(
            course.settings, course.specs(), make_env=make_env, termination=termination
        )
        with contextlib.closing(training):
            walk = _Walk(training, course, part, config)
            walk.prepare(on_resume)
            for row in walk.steps(on_step, should_stop, checkpoint_every):
                if on_epoch(row) is False and not training.is_over:
                    walk.stop()
            kept = walk.finish(root, replace=anew)
        shutil.rmtree(part, ignore_errors=True)
    return kept, False


class _Walk:
    """One process's way through a training."""

    def __init__(
        self, training: Training, course: Course, part: Path, config: dict[str, Any]
    ) -> None:
        self.training, self.course, self.part, self.config = training, course, part, config
        self.journal = Journal(part / JOURNAL)
        self.checkpoints = part / CHECKPOINTS
        self.kept = 0
        """The step of the last checkpoint."""
        self.before = 0.0
        """Seconds that earlier processes have spent."""
        self.began = time.perf_counter()
        self._said = False

    def prepare(self, on_resume: Callable[[int], None]) -> None:
        """Begins anew, or goes back to where an earlier process came."""
        if not any(self.checkpoints.glob("step-*")):
            self.journal.path.unlink(missing_ok=True)
            if (problem := self._problem()) is not None:
                self._say(problem)
            return
        found = load_checkpoint(self.checkpoints)
        versions = _versions()
        if found.notes["versions"] != versions:
            _log.warning(
                "the checkpoint was written by %s; this is %s: results may differ in their bits",
                found.notes["versions"],
                versions,
            )
        reinstate(self.training, found.arrays, found.notes)
        if any(state["problem"] for state in found.notes["envs"]):
            self.training.cut_episodes()
        self.before = float(found.notes["seconds"])
        self.journal.truncate_after(int(found.notes["journal"]))
        self.kept = found.step
        on_resume(found.step)

    @property
    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.began

    def steps(
        self, on_step: Callable[[int], None], should_stop: Callable[[], bool], every: int
    ) -> Iterator[dict[str, Any]]:
        """Trains; gives the line of every epoch once it is in the journal."""
        training, course = self.training, self.course
        epochs = 0
        while not training.is_over and not (course.until_solved and training.all_solved):
            if should_stop():
                self.stop()
            row = training.advance()
            on_step(training.books.step)
            if row is not None:
                epochs += 1
                self.journal.append(row)
                if epochs % every == 0 and not training.is_over:
                    self.keep()
                yield row

    def keep(self) -> None:
        """A checkpoint between two epochs.

        An environment whose state cannot be kept begins a new episode here: what follows is
        then the same whether the training is stopped or not.
        """
        if (problem := self._problem()) is not None:
            self._say(problem)
            self.training.cut_episodes()
        self._save()

    def stop(self) -> None:
        """Ends here, with a checkpoint of this moment where environments allow it."""
        step = self.training.books.step
        if step > self.kept and self._problem() is None:
            self._save()
        raise Stopped(step, self.kept)

    def _problem(self) -> str | None:
        """Why the state of an environment cannot be kept now."""
        return next(filter(None, (env.capture_problem for env in self.training.envs)), None)

    def _say(self, problem: str) -> None:
        if not self._said:
            _log.warning("%s; its episodes are cut at checkpoints", problem)
        self._said = True

    def _save(self) -> None:
        arrays, notes = capture(self.training)
        step = self.training.books.step
        for name, array in arrays.items():
            if name.startswith("learner.sac.") and not np.isfinite(array).all():
                raise Fault(f"step {step}: {name.removeprefix('learner.')} is not finite")
        notes |= {
            "journal": self.journal.offset,
            "seconds": self.seconds,
            "versions": _versions(),
        }
        save_checkpoint(self.checkpoints, step, arrays, notes)
        self.kept = step

    def finish(self, root: Path, replace: bool) -> store.Run:
        """The run folder."""
        training = self.training
        rows = self.journal.rows()
        arrays = networks(training) | interface(training).arrays() | curves(rows)
        return store.save(
            root,
            self.config,
            summary(self.course, training, rows, self.seconds),
            arrays,
            device=jax.devices()[0].device_kind,
            seconds=self.seconds,
            replace=replace,
            extras={JOURNAL: self.journal.path.read_bytes()},
        )


def networks(training: Training) -> dict[str, np.ndarray]:
    """What was learned: actor, critics, ensemble, termination."""
    learner = training.export()
    trees = {"sac": learner.sac, "ensemble": learner.ensemble, "ending": learner.ending}
    return flatten_tree({name: tree for name, tree in trees.items() if tree is not None})


def interface(training: Training) -> Interface:
    """What the policy sees and gives."""
    return interface_of(training.envs[0], sees_first_entries(training.settings.env))


def sees_first_entries(env_id: str) -> bool:
    """Whether the policy sees the first entries of what `gymnasium.make` gives by default."""
    task = find_task(env_id)
    return task is not None and (task.obs_keep is not None or bool(task.env_kwargs))


CURVES = ("eval_return", "eval_length", "train_return", "model_return", "estimation_error")


def curves(rows: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
    """What a chart needs, [epochs] and [epochs, seeds]."""
    found = {"step": np.array([row["step"] for row in rows], np.int64)}
    for name in CURVES:
        if rows and name in rows[0]:
            values = [[np.nan if x is None else x for x in row[name]] for row in rows]
            found[name] = np.array(values, np.float64)
    return found


def summary(
    course: Course, training: Training, rows: Sequence[dict[str, Any]], seconds: float
) -> dict[str, Any]:
    """What `narl train --json` prints."""
    books, settings = training.books, course.settings
    learned = max(books.step - settings.learn_after, 0)
    return {
        "solved_step": list(books.solved_step),
        "final_return": rows[-1]["eval_return"],
        "steps": books.step,
        "policy_steps": max(books.step - settings.initial_steps, 0),
        "updates": learned * settings.updates_per_step,
        "episodes": list(books.num_episodes),
        "seconds": {
            "compile": training.runner.compile_seconds,
            **books.seconds,
            "total": seconds,
        },
    }


def _versions() -> dict[str, str]:
    """On what the bits of a training depend."""
    names = ("jax", "jaxlib", "optax", "gymnasium", "mujoco")
    own = {"narl": __version__, "device": jax.devices()[0].device_kind}
    return own | {name: version_of(name) for name in names}


@contextlib.contextmanager
def _leaving_no_empty(part: Path) -> Iterator[None]:
    """A training that goes wrong before its first checkpoint leaves nothing behind."""
    try:
        yield
    except Exception:
        if not any((part / CHECKPOINTS).glob("step-*")):
            shutil.rmtree(part, ignore_errors=True)
        raise


def _empty(part: Path) -> None:
    """Removes an unfinished training, but not the lock that is held."""
    shutil.rmtree(part / CHECKPOINTS, ignore_errors=True)
    for name in (JOURNAL, COURSE):
        (part / name).unlink(missing_ok=True)
