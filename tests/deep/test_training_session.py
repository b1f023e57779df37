"""One process's pass through a training: checkpoints, damage and the metrics log."""

import logging
import shutil

import jax
import numpy as np
import pytest
from quick_trainings import quick_config, stop_at, train, train_until

from narl.deep import training_session
from narl.deep.counters import new_counters
from narl.deep.finite_check import NonFiniteError
from narl.deep.trainer import Trainer
from narl.deep.training_session import TrainingStopped, train_epochs
from narl.errors import InputError
from narl.storage import checkpoints, list_unfinished_runs
from short_trainings import assert_same_outcome, checkpoints_of, flip_bit

CONFIG = quick_config()
PART = f"{CONFIG.run_id}.part"
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def stopped_root(tmp_path_factory, cache):
    """A training with checkpoints of steps 40 and 47; to be copied."""
    root = tmp_path_factory.mktemp("stopped")
    train_until(47, [CONFIG], root)
    return root


@pytest.fixture
def root(stopped_root, tmp_path):
    """A copy of the stopped training."""
    return shutil.copytree(stopped_root, tmp_path / "runs")


def assert_resumed(root, step, whole, caplog):
    """Resume a training and compare it with an uninterrupted one; return the warnings."""
    resumed = []
    with caplog.at_level(logging.WARNING, "narl"):
        run = train(CONFIG, root, on_resume=resumed.append)
    assert resumed == [step]
    assert_same_outcome(run, whole)
    return caplog.messages


# --- the loop ---------------------------------------------------------------------------------


class FakeTrainer:
    """Counts its steps and ends an epoch after every second one."""

    def __init__(self):
        self.counters, self.calls = new_counters(1), []

    def step(self):
        self.counters.step += 1
        self.calls.append(self.counters.step)
        return {"step": self.counters.step} if self.counters.step % 2 == 0 else None

    def check_policies(self):
        self.calls.append("check")


@pytest.mark.parametrize(("stop", "done", "num_steps"), [(9, 4, 4), (3, 9, 3), (0, 9, 0)])
def test_epochs_are_trained_until_done_or_stopped(stop, done, num_steps):
    trainer, steps = FakeTrainer(), []
    epochs = train_epochs(
        trainer,
        is_done=lambda: len(steps) >= done,
        should_stop=lambda: len(steps) >= stop,
        on_step=steps.append,
    )
    assert [metrics["step"] for metrics in epochs] == list(range(2, num_steps + 1, 2))
    assert steps == list(range(1, num_steps + 1))
    assert trainer.calls == [1, 2, "check", 3, 4, "check"][: num_steps + num_steps // 2]


# --- damage -----------------------------------------------------------------------------------


@slow
def test_killed_training_loses_the_steps_after_the_checkpoint(whole, tmp_path, caplog):
    """The folder is copied as `kill -9` would leave it at that moment."""

    def copy_folder(step):
        if step == 53:
            shutil.copytree(tmp_path / "runs" / PART, tmp_path / "left" / PART)

    train(CONFIG, tmp_path / "runs", on_step=copy_folder)
    assert assert_resumed(tmp_path / "left", 40, whole, caplog) == []


@slow
def test_damaged_checkpoint_falls_back_to_the_previous_checkpoint(whole, root, caplog):
    kept = checkpoints_of(root, CONFIG)
    assert [path.name for path in kept] == ["step-000000040", "step-000000047"]
    flip_bit(kept[-1])
    (root / PART / "progress.jsonl").unlink()
    warnings = assert_resumed(root, 40, whole, caplog)
    assert "step-000000047 is damaged" in warnings[0]
    assert warnings[1:] == [
        "progress.jsonl is damaged or was changed; it is restored from checkpoint step-000000040"
    ]


@slow
def test_metrics_log_that_is_damaged_during_a_training_does_no_harm(whole, tmp_path):
    def damage(metrics):
        if metrics["step"] == 40:
            (tmp_path / PART / "progress.jsonl").write_bytes(b"X")

    assert_same_outcome(train(CONFIG, tmp_path, on_epoch=damage), whole)


@slow
def test_training_without_an_intact_checkpoint_is_refused_until_begun_anew(whole, root):
    for path in checkpoints_of(root, CONFIG):
        flip_bit(path)
    with pytest.raises(InputError, match=r"no intact one in .*; begin anew with --fresh$"):
        train(CONFIG, root)
    (left,) = list_unfinished_runs(root)
    assert left.problems[0] == "no checkpoint is intact"
    assert_same_outcome(train(CONFIG, root, fresh=True), whole)


@slow
def test_changed_log_and_other_versions_are_warned_of(whole, root, caplog, monkeypatch):
    log = root / PART / "progress.jsonl"
    changed = log.read_bytes().replace(b'"step": 20,', b'"step": 21,', 1)
    assert changed != log.read_bytes()
    log.write_bytes(changed)
    monkeypatch.setattr(training_session, "version_of", lambda name: "9.9")
    versions, restored = assert_resumed(root, 47, whole, caplog)
    assert "results may differ in their bits" in versions
    assert "restored from checkpoint step-000000047" in restored


@slow
def test_networks_that_are_not_finite_are_not_kept(tmp_path, monkeypatch, cache):
    """The losses of an epoch are finite before its last update is known to be."""
    check_policies = Trainer.check_policies

    def check(trainer):
        if trainer.counters.step == 40:
            state = jax.tree.map(np.copy, trainer.to_host())
            state.sac.log_alpha[0] = np.nan
            trainer.from_host(state)
        check_policies(trainer)

    monkeypatch.setattr(Trainer, "check_policies", check)
    with pytest.raises(NonFiniteError, match=r"step 40: seed 0: sac\.log_alpha is nan"):
        train(CONFIG, tmp_path)
    assert [path.name for path in checkpoints_of(tmp_path, CONFIG)] == ["step-000000020"]


# --- checkpoints and the time they take -------------------------------------------------------


@slow
def test_checkpoints_are_as_rare_as_asked_for_and_count_epochs_from_the_beginning(whole, tmp_path):
    seen = []

    def look(metrics):
        steps = [int(path.name.removeprefix("step-")) for path in checkpoints_of(tmp_path, CONFIG)]
        seen.append((metrics["step"], steps))

    train_until(30, [CONFIG], tmp_path, checkpoint_every=2, on_epoch=look)
    run = train(CONFIG, tmp_path, checkpoint_every=2, on_epoch=look)
    assert seen == [(20, []), (40, [30, 40]), (60, [30, 40])]
    assert_same_outcome(run, whole)


@slow
def test_checkpoints_in_the_background_change_no_outcome(whole, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(checkpoints, "BACKGROUND", 0)
    train_until(33, [CONFIG], tmp_path)
    assert assert_resumed(tmp_path, 33, whole, caplog) == []


@slow
def test_failed_write_in_the_background_ends_the_training(tmp_path, monkeypatch, cache):
    monkeypatch.setattr(checkpoints, "BACKGROUND", 0)
    write_arrays, calls = checkpoints.write_arrays, []

    def full_disk(folder, arrays):
        calls.append(folder)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return write_arrays(folder, arrays)

    monkeypatch.setattr(checkpoints, "write_arrays", full_disk)
    with pytest.raises(OSError, match="checkpoint step-000000040 was not saved: No space left"):
        train(CONFIG, tmp_path)
    assert [path.name for path in checkpoints_of(tmp_path, CONFIG)] == ["step-000000020"]


@slow
def test_stop_that_would_take_too_long_leaves_the_checkpoint_before(
    whole, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(training_session, "STOP_SECONDS", 0.0)
    with pytest.raises(
        TrainingStopped, match=r"^stopped at step 30, the last checkpoint is of step 20$"
    ):
        train(CONFIG, tmp_path, **stop_at(30))
    assert_resumed(tmp_path, 20, whole, caplog)


@slow
def test_seconds_add_up_over_processes(tmp_path, monkeypatch, cache):
    init = Trainer.__init__

    def slow_to_compile(trainer, *arguments, **options):
        init(trainer, *arguments, **options)
        trainer.replicas.compiler.seconds += 1000.0

    monkeypatch.setattr(Trainer, "__init__", slow_to_compile)
    train_until(30, [CONFIG], tmp_path)
    seconds = train(CONFIG, tmp_path).metrics["seconds"]
    assert 2000.0 <= seconds["compile"] < 3000.0
    assert 0.0 < seconds["checkpoint"] < seconds["total"]
