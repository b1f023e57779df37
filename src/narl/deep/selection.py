"""Selection among the members of the ensemble: it decides how optimistic an algorithm is.

A `SelectFn` is given what every member predicts for a batch of imagined steps and returns the steps
that are taken. To add one, write such a function and name it in `narl.deep.algorithm_registry`, or
hand it to an agent: `narl.NARL(env, select=my_function)`.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from narl.deep.bonus_state import BonusState
from narl.deep.config import Config
from narl.deep.ensemble import Prediction
from narl.optimism import optimistic
from narl.paper import implements


class Candidates(NamedTuple):
    """The imagined steps to choose from: one per member, for a batch of observations.

    A `SelectFn` and a `BonusFn` are given it; M is the number of members, B of steps.

    Example:
        >>> def select_first(key, candidates, params):
        ...     num_members, num_steps = candidates.mean.reward.shape
        ...     return narl.deep.take_members(candidates, jnp.zeros(num_steps, int))
        >>> agent = narl.NARL("Pendulum-v1", select=select_first)
    """

    obs: Float[Array, "B D"]
    """Where the steps begin, in the units of the policy."""
    action: Float[Array, "B A"]
    """The policy's actions, in [−1, 1]."""
    prediction: Prediction
    """Reward [M, B] and next observation [M, B, D] that are stored if a member is chosen."""
    mean: Prediction
    """The means of the members' Gaussians."""
    scored: Prediction
    """The predictions that members are compared by: the means, or draws with ``score=draw``."""
    disagreement: Float[Array, " B"]
    """σ(s,a): standard deviation of the members' means, in units of the data."""
    information: Float[Array, " B"]
    """log(1 + epistemic variance / aleatoric variance), averaged over the outputs."""
    ranked: Int[Array, " M"]
    """The members by their error on held-out data, the best first."""
    trajectory_uniform: Float[Array, " B"]
    """A number in [0, 1) per imagined trajectory, the same at each of its steps; with
    ``one_member_per=episode`` the same for all trajectories while a real episode lasts."""
    values: Callable[..., Float[Array, "K B"]]
    """Computes the soft value of next observations [K, B, D], 0 where the episode ends there;
    without an argument, of ``scored``."""


_NAMES = tuple(Config(env="").numbers())
ReplicaNumbers: Any = collections.namedtuple("ReplicaNumbers", _NAMES)  # type: ignore[misc]
"""The numbers in which the replicas of one program may differ; `Config.numbers` names them."""


def replica_numbers(configs: Sequence[Config]) -> Any:
    """Return the numbers of the replicas of these configurations, one array per number."""
    types = {bool: np.bool_, int: np.int32, float: np.float32}
    columns = zip(*(config.numbers().values() for config in configs), strict=True)
    return ReplicaNumbers(*(np.array(x, types[type(x[0])]) for x in columns))


class SelectParams(NamedTuple):
    """Parameters of a selection or a bonus.

    Example:
        >>> def less_and_less(key, candidates, selected, params):
        ...     return 0.1 * params.strength * candidates.disagreement
        >>> agent = narl.NARL("Pendulum-v1", bonus=less_and_less)
    """

    numbers: Any
    """The options of optimism of this replica as numbers, such as ``numbers.num_elites`` and
    ``numbers.exclude_above``."""
    strength: Float[Array, ""] | float
    """1 at the beginning; falls to 0 over ``anneal_steps``."""
    state: BonusState
    """Running statistics of what the members disagree on."""
    config: Config
    """The configuration of the program; the options in ``numbers`` are those of one replica."""

    @property
    def radius(self) -> Float[Array, ""] | float:
        """Model radius ε_M, annealed if that was asked for; infinity for none."""
        shrinks = jnp.asarray(self.numbers.anneal_radius) & jnp.isfinite(self.numbers.radius)
        return jnp.where(shrinks, self.strength, 1.0) * self.numbers.radius


class Selected(NamedTuple):
    """The imagined steps that are taken.

    `take_members` makes it from the number of a member per step.

    Example:
        >>> def mean_of_all(key, candidates, params):
        ...     num_steps = candidates.obs.shape[0]
        ...     first = narl.deep.take_members(candidates, jnp.zeros(num_steps, int))
        ...     return first._replace(next_obs=candidates.mean.next_obs.mean(axis=0))
        >>> agent = narl.NARL("Pendulum-v1", select=mean_of_all)
    """

    reward: Float[Array, " B"]
    """The imagined rewards."""
    next_obs: Float[Array, "B D"]
    """The imagined next observations."""
    member: Int[Array, " B"]
    """The member that predicted the next observation."""
    reward_member: Int[Array, " B"]
    """The member that predicted the reward."""
    fallback: Bool[Array, " B"]
    """Whether the radius excluded every member's next observation."""
    reward_fallback: Bool[Array, " B"]
    """Whether the radius excluded every member's reward."""


SelectFn = Callable[[PRNGKeyArray, Candidates, SelectParams], Selected]
"""The type of a selection: (key, `Candidates`, `SelectParams`) → `Selected`."""


def take_members(
    candidates: Candidates,
    member: Int[Array, " B"],
    reward_member: Int[Array, " B"] | None = None,
    fallback: Bool[Array, " B"] | None = None,
    reward_fallback: Bool[Array, " B"] | None = None,
) -> Selected:
    """Return the steps of one chosen member per row; the reward may come from another member.

    Args:
        candidates: The predictions of all members.
        member: The member whose next observation is taken, one per step, [B].
        reward_member: The member whose reward is taken; by default the same.
        fallback: Whether the radius had excluded every next observation; only metrics use it.
        reward_fallback: The same of the rewards.

    Returns:
        The steps, a `Selected`.

    Example:
        >>> def select_largest_reward(key, candidates, params):
        ...     return narl.deep.take_members(candidates, candidates.mean.reward.argmax(axis=0))
        >>> agent = narl.NARL("Pendulum-v1", select=select_largest_reward)
    """
    prediction, rows = candidates.prediction, jnp.arange(member.shape[0])
    reward_member = member if reward_member is None else reward_member
    never = jnp.zeros(rows.shape, bool)
    return Selected(
        reward=prediction.reward[reward_member, rows],
        next_obs=prediction.next_obs[member, rows],
        member=member,
        reward_member=reward_member,
        fallback=never if fallback is None else fallback,
        reward_fallback=never if reward_fallback is None else reward_fallback,
    )


def draw_elites(
    key: PRNGKeyArray, ranked: Int[Array, " M"], num_elites: Int[Array, ""] | int, num_rows: int
) -> Int[Array, " B"]:
    """Draw a member per row, uniformly among the best ``num_elites``."""
    return ranked[jax.random.randint(key, (num_rows,), 0, num_elites)]


@implements("sec:6.1-elite")
def select_elite(key: PRNGKeyArray, candidates: Candidates, params: SelectParams) -> Selected:
    """Draw a member uniformly among the best ``num_elites``, anew at every step (MBPO)."""
    num_rows = candidates.obs.shape[0]
    return take_members(
        candidates, draw_elites(key, candidates.ranked, params.numbers.num_elites, num_rows)
    )


class MemberChoice(NamedTuple):
    """The members that optimism chooses, and whether the radius had excluded all of them."""

    member: Int[Array, " B"]
    reward_member: Int[Array, " B"]
    fallback: Bool[Array, " B"]
    reward_fallback: Bool[Array, " B"]


@implements("eq:2", "sec:6.1-selection", "app:e")
def choose_members(
    key: PRNGKeyArray,
    reward: Float[Array, "M B"],
    values: Float[Array, "M B"],
    params: SelectParams,
    ranked: Int[Array, " M"] | None = None,
) -> MemberChoice:
    """Return argmax_m r^(m) (term A) and argmax_m V(s'^(m)) (term B), within ε_M of the mean.

    The options decide how: the radius is absolute or in units of the members' deviation; it
    excludes on both sides or only above; each maximum has an exclusion of its own or r + γV decides
    for both; with ``joint`` one maximum of r + γV gives both members. With ``choose_among=elites``
    only the best members, by their place among the ``ranked``, take part, also in random draws.
    """
    among = is_elite = None
    if params.config.choose_among == "elites" and ranked is not None:
        is_elite = jnp.argsort(ranked) < params.numbers.num_elites
        among = jnp.broadcast_to(is_elite[:, None], reward.shape)
    numbers, key_reward, key_value = params.numbers, *jax.random.split(key)
    total = reward + params.config.discount * values
    by_return = jnp.asarray(numbers.exclude_by_return) | jnp.asarray(numbers.joint)

    def best(key: PRNGKeyArray, score: Array) -> tuple[Array, Array]:
        judged = jnp.where(by_return, total, score)
        spread = jnp.where(numbers.radius_unit_spread, judged.std(0, where=among), 1.0)
        radius = jnp.where(jnp.isfinite(params.radius), params.radius * spread, jnp.inf)
        choice = optimistic(
            score, radius, judged=judged, above_only=numbers.exclude_above, among=among
        )
        excluded = ~choice.admitted.any(axis=0)
        drawn = _draw_any(key, score.shape[0], score.shape[1], is_elite)
        return jnp.where(excluded & numbers.fallback_random, drawn, choice.member), excluded

    member, fallback = best(key_value, jnp.where(numbers.joint, total, values))
    reward_member, reward_fallback = best(key_reward, reward)
    return MemberChoice(
        member,
        jnp.where(numbers.joint, member, reward_member),
        fallback,
        jnp.where(numbers.joint, fallback, reward_fallback),
    )


def _draw_any(
    key: PRNGKeyArray, members: int, num_rows: int, is_elite: Bool[Array, " M"] | None
) -> Int[Array, " B"]:
    """Draw a member per row, uniformly among the elite ones; among all with ``is_elite=None``."""
    if is_elite is None:
        return jax.random.randint(key, (num_rows,), 0, members)
    # The elite members first, each group in the order of the members.
    ordered = jnp.argsort(~is_elite, stable=True)
    return ordered[jax.random.randint(key, (num_rows,), 0, is_elite.sum())]


def choose_or_draw(
    key: PRNGKeyArray,
    reward: Float[Array, "M B"],
    values: Float[Array, "M B"],
    ranked: Int[Array, " M"],
    params: SelectParams,
) -> MemberChoice:
    """Choose as `choose_members` in a share of the steps; draw an elite member in the others.

    The share is ``params.strength``, or 1 with ``anneal=radius``.
    """
    key_choice, key_share, key_elite = jax.random.split(key, 3)
    num_rows = reward.shape[1]
    choice = choose_members(key_choice, reward, values, params, ranked)
    share = jnp.where(params.numbers.anneal_radius, 1.0, params.strength)
    is_optimistic = jax.random.uniform(key_share, (num_rows,)) < share
    elite = draw_elites(key_elite, ranked, params.numbers.num_elites, num_rows)
    return MemberChoice(
        jnp.where(is_optimistic, choice.member, elite),
        jnp.where(is_optimistic, choice.reward_member, elite),
        choice.fallback & is_optimistic,
        choice.reward_fallback & is_optimistic,
    )


def select_optimistic(key: PRNGKeyArray, candidates: Candidates, params: SelectParams) -> Selected:
    """Take the reward and the next state that `choose_or_draw` finds best (NARL)."""
    reward, values = candidates.scored.reward, candidates.values()
    return take_members(candidates, *choose_or_draw(key, reward, values, candidates.ranked, params))
