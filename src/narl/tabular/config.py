"""The configuration of a tabular run: one frozen dataclass that decides its outcome.

The command line, the checks and the help of `narl tabular` are made from its fields and from the
options of the agents (`narl.tabular.options`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from typing import TYPE_CHECKING, Any, Unpack

from narl.errors import InputError
from narl.options import (
    as_plain,
    check_effect,
    check_values,
    count,
    option,
    options_of,
    seeds_option,
)
from narl.tabular.checked_options import agent_options
from narl.tabular.option_types import Settings
from narl.tabular.options import AGENT_OPTIONS, PRESETS, AgentOptions
from narl.validation import check_seeds

if TYPE_CHECKING:
    from narl.tabular.mdp import TabularMDP

MAX_EPISODES = 10_000_000


@dataclasses.dataclass(frozen=True)
class Config:
    """Everything that decides the outcome of a run of one agent in one environment.

    `make_config` makes it from names and options, and checks it.

    Example:
        >>> config = narl.tabular.make_config("psrl", "riverswim", episodes=50, seeds="0:3")
        >>> config.seeds, config.make_mdp().name
        ((0, 1, 2), 'riverswim')
    """

    agent: str = option(
        help=", ".join(AGENT_OPTIONS), metavar="AGENT", choices=tuple(AGENT_OPTIONS)
    )
    env: str = option(
        help="riverswim, noisy-riverswim, stochastic-chain, deep-sea, deep-sea-stochastic, "
        "random-mdp, six-arms, a file such as my.npz, or gym:ID",
        metavar="ENV",
    )
    options: AgentOptions = dataclasses.field(kw_only=True)
    """The options of the agent, complete and checked."""
    episodes: int = count(1000, "number of episodes", metavar="K", maximum=MAX_EPISODES)
    seeds: tuple[int, ...] = seeds_option(tuple(range(20)), "0:20")
    size: int | None = option(
        None,
        "size of the environment: states of RiverSwim, N of Deep Sea",
        metavar="N",
        minimum=2,
    )
    horizon: int | None = count(
        None, "steps per episode, where the size does not decide them", metavar="H"
    )
    env_seed: int = option(
        0,
        "seed of an environment that is drawn at random",
        metavar="SEED",
        minimum=0,
        only_with=({"env": ("random-mdp",)},),
    )
    scale_rewards: bool = option(
        False,
        "scale mean rewards to [0, 1], which agents assume; regret is scaled as well",
        switch=True,
    )
    until_solved: bool = option(False, "stop when every seed has solved Deep Sea", switch=True)
    preset: str | None = option(
        None,
        "paper: the options as the paper prints them; strong-prior: a prior of psrl and opsrl for "
        "few next states and nearly deterministic rewards; options that are given take precedence",
        choices=tuple(PRESETS),
    )

    swept: str | None = dataclasses.field(default=None, kw_only=True)
    """A number among the agent's options whose values run in one program, in experiments."""

    @property
    def shape(self) -> Config:
        """The configuration without its value of the swept option: equal for one program."""
        if self.swept is None:
            return self
        common: dict[str, Any] = {self.swept: 1.0}
        return dataclasses.replace(self, options=dataclasses.replace(self.options, **common))

    def make_mdp(self) -> TabularMDP:
        """Return the environment; a file is read anew at every call."""
        from narl.tabular.envs import make
        from narl.tabular.mdp import scale_rewards

        mdp = make(self.env, size=self.size, horizon=self.horizon, seed=self.env_seed)
        return scale_rewards(mdp) if self.scale_rewards else mdp

    def record(self, mdp: TabularMDP | None = None) -> dict[str, Any]:
        """Return the JSON that a run folder records; the run's id is a hash of it.

        Args:
            mdp: The result of `make_mdp`, where the caller has it already.

        Example:
            >>> config = narl.tabular.make_config("psrl", "riverswim", episodes=50, seeds="0:3")
            >>> config.record()["episodes"], config.record()["options"]["tau"]
            (50, 1.0)
        """
        mdp = self.make_mdp() if mdp is None else mdp
        return {
            "experiment": "tabular",
            "agent": self.agent,
            "env": mdp.name,
            "mdp": _digest(mdp),
            "horizon": mdp.horizon,
            "env_seed": self.env_seed,
            "episodes": self.episodes,
            "seeds": list(self.seeds),
            "until_solved": self.until_solved,
            "options": dataclasses.asdict(self.options),
            **({} if self.swept is None else {"swept": self.swept}),
        }

    @property
    def run_id(self) -> str:
        """The id of the run that this configuration leads to."""
        from narl import storage

        return storage.run_id(self.record())


def _digest(mdp: TabularMDP) -> str:
    """Return a hash of the numbers of an MDP: the same name can stand for other numbers."""
    import numpy as np

    tables = [*mdp.portable_dynamics().values(), mdp.r, mdp.r_std, mdp.p0]
    if mdp.bad is not None:
        tables.append(mdp.bad)
        if mdp.solved_rule != type(mdp).solved_rule:
            tables.append(np.array(mdp.solved_rule))
    return hashlib.sha256(b"".join(table.tobytes() for table in tables)).hexdigest()[:16]


def make_config(
    agent: str,
    env: str | os.PathLike[str],
    *,
    swept: str | None = None,
    **settings: Unpack[Settings],
) -> Config:
    """Return the checked configuration of a run.

    The environment is not built yet, so that a wrong name or size of it is reported by
    `Config.make_mdp`.

    Args:
        agent: A name of `AGENTS`.
        env: A name as `make` takes it.
        swept: A given number whose values can run in one program (`narl.tabular.sweep`).
        **settings: Fields of `Config` and options of the agent, by name.

    Returns:
        The configuration.

    Example:
        >>> narl.tabular.make_config("narl-ucrl", "deep-sea", size=12, noise="bootstrap").size
        12
    """
    given: dict[str, Any] = {**settings}
    if swept is not None and not isinstance(given.get(swept), float):
        raise InputError(f"swept: {swept!r} is wrong; it must be a number that is given")
    if agent not in AGENT_OPTIONS:
        from narl.tabular.envs import refuse_swapped

        refuse_swapped(agent, env)
    own_names = options_of(Config).keys() & given.keys()
    own = {name: given.pop(name) for name in own_names}
    options = agent_options(agent, own.get("preset"), **given)
    if "seeds" in own:
        own["seeds"] = check_seeds(own["seeds"])
    values = {name: as_plain(value) for name, value in own.items()}
    config = Config(agent=agent, env=os.fspath(env), options=options, swept=swept, **values)
    check_effect(own, options_of(Config), vars(config))
    check_values(config)
    return config
