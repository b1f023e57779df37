"""The presets against MBPO's table, and against the environments they are for."""

import dataclasses

import jax.numpy as jnp
import pytest

from narl import paper
from narl.deep import termination
from narl.deep.environment import open_env
from narl.deep.presets import Task, find_preset

# epoch length, updates per step, schedule, target entropy, model every, retained, width, random
MBPO = {
    # 500 random steps in MBPO, 250 here: docs/decisions.md
    "InvertedPendulum": (250, 10, (1, 15, 1, 1), -0.05, 250, 1, 200, 250),
    "Hopper": (1000, 20, (20, 150, 1, 15), -1, 250, 1, 200, 5000),
    "HalfCheetah": (1000, 40, (20, 150, 1, 1), -3, 250, 1, 200, 5000),
    "Walker2d": (1000, 20, (20, 150, 1, 1), -3, 250, 1, 200, 5000),
    "Ant": (1000, 20, (20, 100, 1, 25), -4, 250, 1, 200, 5000),
    "Humanoid": (1000, 20, (20, 300, 1, 25), -2, 1000, 5, 400, 5000),
}
FIELDS = (
    *("epoch_length", "updates_per_step", "rollout_schedule", "target_entropy"),
    *("model_every", "retain_epochs", "model_width", "initial_steps"),
)
DIMENSIONS = {
    "InvertedPendulum": (4, 1),
    "Hopper": (11, 3),
    "HalfCheetah": (17, 6),
    "Walker2d": (17, 6),
    "Ant": (27, 8),
    "Humanoid": (45, 17),
}


@pytest.mark.parametrize("version", ["v4", "v5"])
@pytest.mark.parametrize("name", MBPO)
def test_settings_are_those_of_mbpo(name, version):
    task = find_preset(f"{name}-{version}")
    assert task.name == f"{name}-{version}"
    assert tuple(task.overrides[field] for field in FIELDS) == MBPO[name]
    further = {"steps", "solved_return", "learn_after", "eval_episodes", "scale_targets"}
    assert set(task.overrides) == {*FIELDS, *further}
    assert task.overrides["eval_episodes"] == 1
    assert task.overrides["scale_targets"] is False


def test_steps_and_thresholds():
    steps = {name: find_preset(f"{name}-v5").overrides["steps"] for name in MBPO}
    assert list(steps.values()) == [5_000, 125_000, 400_000, 300_000, 300_000, 300_000]
    solved = {name: find_preset(f"{name}-v4").overrides["solved_return"] for name in MBPO}
    assert list(solved.values()) == [1000, 3800, 4800, None, None, None]


@pytest.mark.parametrize("version", ["v4", "v5"])
@pytest.mark.parametrize("name", MBPO)
def test_dimensions_are_those_of_mbpo(name, version):
    task = find_preset(f"{name}-{version}")
    host = open_env(task.name, 0, task.env_kwargs, obs_keep=task.obs_keep)
    assert (host.spaces.obs_dim, host.spaces.action_dim) == DIMENSIONS[name]
    assert host.reset().shape == (DIMENSIONS[name][0],)
    assert host.time_limit == 1000
    host.close()


def test_both_versions_of_humanoid_show_the_same():
    first = {}
    for version in ("v4", "v5"):
        task = find_preset(f"Humanoid-{version}")
        host = open_env(task.name, 3, task.env_kwargs, obs_keep=task.obs_keep)
        first[version] = host.reset().tolist()
        host.close()
    assert first["v4"] == first["v5"]


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "Hopper-v3", "Hopper", "Hopper-v50", "v5", ""])
def test_other_environments_have_no_preset(env_id):
    assert find_preset(env_id) is None


def test_the_users_arguments_decide_whether_the_known_ending_holds():
    ending = {
        key: find_preset("Hopper-v5", {key: value}).termination
        for key, value in {
            "healthy_z_range": (0.5, 2.0),
            "xml_file": "mine.xml",
            "exclude_current_positions_from_observation": False,
            "terminate_when_unhealthy": False,
            "ctrl_cost_weight": 0.0,
        }.items()
    }
    assert ending == {
        "healthy_z_range": None,
        "xml_file": None,
        "exclude_current_positions_from_observation": None,
        "terminate_when_unhealthy": termination.never,
        "ctrl_cost_weight": termination.hopper,
    }


def test_tasks_cannot_be_changed():
    task = find_preset("Hopper-v5")
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.name = "other"
    with pytest.raises(TypeError):
        task.overrides["steps"] = 1


def test_a_task_without_known_ending():
    task = Task("Mine-v0", {"steps": 3}, None)
    assert task.termination is None
    assert dict(task.env_kwargs) == {}


def test_the_paper_map_knows_the_presets():
    assert "narl.deep.presets:find_preset" in paper._registry["app:d"]


def test_endings_take_arrays():
    task = find_preset("Walker2d-v4")
    obs = jnp.array([[1.2, 0.0], [0.5, 0.0]])
    assert task.termination(obs, obs, obs).tolist() == [False, True]
