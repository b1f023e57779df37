"""Configurations made and checked: from a preset and options, or from what a run recorded."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Unpack

from narl.deep.algorithm_registry import ALGORITHMS, find_algorithm
from narl.deep.config import Config, used_by
from narl.deep.option_types import Settings
from narl.errors import InputError, NoEffect
from narl.option_differences import without_defaults
from narl.options import (
    as_plain,
    check_effect,
    check_names,
    check_used_by,
    check_values,
    has_effect,
    options_of,
)
from narl.validation import check_seeds

OTHER_NAMES = {
    "batch_size": "batch",
    "buffer_size": "buffer",
    "ensemble_size": "members",
    "epsilon": "radius",
    "gamma": "discount",
    "gradient_steps": "updates_per_step",
    "learning_starts": "initial_steps",
    "lr": "learning_rate",
    "n_eval_episodes": "eval_episodes",
    "net_arch": "hidden",
    "tau": "polyak",
    "total_timesteps": "steps",
}
"""Names that other libraries use for our options."""


PAPER_READING: Mapping[str, Any] = MappingProxyType(
    {
        "noise": "model",
        "radius": 0.1,
        "radius_unit": "absolute",
        "exclude": "ball",
        "exclude_by": "each",
        "choose_among": "all",
        "score": "mean",
        "joint": False,
        "fallback": "closest",
        "value_critics": "online",
        "optimism_at": "selection",
    }
)
"""The reading of §6.1 and App. E that is closest to their text; docs/decisions.md says why."""


def make_config(env: str, algo: str = "narl", **options: Unpack[Settings]) -> Config:
    """Return the checked configuration: the environment's preset, then the given ``options``.

    Args:
        env: A Gymnasium id.
        algo: A name of `ALGORITHMS`.
        **options: Fields of `Config`. None stands for the default, except for the radius, where it
            means that there is none.

    Returns:
        The configuration; an option that is unknown, out of range or without effect is an error.

    Example:
        >>> config = narl.deep.make_config("Hopper-v5", "narl", radius=0.5, seeds="0:3")
        >>> config.steps, config.seeds
        (130000, (0, 1, 2))
    """
    from narl.deep.presets import find_preset

    find_algorithm(algo)
    if not isinstance(env, str):
        raise InputError(f"env: {type(env).__name__} given; it must be an id, such as Hopper-v5")
    given: dict[str, Any] = {**options}
    check_names(given, Config, OTHER_NAMES)
    if given.get("seeds") is not None:
        given["seeds"] = check_seeds(given["seeds"])
    given = {name: as_plain(value) for name, value in given.items()}
    given = {name: x for name, x in given.items() if x is not None or name == "radius"}
    check_used_by(given, used_by, algo, "algorithm")
    preset = find_preset(env)
    values: dict[str, Any] = {} if preset is None else dict(preset.overrides)
    if given.get("preset") == "paper":
        values |= PAPER_READING
    values |= given
    if "initial_steps" in given and "learn_after" not in given:
        values["learn_after"] = given["initial_steps"]
    config = Config(env=env, algo=algo, **values)
    if "exclude" not in values and not _radius_excludes(config):
        config = dataclasses.replace(config, exclude="above")
    check_config(config, given)
    return dataclasses.replace(config, **check_values(config))


def check_config(config: Config, given: Collection[str] = ("steps",)) -> None:
    """Refuse a configuration that cannot be trained, in one line that names the field.

    Where two fields contradict each other, the line names the one that was ``given``.
    """
    find_algorithm(config.algo)
    _check_length(config, given)  # it names the true bound of the steps
    check_values(config)
    first, last, shortest, longest = _schedule(config)
    if not first <= last or min(shortest, longest) < 1:
        raise InputError(
            f"rollout_schedule: {config.rollout_schedule!r} is wrong; it must be E0,E1,K0,K1 "
            "with E0 <= E1 and K0, K1 >= 1, such as 20,150,1,15"
        )
    if config.elites is not None and config.elites > config.num_members:
        raise InputError(
            f"elites: {config.elites} is too large; the nearest valid value is "
            f"{config.num_members} (members)"
        )
    if config.learn_after < config.initial_steps:
        raise InputError(
            f"learn_after: {config.learn_after} is too small; the nearest valid value is "
            f"{config.initial_steps} (initial_steps)"
        )
    if config.until_solved and config.solved_return is None:
        raise InputError(
            f"until_solved: no return counts as solved for {config.env}; give solved_return"
        )
    check_effect(given, options_of(Config), used_options(config))
    if "choose_among" in given and _all_are_elite(config):
        raise NoEffect(
            "choose_among",
            f"it has no effect with members {config.num_members} and elites {config.num_elites}, "
            "only with more members than elites; leave it out",
        )
    if config.anneal == "radius" and config.radius is None:
        raise InputError("anneal: radius cannot fall from none; give a radius, or anneal share")


def _schedule(config: Config) -> tuple[int, ...]:
    schedule = config.rollout_schedule
    return schedule if len(schedule) == 4 else (0, -1, 0, 0)


def _check_length(config: Config, given: Collection[str]) -> None:
    """Refuse a training that ends before its first update; `check_values` is for other numbers."""
    steps, begin = config.steps, config.learn_after
    if not type(steps) is type(begin) is int or begin < 1 or steps > begin:
        return
    name, first = "initial_steps", f"{begin} random steps come first"
    if begin > config.initial_steps:
        name, first = "learn_after", f"updates begin after {begin} steps"
    if "steps" in given or name not in given or steps <= 1:
        raise InputError(
            f"steps: {steps} is too small; {first}, so at least {begin + 1}, "
            f"or give a smaller {name}"
        )
    raise InputError(
        f"{name}: {begin} is too large; the nearest valid value is {steps - 1}, "
        f"for there are {steps} steps in all"
    )


def _radius_excludes(config: Config) -> bool:
    """Return whether `exclude` decides what is trained.

    Elsewhere it only decides how the diagnostics judge members, and is what it always was, above
    (ball with the paper's preset), so that the ids and the metrics of these runs stay.
    """
    used = used_options(config)
    return "exclude" in used and has_effect(options_of(Config)["exclude"], used)


def _all_are_elite(config: Config) -> bool:
    """Return whether NARL is to choose among the elites, and all members are elite anyway."""
    return config.choose_among == "elites" and config.num_members == config.num_elites


def used_options(config: Config) -> dict[str, Any]:
    """Return the options that the algorithm uses, by name."""
    users = {field.name: used_by(field.name) for field in dataclasses.fields(config)}
    return {
        name: getattr(config, name)
        for name, algos in users.items()
        if not algos or config.algo in algos
    }


def options_with_effect(config: Config) -> dict[str, Any]:
    """Return the options that decide what is trained."""
    used, described = used_options(config), options_of(Config)
    return {
        name: value
        for name, value in used.items()
        if has_effect(described[name], used)
        and not (name == "choose_among" and _all_are_elite(config))
    }


def with_numbers(options: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """Return options with the numbers of members and elites that defaults stand for."""
    numbers = {"members": config.num_members, "elites": config.num_elites}
    return {name: numbers.get(name, value) for name, value in options.items()}


def usual_config(config: Config) -> Config:
    """Return the defaults for the algorithm and the environment of a configuration."""
    preset: dict[str, Any] = {} if config.preset == Config.preset else {"preset": config.preset}
    usual = make_config(config.env, config.algo, **preset)
    # A preset of the environment without a radius has no reading of it either.
    return dataclasses.replace(usual, exclude=Config.exclude)


def usual_settings(usual: Config, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults by name, where these settings are given.

    Updates begin after the initial steps, unless learn_after is given.
    """
    initial_steps = settings.get("initial_steps", usual.initial_steps)
    is_usual = initial_steps == usual.initial_steps
    return vars(usual) | ({} if is_usual else {"learn_after": initial_steps})


def changed_options(config: Config) -> dict[str, Any]:
    """Return the options that differ from the defaults for the algorithm and the environment.

    Options without effect are left out, because a command that gives them is refused.
    """
    usual = usual_settings(usual_config(config), vars(config))
    preset: dict[str, Any] = {} if config.preset == Config.preset else {"preset": config.preset}
    return preset | without_defaults(options_with_effect(config), usual)


def config_from_record(record: Mapping[str, Any]) -> Config:
    """Return the configuration that a run folder recorded (see `Config.record`)."""
    if record.get("experiment") != "train":
        raise InputError("run: it is no training; give a run of `narl train`")
    if "configs" in record:
        raise InputError(
            f"run: it is {len(record['configs'])} trainings together; the command that began "
            "them continues them"
        )
    try:
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in record["settings"].items()
        }
        config = Config(**values, seeds=tuple(record["seeds"]), until_solved=record["until_solved"])
        is_known = config.algo in ALGORITHMS
    except (KeyError, TypeError) as error:
        raise InputError(
            f"run: its configuration is not one of this version of narl ({error})"
        ) from None
    if not is_known:
        raise InputError(
            f"run: its algorithm {config.algo!r} is not part of narl: it was registered by Python "
            "code; in Python, import that module and use narl.load"
        )
    return config
