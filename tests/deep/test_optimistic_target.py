"""The choice among stored candidates; test_algorithm.py has the targets that it leads to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import constant_ensemble, make_context, replica_params, tiny_config

from narl.deep.algorithm_registry import step_rule_of
from narl.deep.optimistic_target import join_candidates, target_choice
from narl.deep.rollout import imagine_step


def test_real_transitions_are_repeated_for_every_member_and_imagined_ones_follow():
    """Rows are obs, action, then rewards, next observations and ends of the members."""
    real = jnp.array([[[1.0, 0.5, 3.0, 2.0, 1.0]]])
    imagined = jnp.array([[[4.0, -0.5, 5.0, 6.0, 7.0, 8.0, 0.0, 1.0]]])
    batch = join_candidates(real, imagined, obs_dim=1, members=2)
    assert batch.obs.tolist() == [[[1.0], [4.0]]]
    assert batch.action.tolist() == [[[0.5], [-0.5]]]
    assert batch.reward.tolist() == [[[3.0, 3.0], [5.0, 6.0]]]
    assert batch.next_obs.tolist() == [[[[2.0], [2.0]], [[7.0], [8.0]]]]
    assert batch.done.tolist() == [[[1.0, 1.0], [0.0, 1.0]]]


def test_target_is_chosen_among_the_elites_by_their_rank():
    """Member 0 leads in reward and value, and its error is the largest of the three."""
    ensemble = constant_ensemble([[0.0, 0.0]] * 3)._replace(ranked=jnp.array([2, 1, 0]))
    config = tiny_config(optimism_at="update", members=3, choose_among="elites")
    context = make_context(ensemble, params=replica_params(num_elites=2), config=config)
    choose = target_choice(ensemble.ranked, context.select_params)
    rewards, values = jnp.array([[6.0], [0.0], [3.0]]), jnp.array([[10.0], [8.0], [6.0]])
    assert [x.tolist() for x in choose(jax.random.key(0), rewards, values)] == [[3.0], [8.0]]


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("score", ["draw", "mean"])
def test_candidates_of_members_that_agree_are_mbpo_with_draws_or_with_means(members, score):
    """Means are 2 and 1; draws have the standard deviation 1, those of the first member MBPO's."""
    ensemble = constant_ensemble([[2.0, 1.0]] * members, logvar=0.0)
    obs, uniforms = jnp.zeros((50, 1)), jnp.zeros(50)

    def imagined(**changes):
        config = tiny_config(members=members, **changes)
        params, rules = replica_params(score=score), (step_rule_of(config),)
        context = make_context(ensemble, params=params, step_rules=rules, config=config)
        return imagine_step(jax.random.key(3), context, obs, uniforms).batch

    found, plain = imagined(optimism_at="update", score=score), imagined(algo="mbpo")
    assert found.reward.shape == (50, members)
    if score == "draw":
        np.testing.assert_allclose(found.reward[:, 0], plain.reward, rtol=1e-6)
        np.testing.assert_allclose(found.next_obs[:, 0], plain.next_obs, rtol=1e-6)
    else:
        np.testing.assert_allclose(found.reward, 2.0, rtol=1e-6)
        np.testing.assert_allclose(found.next_obs, 1.0, rtol=1e-6)
        assert np.std(plain.reward) > 0.5


def test_noise_on_rewards_is_added_to_every_candidate():
    """The members' means are 1 and 3; their disagreement is the size of the noise."""
    ensemble = constant_ensemble([[1.0, 0.0], [3.0, 0.0]])
    config = tiny_config(members=2, optimism_at="update", noise="both")
    params, rules = replica_params(noise_scale=1.0), (step_rule_of(config),)
    context = make_context(ensemble, params=params, step_rules=rules, config=config)
    state = context.bonus_state._replace(first_disagreement=jnp.float32(1.0))
    context = context._replace(bonus_state=state)
    step = imagine_step(jax.random.key(3), context, jnp.zeros((50, 1)), jnp.zeros(50))
    assert np.std(step.bonus) > 0.1
    expected = np.array([1.0, 3.0]) + np.asarray(step.bonus)[:, None]
    np.testing.assert_allclose(step.batch.reward, expected, rtol=1e-5)
