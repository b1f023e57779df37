"""Finished runs that go on to more steps, to the last bit; and those that cannot."""

import dataclasses
import logging
import shutil

import jax
import numpy as np
import pytest
from quick_trainings import actions_of, quick_config, train, train_until

import narl
from narl import storage
from narl.deep.ensemble_fit import fit_scale
from narl.deep.extended_run import begin_extended_run, extended_config, keeps_data
from narl.deep.training_run import run_training
from narl.errors import InputError
from short_trainings import assert_same_outcome, flip_bit

pytestmark = pytest.mark.usefixtures("cache")
slow = pytest.mark.slow

SHORT = quick_config(steps=40)


@pytest.fixture(scope="module")
def short(tmp_path_factory, cache):
    """A finished run of 40 steps that keeps its data; tests do not change it."""
    return train(SHORT, tmp_path_factory.mktemp("short"), keep_data=True)


def extend(run, steps, **options):
    """Extend a run in its folder; return the new run and the step from which it went on."""
    config = extended_config(run, steps)
    begin_extended_run(run, config)
    resumed = []
    new = train(config, run.path.parent, on_resume=resumed.append, **options)
    return new, resumed


def changed_run(run, config=None, **metrics):
    """Return a run that records another configuration or other metrics."""
    record = run.config if config is None else config.record()
    return dataclasses.replace(run, config=record, metrics=run.metrics | metrics)


@slow
def test_extended_run_equals_an_uninterrupted_one(whole, short, tmp_path):
    new, resumed = extend(short, 60)
    assert resumed == [40]
    assert_same_outcome(new, whole)
    assert new.id == whole.id != short.id
    names = {path.name for path in short.path.parent.iterdir() if not path.name.startswith(".")}
    assert names == {short.id, new.id}
    assert not keeps_data(new)
    # The data do not belong to the outcome: the short run is that of a training without them.
    assert_same_outcome(train(SHORT, tmp_path), short)


@slow
def test_extended_run_with_a_model_equals_an_uninterrupted_one(tmp_path):
    """Buffers get longer, and the fit that was left out at the end is made up for."""
    options = {"rollout_schedule": (0, 2, 1, 3), "holdout_most": 10, "model_batch": 16}
    expected = train(quick_config("narl", **options), tmp_path / "whole")
    short = train(quick_config("narl", steps=40, **options), tmp_path / "parts", keep_data=True)
    new, resumed = extend(short, 60)
    assert resumed == [40]
    assert_same_outcome(new, expected)


def test_scale_of_the_data_does_not_depend_on_the_length_of_the_buffer():
    """One bit of it would change every fit, and a run could not be extended."""
    rows = np.random.default_rng(0).normal(1.0, 3.0, (290, 5)).astype(np.float32)
    scales = []
    for capacity in (300, 310, 600, 1201):
        padded = np.zeros((capacity, 5), np.float32)
        padded[:290] = rows
        scale = jax.jit(fit_scale)(padded, np.arange(capacity) < 290)
        scales.append(np.concatenate(scale).tobytes())
    assert len(set(scales)) == 1


@slow
def test_extension_that_was_stopped_is_continued(whole, short, tmp_path):
    run = storage.load_run(_copy(short, tmp_path))
    config = extended_config(run, 60)
    begin_extended_run(run, config, keep_data=True)
    unfinished = storage.open_unfinished_run(tmp_path / f"{config.run_id}.part")
    assert (unfinished.step, unfinished.problems, unfinished.keep_data) == (40, (), True)
    train_until(50, [config], tmp_path, keep_data=True)
    new, resumed = extend(run, 60, keep_data=True)  # a later checkpoint is not replaced
    assert resumed == [50]
    assert_same_outcome(new, whole)
    assert keeps_data(new)


@slow
def test_agent_of_a_run_with_its_data_learns_on(whole, short):
    agent = narl.load(short.path).learn(20)
    assert agent.num_steps == 60
    assert actions_of(agent) == actions_of(narl.load(whole.path))


@slow
def test_run_without_what_it_needs_is_refused(whole, short, tmp_path):
    for run, steps, message in (
        (whole, 80, f"{whole.id} does not keep its data; train it again with --keep-data --fresh"),
        (short, 40, f"steps: 40 given; {short.id} has 40 already, so give more"),
        (changed_run(short, steps=20), 60, "ended at step 20 of 40, as until_solved or"),
        (
            changed_run(short, quick_config(steps=50), steps=50),
            60,
            "50 steps end in the middle of an epoch (such as 40 or 60 would not); train all 60",
        ),
        (
            changed_run(short, quick_config("narl", steps=40)),
            60,
            "in their last bits; with --holdout-most 40 --model-batch 40 they would not; train all "
            "60 steps from the beginning, or go on in Python without the guarantee of equal bits: "
            f'`narl.load("{short.path}").learn(20)`',
        ),
        (dataclasses.replace(short, environment={"narl": "0.0"}), 60, "narl 0.0 made"),
        (changed_run(short, steps=None), 60, "does not hold what narl writes"),
    ):
        with pytest.raises(InputError) as refused:
            extended_config(run, steps)
        assert message in str(refused.value)
    damaged = storage.load_run(_copy(short, tmp_path))
    flip_bit(damaged.path / storage.CHECKPOINTS / "step-000000040")
    with pytest.raises(InputError, match=r"no intact one .*; train it again with --keep-data"):
        begin_extended_run(damaged, extended_config(damaged, 60))
    assert [path.name for path in tmp_path.iterdir()] == [damaged.id]  # nothing is left of it


@slow
def test_keeping_data_says_when_they_are_of_no_use(whole, tmp_path, caplog):
    with pytest.raises(InputError, match="keep_data: 2 configurations share a program"):
        run_training([SHORT, quick_config(steps=40, seeds=(1,))], tmp_path, keep_data=True)
    with caplog.at_level(logging.WARNING, "narl"):
        ((_, found),) = run_training([quick_config()], whole.path.parent, keep_data=True)
    assert found
    assert caplog.messages == [
        f"{whole.id} is there without its data; --fresh trains it again with them"
    ]
    caplog.clear()
    uneven = quick_config(steps=50)
    with caplog.at_level(logging.WARNING, "narl"):
        train_until(1, [uneven], tmp_path, keep_data=True)
    assert "cannot be extended with `narl train --extend`: 50 steps end in" in caplog.messages[0]


def _copy(run, root):
    """Copy the folder of a run to another root and return it."""
    return shutil.copytree(run.path, root / run.id)
