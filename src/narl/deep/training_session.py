"""One process's pass through a training: steps, metrics log, checkpoints and finished runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from narl import __version__, storage
from narl.deep.best_policy import BestPolicies
from narl.deep.callbacks import stop_rule
from narl.deep.config import ENV_CODE, Config
from narl.deep.env_code import is_same_code
from narl.deep.metrics import curves, rows_of_replicas
from narl.deep.policy import interface_of
from narl.deep.presets import shortens_observations
from narl.deep.run_artifacts import actors, networks, not_written_by_narl, summary
from narl.deep.snapshot import Snapshot, restore, take_snapshot
from narl.deep.trainer import Trainer
from narl.errors import InputError
from narl.interrupts import STOP_SECONDS
from narl.storage.checkpoints import Checkpoint, Checkpoints, has_checkpoints, save_checkpoint
from narl.storage.metrics_log import METRICS_LOG, MetricsLog, rows_from_bytes, rows_to_bytes
from narl.storage.provenance import version_of
from narl.storage.unfinished import CHECKPOINTS, FINISHED_FOLDER, PART_SUFFIX

LOG = "metrics_log"
"""The array of a checkpoint that holds the bytes of the metrics log."""
_log = logging.getLogger("narl")


class TrainingStopped(KeyboardInterrupt):
    """A training was asked to stop; it can be resumed from the checkpoint of step ``kept``.

    Args:
        step: The step at which it stopped.
        kept: The step of the last checkpoint.

    Example:
        >>> print(narl.deep.TrainingStopped(step=700, kept=500))
        stopped at step 700, the last checkpoint is of step 500
    """

    def __init__(self, step: int, kept: int) -> None:
        behind = f", the last checkpoint is of step {kept}" if kept < step else ""
        super().__init__(f"stopped at step {step}{behind}")
        self.step, self.kept = step, kept


def train_epochs(
    trainer: Trainer,
    *,
    is_done: Callable[[], bool],
    should_stop: Callable[[], bool],
    on_step: Callable[[int], None],
) -> Iterator[dict[str, Any]]:
    """Train until it is done or should stop; yield the metrics of every epoch.

    This is the one loop over the steps of a training: `narl train`, experiments and
    `Agent.learn` all use it.
    """
    while not is_done() and not should_stop():
        metrics = trainer.step()
        on_step(trainer.counters.step)
        if metrics is not None:
            trainer.check_policies()
            yield metrics


class TrainingSession:
    """A training in its folder `<id>.part`, from its last checkpoint to its end or a stop."""

    def __init__(
        self,
        trainer: Trainer,
        configs: Sequence[Config],
        part: Path,
        env_code: str = "",
        any_code: bool = False,
    ) -> None:
        self.trainer, self.configs, self.part = trainer, configs, part
        self.checkpoints = Checkpoints(part / CHECKPOINTS, run=part.name.removesuffix(PART_SUFFIX))
        self._env_code, self._any_code = env_code, any_code
        self._metrics_log = MetricsLog(part / METRICS_LOG)
        self._lines = b""
        """The content of the metrics log; checkpoints hold it too, as the file may be damaged."""
        self._earlier = {"total": 0.0, "compile": 0.0}
        """Seconds that earlier processes spent on the training."""
        self._begin = time.perf_counter()
        self._best = BestPolicies()
        self._is_enough = stop_rule(trainer.config)
        self._ends_early = False
        """Whether the training ends with its last epoch, before its last step."""

    @property
    def is_done(self) -> bool:
        """Whether all steps are done, or the training ends earlier as its configuration says."""
        return self.trainer.is_over or self._ends_early

    def resume(self, on_resume: Callable[[int], None]) -> None:
        """Go back to the last checkpoint of an earlier process, if there is one."""
        if not has_checkpoints(self.checkpoints.folder):
            self._metrics_log.clear()
            return
        loaded = self.checkpoints.load()
        with not_written_by_narl(f"checkpoint: {loaded.path}", "begin anew with --fresh"):
            solved = self._restore(loaded)
        if not self._metrics_log.restore(self._lines):
            _log.warning(
                "%s is damaged or was changed; it is restored from checkpoint %s",
                METRICS_LOG,
                loaded.path.name,
            )
        for replicas in solved.values():
            self.trainer.deactivate(replicas)
        for run_id in storage.list_run_ids(self.part / FINISHED_FOLDER):
            if run_id not in solved:  # staged after the checkpoint: it is trained and staged again
                storage.remove_run(self.part / FINISHED_FOLDER, run_id)
        on_resume(loaded.step)

    def _restore(self, loaded: Checkpoint) -> dict[str, slice]:
        """Bring the trainer to the state of a checkpoint; return the configurations that are done.

        They are given by run id, with the places of their replicas.
        """
        self._check_code(str(loaded.notes.get(ENV_CODE, self._env_code)))
        if loaded.notes["versions"] != _versions():
            _log.warning(
                "the checkpoint was written by %s; this is %s: results may differ in their bits",
                loaded.notes["versions"],
                _versions(),
            )
        solved = self._solved_configs(loaded.notes["counters"]["solved_step"])
        inactive = {i for replicas in solved.values() for i in range(replicas.start, replicas.stop)}
        restore(self.trainer, loaded.arrays, loaded.notes, inactive)
        self.trainer.extend(self.trainer.last_step)  # an extended run skipped its last fit
        self._earlier = {name: float(loaded.notes["seconds"][name]) for name in self._earlier}
        self._lines = loaded.arrays[LOG].tobytes()
        self._best.restore(loaded.arrays)
        for row in rows_from_bytes(self._lines):
            self._ends_early = self._is_enough(row)
        return solved

    def _check_code(self, recorded: str) -> None:
        """Refuse to go on with other code of the environment than that of a checkpoint."""
        if is_same_code(recorded, self._env_code):
            self._env_code = recorded
            return
        line = f"the code of {self.configs[0].env} has changed since this training began"
        if not self._any_code:
            raise InputError(
                f"env: {line}; begin anew with --fresh, or go on with the new code: --any-code"
            )
        _log.warning("%s; it goes on with the new code", line)
        self._env_code = f"{recorded}+{self._env_code}"  # equals no code: it is made by both

    def train(
        self, on_step: Callable[[int], None], should_stop: Callable[[], bool], every: int
    ) -> Iterator[dict[str, Any]]:
        """Train to the end; yield the metrics of every epoch once they are in the log.

        A checkpoint is written after ``every`` epochs.
        """

        def stops() -> bool:
            self.checkpoints.check()
            return should_stop()

        trainer = self.trainer
        for metrics in train_epochs(
            trainer, is_done=lambda: self.is_done, should_stop=stops, on_step=on_step
        ):
            self._lines += self._metrics_log.append(metrics)
            self._ends_early = self._is_enough(metrics)
            self._best.update(metrics, actors(trainer))
            self._stage_solved()
            epoch = trainer.counters.step // trainer.config.epoch_length
            if epoch % every == 0 and not trainer.is_over:
                self.save()
            yield metrics
        if not self.is_done:
            self.stop()

    def stop(self) -> None:
        """End here, with a checkpoint of this moment unless writing it takes too long."""
        begin, step = time.perf_counter(), self.trainer.counters.step
        self.checkpoints.wait()
        waited = time.perf_counter() - begin
        if step > self.checkpoints.kept and waited + self.checkpoints.seconds < STOP_SECONDS:
            self.trainer.check_policies()
            self.save()
            self.checkpoints.wait()
        raise TrainingStopped(step, self.checkpoints.kept)

    def save(self) -> None:
        """Write a checkpoint of this moment; a large one is on disk some time later."""
        counters, begin = self.trainer.counters, time.perf_counter()
        self.checkpoints.wait()  # before there is yet another copy of everything
        snapshot = self._snapshot()
        self.checkpoints.save(counters.step, snapshot.arrays, snapshot.notes, snapshot.size)
        counters.seconds["checkpoint"] += time.perf_counter() - begin

    def _snapshot(self) -> Snapshot:
        """Return the content of a checkpoint of this moment."""
        snapshot = take_snapshot(self.trainer)
        notes = snapshot.notes | {"seconds": self._seconds(), "versions": _versions()}
        notes |= {ENV_CODE: self._env_code}
        lines, best = np.frombuffer(self._lines, np.uint8), self._best.arrays()
        return Snapshot(notes, snapshot.size, lambda: snapshot.arrays() | best | {LOG: lines})

    def finish(self, root: Path, replace: bool, keep_data: bool = False) -> dict[str, storage.Run]:
        """Write the run folders; return the runs by id.

        A run that was staged earlier and has been lost since is not among them. With ``keep_data``,
        which is for a single configuration, the run folder holds a checkpoint of this moment too.
        """
        self.checkpoints.wait()
        runs = {}
        solved = self._solved_configs(self.trainer.counters.solved_step)
        for config, replicas in self._replicas_of_configs():
            staged = storage.find_run_of_config(self.part / FINISHED_FOLDER, config.record())
            if staged is not None:
                runs[config.run_id] = storage.move_run(staged, root, replace)
            elif config.run_id not in solved:
                runs[config.run_id] = self._write_run(root, config, replicas, replace, keep_data)
            elif (
                not replace
                and (run := storage.find_run_of_config(root, config.record())) is not None
            ):
                runs[config.run_id] = run  # a process that was killed here had moved it
        return runs

    def _seconds(self) -> dict[str, float]:
        """Return the seconds spent in all and on compiling, over all processes."""
        own = {
            "total": time.perf_counter() - self._begin,
            "compile": self.trainer.replicas.compiler.seconds,
        }
        return {name: self._earlier[name] + own[name] for name in own}

    def _replicas_of_configs(self) -> Iterator[tuple[Config, slice]]:
        """Yield every configuration with the places of its replicas."""
        begin = 0
        for config in self.configs:
            yield config, slice(begin, begin + len(config.seeds))
            begin += len(config.seeds)

    def _solved_configs(self, solved_step: Sequence[int | None]) -> dict[str, slice]:
        """Return the replicas of configurations that are done before the others, by run id."""
        if len(self.configs) == 1 or not self.trainer.config.until_solved:
            return {}
        pairs = self._replicas_of_configs()
        return {config.run_id: part for config, part in pairs if None not in solved_step[part]}

    def _stage_solved(self) -> None:
        """Write the runs of configurations solved at this step to `FINISHED_FOLDER`.

        Their replicas are deactivated, while the others go on.
        """
        counters = self.trainer.counters
        solved = self._solved_configs(counters.solved_step)
        for config, replicas in self._replicas_of_configs():
            if config.run_id in solved and counters.step in counters.solved_step[replicas]:
                self._write_run(self.part / FINISHED_FOLDER, config, replicas, replace=True)
                self.trainer.deactivate(replicas)

    def _write_run(
        self, root: Path, config: Config, replicas: slice, replace: bool, keep_data: bool = False
    ) -> storage.Run:
        trainer, seconds = self.trainer, self._seconds()

        def save_data(folder: Path) -> None:
            data = self._snapshot()
            step, arrays = trainer.counters.step, data.arrays()
            save_checkpoint(folder / CHECKPOINTS, step, arrays, data.notes, run=config.run_id)

        rows = [rows_of_replicas(row, replicas) for row in rows_from_bytes(self._lines)]
        interface = interface_of(trainer.envs.example, shortens_observations(config.env))
        return storage.save_run(
            root,
            config.record(),
            summary(trainer, rows, seconds, replicas),
            networks(trainer, replicas)
            | self._best.arrays(replicas)
            | interface.arrays()
            | curves(rows),
            device=jax.devices()[0].device_kind,
            seconds=seconds["total"],
            replace=replace,
            extras={METRICS_LOG: rows_to_bytes(rows)},
            provenance={ENV_CODE: self._env_code} if self._env_code else None,
            checkpoint=save_data if keep_data else None,
        )


def _versions() -> dict[str, str]:
    """Return the versions and the device on which the bits of a training depend."""
    names = ("jax", "jaxlib", "optax", "gymnasium", "mujoco")
    own = {"narl": __version__, "device": jax.devices()[0].device_kind}
    return own | {name: version_of(name) for name in names}
