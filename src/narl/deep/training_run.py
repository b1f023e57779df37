"""A training that is kept: a journal and checkpoints on the way, a run folder at the end.

While it goes on, everything lies in `<runs>/<id>.part/`; when it is done, the run folder
`<runs>/<id>/` takes its place (see `narl.storage.runs`).
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import jax
import numpy as np

from narl import __version__, storage
from narl.deep.callbacks import is_no
from narl.deep.checkpoint import flatten_tree, reinstate, snapshot
from narl.deep.environment import MakeEnv
from narl.deep.memory import check_memory
from narl.deep.plan import Course, Group, course_from
from narl.deep.presets import find_preset
from narl.deep.rollout import Ends
from narl.deep.run_artifacts import CURVES, curves, interface, networks, of_lanes, summary
from narl.deep.trainer import Fault, Training, choose_ends, open_course
from narl.errors import InputError
from narl.storage.checkpoints import Checkpoint, Checkpoints
from narl.storage.lock import hold
from narl.storage.metrics_log import NAME as JOURNAL
from narl.storage.metrics_log import MetricsLog, rows_from_bytes, rows_to_bytes, valid_lines
from narl.storage.provenance import version_of
from narl.storage.unfinished import (
    CHECKPOINTS,
    COURSE,
    PART,
    STAGED,
    list_unfinished_runs,
    record_config,
)

__all__ = ["Course", "Group", "Stopped", "course_from", "open_course", "train", "train_together"]
_log = logging.getLogger("narl")

LINES = "journal"
"""The array of a checkpoint that holds the bytes of the journal."""
PATIENCE = 7.0
"""Seconds within which a training that is stopped should end."""
OnEpoch = Callable[[dict[str, Any]], bool | np.bool_ | None]
"""Called with every line of the journal; False ends the training, NumPy's too."""


class Stopped(KeyboardInterrupt):
    """The training was asked to stop; it can be continued from step ``kept``."""

    def __init__(self, step: int, kept: int) -> None:
        behind = f", the last checkpoint is of step {kept}" if kept < step else ""
        super().__init__(f"stopped at step {step}{behind}")
        self.step, self.kept = step, kept


def check_course(
    course: Course | Group, make_env: MakeEnv | None = None, termination: Ends | None = None
) -> None:
    """Refuses, before anything is compiled or written, what cannot be trained."""
    settings = course.settings
    if course.until_solved and settings.solved_return is None:
        raise InputError(
            f"until_solved: {settings.env} has no return that counts as solved; give solved_return"
        )
    task = find_preset(settings.env) if make_env is None else None
    with contextlib.closing(open_course(settings, 0, make_env=make_env)) as env:
        choose_ends(settings, env.spaces, termination, task.termination if task else None)
        dims = env.spaces.obs_dim, env.spaces.action_dim
    check_memory(settings, *dims, len(course.specs()))


class How(TypedDict, total=False):
    """How a course is trained; see `train_together`."""

    on_epoch: OnEpoch
    on_step: Callable[[int], None]
    on_resume: Callable[[int], None]
    should_stop: Callable[[], bool]
    checkpoint_every: int
    fresh: bool
    unfinished: bool
    make_env: MakeEnv | None
    termination: Ends | None


def train(course: Course, root: Path, **how: Unpack[How]) -> tuple[storage.Run, bool]:
    """The finished run, found in the store (True) or trained to its end now (False)."""
    ((run, found),) = train_together([course], root, **how)
    return run, found


def train_together(
    courses: Sequence[Course],
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
) -> list[tuple[storage.Run, bool]]:
    """The finished runs of courses of one shape; those that are not in the store share a program.

    Every course gets a run folder of its own, as if it had been trained alone. An unfinished
    training of the same courses is continued from its last checkpoint, and ``on_resume`` is told of
    which step that is; with ``unfinished`` even where finished runs are there, as after a ``fresh``
    training that was stopped. ``checkpoint_every`` counts epochs; it has no influence on the
    outcome. When ``should_stop`` says so, a checkpoint is written and `Stopped` raised.
    ``make_env`` and ``termination`` are not part of a run's id: give them a root of their own.
    """
    storage.check_root(root)
    anew = fresh or unfinished
    done = {} if anew else _finished(courses, root)
    missing = tuple(course for course in courses if course.id not in done)
    if not missing:
        return [(done[course.id], True) for course in courses]
    plan = _begun(courses, missing, root) or (missing[0] if len(missing) == 1 else Group(missing))
    check_course(plan, make_env, termination)
    part = root / f"{plan.id}{PART}"
    with hold(part), _leaving_no_empty(part):
        # Whoever held the folder before may have finished it.
        if not anew and len(done := _finished(courses, root)) == len(courses):
            return [(done[course.id], True) for course in courses]
        if fresh:
            _empty(part)
        record_config(part, plan.config(), checkpoint_every)
        training = Training(plan.settings, plan.specs(), make_env=make_env, termination=termination)
        walk = _Walk(training, plan, part)
        with contextlib.closing(training), contextlib.closing(walk.checkpoints):
            walk.prepare(on_resume)
            for row in walk.steps(on_step, should_stop, checkpoint_every):
                if is_no(on_epoch(row)) and not training.is_over:
                    walk.stop()
            made = walk.finish(root, replace=anew)
        shutil.rmtree(part, ignore_errors=True)
    # One that was done before the others, and damaged or lost since, is trained by itself.
    if lost := [course for course in courses if course.id not in {*done, *made}]:
        how = How(on_epoch=on_epoch, on_step=on_step, on_resume=on_resume, should_stop=should_stop)
        how |= How(checkpoint_every=checkpoint_every, make_env=make_env, termination=termination)
        made |= {run.id: run for run, _ in train_together(lost, root, **how)}
    return [(done[c.id], True) if c.id in done else (made[c.id], False) for c in courses]


def _begun(courses: Sequence[Course], missing: Sequence[Course], root: Path) -> Group | None:
    """An unfinished group of some of these courses, with all that are missing.

    The others in it have been finished by themselves since it began.
    """
    known = {course.id: course for course in courses}
    for left in list_unfinished_runs(root):
        ids = [storage.run_id(config) for config in left.config.get("courses", ())]
        fits = {course.id for course in missing} <= set(ids) <= set(known)
        if ids and fits and not left.problems and left.step > 0:
            return Group(tuple(known[id_] for id_ in ids))
    return None


def _finished(courses: Sequence[Course], root: Path) -> dict[str, storage.Run]:
    """Those that are in the store, by id."""
    found = {course.id: storage.find_run(root, course.config()) for course in courses}
    return {id_: run for id_, run in found.items() if run is not None}


class _Walk:
    """One process's way through a training."""

    def __init__(self, training: Training, course: Course | Group, part: Path) -> None:
        self.training, self.course, self.part = training, course, part
        self.journal = MetricsLog(part / JOURNAL)
        self.lines = b""
        """What the journal holds; every checkpoint has them, in case that its file is damaged."""
        self.checkpoints = Checkpoints(part / CHECKPOINTS)
        self.before = {"total": 0.0, "compile": 0.0}
        """Seconds that earlier processes have spent."""
        self.began = time.perf_counter()
        self._said = False

    def prepare(self, on_resume: Callable[[int], None]) -> None:
        """Begins anew, or goes back to where an earlier process came."""
        if not any(self.checkpoints.folder.glob("step-*")):
            self.journal.path.unlink(missing_ok=True)
            self._say(*(env.capture_problem for env in self.training.envs))
            return
        found = self.checkpoints.load()
        versions = _versions()
        if found.notes["versions"] != versions:
            _log.warning(
                "the checkpoint was written by %s; this is %s: results may differ in their bits",
                found.notes["versions"],
                versions,
            )
        over = self._over(found.notes["books"]["solved_step"])
        retired = {i for lanes in over.values() for i in range(lanes.start, lanes.stop)}
        reinstate(self.training, found.arrays, found.notes, retired)
        self.before = {name: float(found.notes["seconds"][name]) for name in self.before}
        self._bring_back_journal(found)
        for lanes in over.values():
            self.training.retire(lanes)
        for part in self.course.parts:
            if part.id not in over and part.id in storage.list_run_ids(self.part / STAGED):
                storage.remove_run(self.part / STAGED, part.id)  # it comes again
        on_resume(found.step)

    def _bring_back_journal(self, found: Checkpoint) -> None:
        """To what it was at the checkpoint, whatever has become of its file since.

        Checkpoints once held the number of its bytes alone: of a journal that was damaged since,
        what can still be read is kept then.
        """
        offset, training = int(found.notes["journal"]), self.training
        what = f"it is restored from checkpoint {found.path.name}"
        if LINES in found.arrays:
            self.lines = found.arrays[LINES].tobytes()
        else:
            model = ("model_return", "estimation_error")
            names = [x for x in CURVES if training.settings.uses_model or x not in model]
            before = self.journal.lines()[:offset]
            self.lines = valid_lines(before, ["epoch", *names], len(training.specs), found.step)
            what = "only the epochs that can still be read are kept"
        if not self.journal.restore(self.lines) or len(self.lines) != offset:
            _log.warning("%s is damaged or was changed; %s", JOURNAL, what)
        if not self.lines and self._is_done:
            raise InputError(f"{JOURNAL}: it is lost; begin anew with --fresh")

    @property
    def _is_done(self) -> bool:
        training = self.training
        return training.is_over or (self.course.until_solved and training.all_solved)

    @property
    def seconds(self) -> dict[str, float]:
        """Spent in all, and on compiling, over all processes."""
        own = {
            "total": time.perf_counter() - self.began,
            "compile": self.training.runner.compile_seconds,
        }
        return {name: self.before[name] + own[name] for name in own}

    def steps(
        self, on_step: Callable[[int], None], should_stop: Callable[[], bool], every: int
    ) -> Iterator[dict[str, Any]]:
        """Trains; gives the line of every epoch once it is in the journal."""
        training, course = self.training, self.course
        while not self._is_done:
            if should_stop():
                self.stop()
            self.checkpoints.check()
            row = training.advance()
            step = training.books.step
            on_step(step)
            if row is not None:
                self.journal.append(row)
                self.lines += rows_to_bytes([row])
                self._stage_solved()
                if step // course.settings.epoch_length % every == 0 and not training.is_over:
                    self.save()
                yield row

    def stop(self) -> None:
        """Ends here, with a checkpoint of this moment, if it does not take too long."""
        begin, step, checkpoints = time.perf_counter(), self.training.books.step, self.checkpoints
        checkpoints.wait()
        waited = time.perf_counter() - begin
        if step > checkpoints.kept and waited + checkpoints.seconds < PATIENCE:
            self.save()
            checkpoints.wait()
        raise Stopped(step, checkpoints.kept)

    def _say(self, *problems: str | None) -> None:
        """That the state of an environment cannot be kept, once."""
        problem = next(filter(None, problems), None)
        if problem is not None and not self._said:
            _log.warning("%s; when it is resumed, the episode is repeated up to there", problem)
            self._said = True

    def save(self) -> None:
        """A checkpoint of this moment; a large one is on disk some time later."""
        begin, training = time.perf_counter(), self.training
        self.checkpoints.wait()  # before there is yet another copy of everything
        taken, step = snapshot(training), training.books.step
        notes = taken.notes
        sac = training.runner.export(training.state, lambda learner: {"sac": learner.sac})
        wanted = [i for i in range(len(training.specs)) if i not in training.retired]
        for name, array in flatten_tree(sac).items():
            if not np.isfinite(array[wanted]).all():
                raise Fault(f"step {step}: {name} is not finite")
        found = (state["problem"] for state in notes["envs"])
        self._say(*(f"{training.envs[0].name}: {problem}" for problem in found if problem))
        notes |= {
            "journal": len(self.lines),
            "seconds": self.seconds,
            "versions": _versions(),
        }
        lines = np.frombuffer(self.lines, np.uint8)
        self.checkpoints.save(step, lambda: taken.arrays() | {LINES: lines}, notes, taken.size)
        training.books.seconds["checkpoint"] += time.perf_counter() - begin

    @property
    def _lanes(self) -> Iterator[tuple[Course, slice]]:
        """The courses, each with its lanes."""
        begin = 0
        for part in self.course.parts:
            yield part, slice(begin, begin + len(part.seeds))
            begin += len(part.seeds)

    def _over(self, solved_step: Sequence[int | None]) -> dict[str, slice]:
        """Among several courses, the lanes of those that have solved their task, by id."""
        if len(self.course.parts) == 1 or not self.course.until_solved:
            return {}
        return {part.id: lanes for part, lanes in self._lanes if None not in solved_step[lanes]}

    def _stage_solved(self) -> None:
        """Among several courses, one that is done now is kept as it is now; the others go on."""
        books = self.training.books
        over = self._over(books.solved_step)
        for part, lanes in self._lanes:
            if part.id in over and books.step in books.solved_step[lanes]:
                self._keep(self.part / STAGED, part, lanes, replace=True)
                self.training.retire(lanes)

    def finish(self, root: Path, replace: bool) -> dict[str, storage.Run]:
        """The run folders, by id; without those that were done before and have been lost since."""
        self.checkpoints.wait()
        made = {}
        over = self._over(self.training.books.solved_step)
        for part, lanes in self._lanes:
            staged = storage.find_run(self.part / STAGED, part.config())
            if staged is not None:
                made[part.id] = storage.move_run(staged, root, replace)
            elif part.id not in over:
                made[part.id] = self._keep(root, part, lanes, replace)
            elif (run := storage.find_run(root, part.config())) is not None:
                made[part.id] = run  # a process that was killed here had come so far
        return made

    def _keep(self, root: Path, part: Course, lanes: slice, replace: bool) -> storage.Run:
        training, seconds = self.training, self.seconds
        rows = [of_lanes(row, lanes) for row in rows_from_bytes(self.lines)]
        arrays = networks(training, lanes) | interface(training).arrays() | curves(rows)
        return storage.save_run(
            root,
            part.config(),
            summary(part.settings, training, rows, seconds, lanes),
            arrays,
            device=jax.devices()[0].device_kind,
            seconds=seconds["total"],
            replace=replace,
            extras={JOURNAL: rows_to_bytes(rows)},
        )


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
    for name in (CHECKPOINTS, STAGED):
        shutil.rmtree(part / name, ignore_errors=True)
    for name in (JOURNAL, COURSE):
        (part / name).unlink(missing_ok=True)
