"""The environments of a training, and the rule by which imagined episodes end in its model."""

from __future__ import annotations

import contextlib
import math
from typing import Any

from narl.deep.config import Config
from narl.deep.environment import EnvRecipe, HostEnv
from narl.deep.make_environment import EnvSource
from narl.deep.policy import Interface, interface_of
from narl.deep.presets import Preset, find_preset, shortens_observations
from narl.deep.spaces import Spaces, unscale_action, unscale_obs
from narl.deep.termination import TerminationFn, never
from narl.deep.user_parts import UserParts
from narl.errors import InputError, NoEffect


def open_training_env(
    config: Config,
    seed: int,
    render_mode: str | None = None,
    source: EnvSource | None = None,
    role: str = "training",
    timeout: float | None = None,
) -> HostEnv:
    """Open an environment as a training does."""
    return env_recipe(config, source)._replace(timeout=timeout).open(seed, render_mode, role)


def look_at_env(config: Config, source: EnvSource | None = None) -> tuple[Interface, str]:
    """Return the spaces of a training's environment as policies see them, and its name."""
    with contextlib.closing(open_training_env(config, config.seeds[0], source=source)) as env:
        shortened = source is None and shortens_observations(config.env)
        return interface_of(env, shortened), env.name


def env_recipe(config: Config, source: EnvSource | None = None) -> EnvRecipe:
    """Return how a training makes its environments: as the preset says, or from the user's."""
    preset = _preset(config, source)
    return EnvRecipe(
        config.env if source is None else source,
        preset.env_kwargs if preset else {},
        config.obs_scaling,
        preset.obs_keep if preset else None,
    )


def _preset(config: Config, source: EnvSource | None) -> Preset | None:
    return find_preset(config.env) if source is None else None


def check_target_entropy(config: Config, spaces: Spaces) -> None:
    """Refuse an entropy that no policy over these discrete actions has."""
    target, most = config.target_entropy, math.log(spaces.action_dim)
    if spaces.discrete and target is not None and not 0.0 <= target <= most:
        raise InputError(
            f"target_entropy: {target:g} is out of range; {spaces.action_dim} discrete actions "
            f"have an entropy from 0 to {most:.4g}"
        )


def check_value_samples(config: Config, spaces: Spaces) -> None:
    """Refuse a mean over drawn actions where the actions are discrete."""
    if spaces.discrete and config.value_samples > 1:
        raise NoEffect(
            "value_samples",
            "it has no effect with discrete actions, over which values are exact sums; "
            "leave it out",
        )


def choose_termination(config: Config, spaces: Spaces, parts: UserParts) -> TerminationFn | None:
    """Return the rule by which imagined episodes end, in the networks' units; None: learned."""
    if config.termination == "never":
        return never
    if config.termination == "learned":
        return None
    preset = _preset(config, parts.env)
    native_rule = parts.termination or (preset.termination if preset else None)
    if native_rule is None:
        if config.termination == "known":
            raise InputError(
                f"termination: no rule is known for {config.env}; give learned, never, or in "
                "Python a function"
            )
        return None

    def scaled_rule(obs: Any, action: Any, next_obs: Any) -> Any:
        return native_rule(
            unscale_obs(spaces, obs),
            unscale_action(spaces, action),
            unscale_obs(spaces, next_obs),
        )

    return scaled_rule
