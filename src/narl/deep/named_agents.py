"""Agents of the algorithms that narl ships, each under its name."""

from __future__ import annotations

from narl.deep.agent import Agent


class NARL(Agent):
    """Noise-augmented RL: optimistic over ``members`` models within ``radius`` of their mean.

    Takes the arguments of `Agent`.

    Example:
        >>> narl.NARL("MountainCarContinuous-v0", noise="reward").config.members
        5
    """

    algo = "narl"


class MBPO(Agent):
    """Model-based policy optimisation: each imagined step uses a random one of the best models.

    Takes the arguments of `Agent`.

    Example:
        >>> narl.MBPO("Hopper-v5").config.num_members
        7
    """

    algo = "mbpo"


class SAC(Agent):
    """Soft actor-critic on real transitions alone.

    Takes the arguments of `Agent`.

    Example:
        >>> narl.SAC("Hopper-v5", updates_per_step=1).config.updates_per_step
        1
    """

    algo = "sac"


class SOMBRL(Agent):
    """Scalable optimism: imagined rewards (r + λ·b)/(1 + λ), b the models' disagreement.

    Takes the arguments of `Agent`; λ is ``bonus_weight``.

    Example:
        >>> narl.SOMBRL("Pendulum-v1", bonus_weight=0.5).config.bonus_weight
        0.5
    """

    algo = "sombrl"


class HUCRL(Agent):
    """Hallucinated UCRL: the best step within ``reach`` deviations of the models' mean.

    Takes the arguments of `Agent`.

    Example:
        >>> narl.HUCRL("Pendulum-v1", reach=2.0).config.reach
        2.0
    """

    algo = "hucrl"


class Thompson(Agent):
    """Posterior sampling: one model is followed for an episode, or for a trajectory.

    Takes the arguments of `Agent`.

    Example:
        >>> narl.Thompson("Pendulum-v1", one_member_per="trajectory").algo
        'thompson'
    """

    algo = "thompson"


class MaxInfo(Agent):
    """MaxInfoRL: a bonus for information about the models, whose weight is tuned.

    Takes the arguments of `Agent`.

    Example:
        >>> narl.MaxInfo("Pendulum-v1").config.num_members
        5
    """

    algo = "maxinfo"


AGENTS: dict[str, type[Agent]] = {
    kind.algo: kind for kind in (NARL, MBPO, SAC, SOMBRL, HUCRL, Thompson, MaxInfo)
}
