"""A training that is kept: a journal and checkpoints on the way, a run folder at the end.

While it goes on, everything lies in `<runs>/<id>.part/`; when it is done, the run folder
`<runs>/<id>/` takes its place (see `narl.store`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from narl import store
from narl.deep.checkpoint import flatten_tree, hold, load_checkpoint, save_checkpoint
from narl.deep.envs import MakeEnv
from narl.deep.journal import NAME, Journal
from narl.deep.resume import capture, reinstate
from narl.deep.rollout import Ends
from narl.deep.settings import Settings
from narl.deep.train import LaneSpec, Training
from narl.errors import InputError
from narl.provenance import version_of

PART = ".part"
_log = logging.getLogger("narl")

OnEpoch = Callable[[dict[str, Any]], bool | None]
"""Called with every line of the journal; False ends the training."""


class Stopped(KeyboardInterrupt):
    """The training was asked to stop and has left a checkpoint; the message says where."""


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


def train(
    course: Course,
    root: Path,
    *,
    on_epoch: OnEpoch = lambda row: None,
    on_step: Callable[[int], None] = lambda step: None,
    should_stop: Callable[[], bool] = lambda: False,
    checkpoint_every: int = 1,
    fresh: bool = False,
    make_env: MakeEnv | None = None,
    termination: Ends | None = None,
) -> tuple[store.Run, bool]:
    """The finished run, found in the store (True) or trained to its end now (False).

    An unfinished training of the same configuration is continued from its last checkpoint.
    ``checkpoint_every`` counts epochs. When ``should_stop`` says so, a checkpoint is written and
    `Stopped` raised.
    """
    store.check_root(root)
    config = course.config()
    if not fresh and (found := store.find(root, config)) is not None:
        return found, True
    part = root / f"{course.id}{PART}"
    with hold(part):
        if fresh:
            _empty(part)
        training = Training(
            course.settings, course.specs(), make_env=make_env, termination=termination
        )
        with contextlib.closing(training):
            walk = _Walk(training, course, part, config)
            walk.prepare()
            for row in walk.steps(on_step, should_stop, checkpoint_every):
                if on_epoch(row) is False:
                    walk.save()
                    raise Stopped(f"stopped at step {training.books.step}")
            kept = walk.finish(root, replace=fresh)
    shutil.rmtree(part, ignore_errors=True)
    return kept, False


class _Walk:
    """One process's way through a training."""

    def __init__(
        self, training: Training, course: Course, part: Path, config: dict[str, Any]
    ) -> None:
        self.training, self.course, self.part, self.config = training, course, part, config
        self.journal = Journal(part / NAME)
        self.checkpoints = part / "checkpoints"
        self.before = 0.0
        """Seconds that earlier processes have spent."""
        self.began = time.perf_counter()
        self.cuts = not all(env.capturable for env in training.envs)
        """Whether episodes are cut at checkpoints, as their state cannot be kept."""

    def prepare(self) -> None:
        """Writes what is trained, or goes back to where an earlier process came."""
        versions = _versions()
        if not any(self.checkpoints.glob("step-*")):
            content = json.dumps({"config": self.config, "versions": versions}, indent=2) + "\n"
            (self.part / "course.json").write_text(content, encoding="utf-8")
            (self.part / NAME).unlink(missing_ok=True)
            if self.cuts:
                _log.warning(
                    "%s; its episodes are cut at checkpoints", self.training.envs[0].capture_problem
                )
            return
        found = load_checkpoint(self.checkpoints)
        reinstate(self.training, found.arrays, found.notes)
        if self.cuts:
            self.training.cut_episodes()
        self.before = float(found.notes["seconds"])
        self.journal.truncate_after(int(found.notes["journal"]))
        if found.notes["versions"] != versions:
            _log.warning(
                "the checkpoint was written by %s; this is %s: results may differ in their bits",
                found.notes["versions"],
                versions,
            )

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
            row = training.advance()
            on_step(training.books.step)
            if row is not None:
                epochs += 1
                self.journal.append(row)
                if epochs % every == 0 and not training.is_over:
                    if self.cuts:
                        training.cut_episodes()
                    self.save()
                yield row
            if should_stop():
                if not self.cuts:
                    self.save()
                raise Stopped(f"stopped at step {training.books.step}")

    def save(self) -> None:
        """A checkpoint of this moment."""
        arrays, notes = capture(self.training)
        notes |= {
            "journal": self.journal.offset,
            "seconds": self.seconds,
            "versions": _versions(),
        }
        save_checkpoint(self.checkpoints, self.training.books.step, arrays, notes)

    def finish(self, root: Path, replace: bool) -> store.Run:
        """The run folder."""
        training = self.training
        rows = self.journal.rows()
        learner = training.export()
        networks = {"sac": learner.sac, "ensemble": learner.ensemble, "ending": learner.ending}
        arrays = flatten_tree({name: tree for name, tree in networks.items() if tree is not None})
        arrays |= curves(rows)
        return store.save(
            root,
            self.config,
            summary(self.course, training, rows, self.seconds),
            arrays,
            device=jax.devices()[0].device_kind,
            seconds=self.seconds,
            replace=replace,
            extras={NAME: (self.part / NAME).read_bytes()},
        )


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
    return {name: version_of(name) for name in names} | {"device": jax.devices()[0].device_kind}


def _empty(part: Path) -> None:
    """Removes an unfinished training, but not the lock that is held."""
    shutil.rmtree(part / "checkpoints", ignore_errors=True)
    for name in (NAME, "course.json"):
        (part / name).unlink(missing_ok=True)
