"""All tasks as Gymnasium and narl see them: ids, checker, pictures, presets, resumed trainings."""

import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import narl
from narl.deep import termination
from narl.deep.checked_config import make_config
from narl.deep.environment import open_env
from narl.deep.presets import find_preset
from narl.deep.training_run import TrainingStopped, run_training
from narl.gymnasium_registration import TASKS
from short_trainings import assert_same_outcome, short_config

COSTS = [(name, cost) for name, task in TASKS.items() for cost in task.costs]
REMARKS = (
    "ignore:.*A Box observation space m.*imum value is -?infinity",  # velocities have no bounds
    "ignore:.*For Box action spaces, we recommend",  # torques of Pusher and of the arm
)
"""Remarks of Gymnasium's checker on choices that the tasks' definitions make."""
STEPS = {
    "narl/SparsePendulum-v0": 20 * 400,
    "narl/SparseCartPole-v0": 200_000,
    "narl/SparseReacher-v0": 20_000,
    "narl/SparseArmReacher-v0": 50 * 150,
    "narl/Pusher-v0": 100 * 150,
    "narl/HalfCheetah-v0": 405_000,
    "MountainCarContinuous-v0": 20_000,
}
DIMENSIONS = {
    "narl/SparsePendulum-v0": (3, 1),
    "narl/SparseCartPole-v0": (5, 1),
    "narl/SparseReacher-v0": (10, 2),
    "narl/SparseArmReacher-v0": (17, 7),
    "narl/Pusher-v0": (23, 7),
    "narl/HalfCheetah-v0": (17, 6),
    "MountainCarContinuous-v0": (2, 1),
}


@pytest.mark.parametrize(("name", "cost"), COSTS)
def test_id_with_a_cost_equals_the_keyword(name, cost):
    named = open_env(f"narl/{name}-cost{cost:g}-v0", 0)
    given = open_env(f"narl/{name}-v0", 0, {"action_cost": cost})
    dear = open_env(f"narl/{name}-v0", 0, {"action_cost": cost + 1.0})
    for env in (named, given, dear):
        env.reset()
    action = np.full(named.spaces.action_dim, 0.7, np.float32)
    first, second, third = (env.step(action) for env in (named, given, dear))
    assert (first.reward, first.obs.tobytes()) == (second.reward, second.obs.tobytes())
    assert third.reward < first.reward - 0.1
    assert third.obs.tobytes() == first.obs.tobytes()
    for env in (named, given, dear):
        env.close()


@pytest.mark.parametrize("name", TASKS)
def test_cost_is_a_tenth_where_none_is_named(name):
    plain, named = (open_env(f"narl/{name}{cost}-v0", 0) for cost in ("", "-cost0.1"))
    plain.reset()
    named.reset()
    action = np.full(plain.spaces.action_dim, 0.7, np.float32)
    assert plain.step(action).reward == named.step(action).reward
    plain.close()
    named.close()


@pytest.mark.filterwarnings(*REMARKS)
@pytest.mark.parametrize("name", TASKS)
def test_task_passes_the_checker_of_gymnasium(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the checker makes copies, for which MuJoCo writes a log file
    host = open_env(f"narl/{name}-v0", 0)
    has_window = "human" in host.env.metadata["render_modes"]  # which needs a display
    check_env(host.env.unwrapped, skip_render_check=has_window)
    host.close()


@pytest.mark.slow
@pytest.mark.parametrize("env_id", STEPS)
def test_task_is_drawn_without_a_display(env_id, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    host = open_env(env_id, 0, render_mode="rgb_array")
    host.reset()
    first = host.render()
    for _ in range(25):
        host.step(np.full(host.spaces.action_dim, 0.5, np.float32))
    later = host.render()
    assert first.shape == later.shape
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 5
    assert (first != later).any(axis=-1).sum() > 20  # something moved
    host.close()


def test_ids_are_known_before_anything_of_narl_is_imported():
    program = """
import gymnasium, sys
env = gymnasium.make("narl:narl/SparsePendulum-cost0.2-v0")
assert not {"jax", "mujoco"} & set(sys.modules)
print(env.unwrapped.action_cost, env.spec.max_episode_steps)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={"PYTHONPATH": str(Path(narl.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.stdout) == ("", "0.2 400\n")


# --- presets and terminations -----------------------------------------------------------------


@pytest.mark.parametrize("env_id", STEPS)
def test_preset_has_the_budget_and_a_known_termination(env_id):
    config, preset = make_config(env_id), find_preset(env_id)
    assert config.steps == STEPS[env_id]
    assert config.learn_after == config.initial_steps
    assert config.rollout_length_at(config.steps) == 1
    ends = termination.never
    if env_id == "MountainCarContinuous-v0":
        ends = termination.mountain_car_continuous
        assert config.solved_return == 90.0
    assert preset.termination == ends
    with_module = find_preset(f"{'narl' if '/' in env_id else 'gymnasium'}:{env_id}")
    assert with_module.overrides == preset.overrides
    host = open_env(env_id, 0)
    assert (host.spaces.obs_dim, host.spaces.action_dim) == DIMENSIONS[env_id]
    host.close()


def test_every_task_has_a_preset_for_every_cost():
    assert {f"narl/{name}-v0" for name in TASKS} <= set(STEPS)
    for name, cost in COSTS:
        with_cost = find_preset(f"narl/{name}-cost{cost:g}-v0")
        assert with_cost.overrides == find_preset(f"narl/{name}-v0").overrides
    assert find_preset("narl/RiverSwim-v0") is None
    assert find_preset("narl/SparsePendulum-v1") is None


def test_half_cheetah_with_a_cost_has_the_settings_of_mbpo():
    assert find_preset("narl/HalfCheetah-cost0.5-v0").overrides == (
        find_preset("HalfCheetah-v5").overrides
    )


def test_mountain_car_with_another_goal_has_no_known_termination():
    assert find_preset("MountainCarContinuous-v0", {"goal_velocity": 0.01}).termination is None


def test_mountain_car_ends_as_gymnasium_says():
    host = open_env("MountainCarContinuous-v0", 0, scaling="none")
    rng = np.random.default_rng(0)
    before, after, terminated = [], [], []
    for _ in range(300):
        obs = host.reset()
        host.env.unwrapped.state = rng.uniform((0.38, -0.07), (0.52, 0.07))
        step = host.step(rng.uniform(-1, 1, 1).astype(np.float32))
        before.append(obs)
        after.append(step.obs)
        terminated.append(step.terminated)
    host.close()
    rule = find_preset("MountainCarContinuous-v0").termination
    done = rule(jnp.array(before), jnp.zeros((300, 1)), jnp.array(after))
    assert done.tolist() == terminated
    assert 30 < sum(terminated) < 270


# --- trainings --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("env_id", STEPS)
def test_training_is_resumed_bit_for_bit(env_id, tmp_path):
    config = short_config(env_id, seeds=(0, 1))
    ((whole, _),) = run_training([config], tmp_path / "whole")
    steps: list[int] = []
    for last in (137, 260):
        with pytest.raises(TrainingStopped):
            run_training(
                [config],
                tmp_path / "parts",
                on_step=steps.append,
                should_stop=lambda last=last: steps[-1:] == [last],
            )
    ((resumed, _),) = run_training([config], tmp_path / "parts")
    assert_same_outcome(resumed, whole)


@pytest.mark.slow
def test_command_trains_on_a_task_by_its_id(call):
    options = ["--steps", "60", "--initial-steps", "20", "--epoch-length", "20", "--algo", "sac"]
    small = ["--hidden", "8", "--batch", "8", "--updates-per-step", "1", "--eval-horizon", "20"]
    result = call("train", "narl/SparsePendulum-cost0.2-v0", *options, *small, "--json")
    assert (result.status, '"steps": 60' in result.out) == (0, True)
