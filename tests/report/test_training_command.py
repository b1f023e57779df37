"""The command of a training: parsed again, it gives the same configuration."""

import dataclasses
import shlex
from typing import Any

import pytest
from fake_trainings import POLE, TOY, training

from narl.commands import train
from narl.deep.checked_config import make_config
from narl.deep.config import Config, used_by
from narl.options import has_effect, options_of
from narl.report.training_summary import command_of, seeds_as_text

ALGORITHMS = ["narl", "mbpo", "sac", "sombrl", "hucrl", "thompson", "maxinfo"]
OTHER_VALUES: dict[str, Any] = {
    "steps": 7777, "epoch_length": 123, "initial_steps": 99, "learn_after": 5500,
    "random_repeat": 5,
    "updates_per_step": 3, "batch": 17, "real_share": 0.25, "buffer": 5000,
    "target_entropy": -0.125, "hidden": (64, 32, 16), "discount": 0.9, "polyak": 1e-5,
    "learning_rate": 1e-05, "initial_temperature": 0.3, "members": 6, "elites": 2,
    "model_every": 100, "model_width": 32, "model_depth": 2, "scale_targets": None,
    "model_learning_rate": 0.002, "model_batch": 32, "holdout_share": 0.0, "holdout_most": 10,
    "patience": 0, "most_model_epochs": 9, "rollout_batch": 50, "rollout_schedule": (1, 2, 3, 4),
    "retain_epochs": 3, "draw": "mean", "reward_transform": "symlog", "beta_nll": 0.5,
    "preset": "paper", "noise": "both", "noise_scale": 0.5, "radius": 2.5, "radius_unit": "spread",
    "exclude": "above", "exclude_by": "return", "score": "draw", "joint": True,
    "fallback": "random", "value_critics": "target", "optimism_at": "update", "anneal": "radius",
    "anneal_steps": 77, "bonus_weight": 0.25, "reach": 0.5, "num_candidates": 3,
    "one_member_per": "trajectory", "value_samples": 2, "termination": "never",
    "obs_scaling": None, "eval_episodes": 4,
    "critic_norm": "layer", "recent_starts": 0.5, "choose_among": "elites",
    "least_model_batches": 7, "noise_unit": "largest",
    "eval_horizon": 77, "solved_return": -150.5, "stop_when_no_better": 9,
    "seeds": (4, 5, 6), "until_solved": True,
}  # fmt: skip
"""A value for every option that is not its default; two of them depend on the preset."""


def config_of(command: str) -> Config:
    """Return the configuration that a command trains."""
    words = shlex.split(command)
    assert words[:2] == ["narl", "train"]
    given, _ = train.COMMAND.parse(words[2:])
    return make_config(**given)


def other_values(algo: str, env: str) -> dict[str, Any]:
    """Return a value that is not the default for every option of the algorithm."""
    names = {field.name for field in dataclasses.fields(Config)}
    assert set(OTHER_VALUES) == names - {"env", "algo"}
    default = make_config(env, algo)
    values = OTHER_VALUES | {
        "scale_targets": not default.scale_targets,
        "obs_scaling": "bounds" if default.obs_scaling == "none" else "none",
    }
    options, together = options_of(Config), dataclasses.asdict(default) | values
    used = {
        name: x
        for name, x in values.items()
        if algo in (used_by(name) or ALGORITHMS) and has_effect(options[name], together)
    }
    assert all(getattr(default, name) != value for name, value in used.items())
    return used


@pytest.mark.parametrize("env", [POLE, "Humanoid-v5", TOY])
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_command_of_defaults_has_no_options(env: str, algo: str) -> None:
    config = training(algo, env)
    assert command_of(config) == f"narl train {env} --algo {algo}"
    assert config_of(command_of(config)) == config


@pytest.mark.parametrize("env", ["Hopper-v5", TOY])
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_command_gives_all_options_again(env: str, algo: str) -> None:
    config = training(algo, env, **other_values(algo, env))
    assert config_of(command_of(config)) == config


def test_command_of_preset_names_only_the_preset() -> None:
    config = training("narl", preset="paper", radius=None)
    assert command_of(config) == f"narl train {POLE} --algo narl --preset paper --radius none"
    assert config_of(command_of(config)) == config


@pytest.mark.parametrize(
    "given",
    [
        {"initial_steps": 100},
        {"learn_after": 400},
        {"initial_steps": 300, "learn_after": 301},
    ],
)
def test_command_names_learn_after_only_where_it_was_given(given: dict[str, int]) -> None:
    config = training(**given)
    assert config_of(command_of(config)) == config
    assert ("--learn-after" in command_of(config)) == ("learn_after" in given)


@pytest.mark.parametrize(
    ("seeds", "text"),
    [((3,), "3"), ((0, 1), "0:2"), ((4, 5, 6), "4:7"), ((0, 2, 4), "0,2,4"), ((1, 0), "1,0")],
)
def test_seeds_are_ranges_where_they_can(seeds: tuple[int, ...], text: str) -> None:
    assert seeds_as_text(seeds) == text
    config = training(seeds=seeds, until_solved=True)
    command = f"narl train {POLE} --algo sac --seeds {text} --until-solved"
    assert command_of(config) == command
    assert config_of(command) == config


def test_command_leaves_out_what_has_no_effect() -> None:
    """A run from before a preset changed differs from it in an option that it does not use."""
    config = dataclasses.replace(make_config("MountainCar-v0"), noise_scale=0.5)
    assert command_of(config) == "narl train MountainCar-v0 --algo narl"
    noisy = dataclasses.replace(make_config("MountainCar-v0", noise="reward"), noise_scale=0.5)
    assert command_of(noisy).endswith("--noise reward --noise-scale 0.5")
    assert config_of(command_of(noisy)) == noisy
