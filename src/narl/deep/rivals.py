"""Rival ways to be optimistic with an ensemble, each as one selection or one bonus.

docs/rivals.md says for each what it assumes and where it was published.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from narl.deep.selection import Candidates, Selected, SelectParams, draw_elites, take_members


def select_thompson(key: PRNGKeyArray, candidates: Candidates, params: SelectParams) -> Selected:
    """Follow one member drawn from the posterior that the ensemble stands for.

    The member is drawn uniformly, once per real episode, as in posterior sampling (Osband et al.
    2013), or once per imagined trajectory, as TS∞ of PETS (Chua et al. 2018):
    ``candidates.trajectory_uniform`` is the draw. Reward and next state are those of this member.
    """
    members = candidates.mean.reward.shape[0]
    member = jnp.floor(candidates.trajectory_uniform * members).astype(jnp.int32)
    return take_members(candidates, jnp.clip(member, 0, members - 1))


def select_hallucinated(
    key: PRNGKeyArray, candidates: Candidates, params: SelectParams
) -> Selected:
    """Take the best s' = μ + β·σ·η over K draws η ~ U[−1, 1]^d: H-UCRL (Curi et al. 2020).

    μ and σ are mean and standard deviation of the members' means, for reward and next state alike.
    There the policy chooses η; here the critics do: the draw of largest r + γV(s') is taken. η = 0
    is always among the draws. The noise of a random elite member's Gaussian is added, as the model
    itself is random.
    """
    key_eta, key_member = jax.random.split(key)
    mean, drawn, beta = candidates.mean, candidates.prediction, params.numbers.reach
    num_rows, obs_dim = candidates.obs.shape
    shape = (params.config.num_candidates, num_rows, obs_dim + 1)
    eta = jax.random.uniform(key_eta, shape, minval=-1.0, maxval=1.0).at[0].set(0.0)
    reward = mean.reward.mean(0) + beta * mean.reward.std(0) * eta[..., 0]
    next_obs = mean.next_obs.mean(0) + beta * mean.next_obs.std(0) * eta[..., 1:]
    score = reward + params.config.discount * candidates.values(next_obs)
    best, rows = jnp.argmax(score, axis=0), jnp.arange(num_rows)
    member = draw_elites(key_member, candidates.ranked, params.numbers.num_elites, num_rows)
    noise = drawn.next_obs[member, rows] - mean.next_obs[member, rows]
    reward_noise = drawn.reward[member, rows] - mean.reward[member, rows]
    selected = take_members(candidates, member)
    return selected._replace(
        reward=reward[best, rows] + reward_noise, next_obs=next_obs[best, rows] + noise
    )


def disagreement_bonus(
    key: PRNGKeyArray, candidates: Candidates, selected: Selected, params: SelectParams
) -> Float[Array, " B"]:
    """Turn the reward r into (r + λ·b)/(1 + λ): SOMBRL (Sukhija et al. 2025).

    b is the members' disagreement, standardised by its running mean and deviation.
    """
    weight = params.numbers.bonus_weight * params.strength
    bonus = params.state.disagreement.standardise(candidates.disagreement)
    return weight * (bonus - selected.reward) / (1.0 + weight)


def information_bonus(
    key: PRNGKeyArray, candidates: Candidates, selected: Selected, params: SelectParams
) -> Float[Array, " B"]:
    """Return α₂·I: MaxInfoRL (Sukhija et al. 2024).

    I is the mean over outputs of log(1 + epistemic/aleatoric variance), standardised by its running
    mean and deviation. α₂ grows while the policy gains less information than it did at the last
    imagination (see `narl.deep.selection_diagnostics`).
    """
    weight = jnp.exp(params.state.log_weight) * params.strength
    return weight * params.state.information.standardise(candidates.information)
