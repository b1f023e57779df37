"""The registry of algorithms, and the seam where a user's selection and bonus decide."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import (
    assert_same,
    constant_ensemble,
    make_context,
    replica_params,
    sac_with_value,
    tiny_config,
)

from narl.deep import rivals
from narl.deep.algorithm_registry import (
    ALGORITHMS,
    MODEL_BASED,
    StepRule,
    find_algorithm,
    register_algorithm,
    step_rule_of,
)
from narl.deep.bonus import reward_noise
from narl.deep.checked_config import make_config
from narl.deep.config import used_by
from narl.deep.rollout import imagine_step
from narl.deep.selection import select_elite, select_optimistic, take_members
from narl.errors import InputError


def select_smallest_reward(key, candidates, params):
    """Take the pessimistic step: the smallest reward, with the next state of the same member."""
    return take_members(candidates, candidates.prediction.reward.argmin(0))


def disagreement(key, candidates, selected, params):
    """Return the radius times the largest difference between the members' next states."""
    next_obs = candidates.prediction.next_obs[..., 0]
    return params.radius * (next_obs.max(0) - next_obs.min(0))


def zero_bonus(key, candidates, selected, params):
    return jnp.zeros(candidates.obs.shape[0])


def rule_of(algo, **parts):
    """Return the functions of an algorithm, or those that replace them."""
    return step_rule_of(tiny_config(algo=algo), **parts)


NARL, MBPO = rule_of("narl"), rule_of("mbpo")
PESSIMISTIC, CURIOUS = StepRule(select_smallest_reward, None), StepRule(select_elite, disagreement)
# r = 5, s' = s + 1; r = 2, s' = s + 2; r = 4, s' = s + 3; the value of s' is s'.
THREE = constant_ensemble([[5.0, 1.0], [2.0, 2.0], [4.0, 3.0]])
NOISY = constant_ensemble([[1.0, 1.0], [1.5, -1.0], [0.0, 0.0]], logvar=0.0)


@functools.partial(jax.jit, static_argnums=0)
def imagine(step_rules, ensemble, params):
    """Imagine one step from 20 states 0, by a program with these ways to select."""
    context = make_context(ensemble, sac_with_value(1.0), params, step_rules)
    return imagine_step(jax.random.key(4), context, jnp.zeros((20, 1)), jnp.zeros(20))


def test_known_algorithms_name_their_functions():
    rules = {
        "narl": StepRule(select_optimistic, None),
        "mbpo": StepRule(select_elite, None),
        "sombrl": StepRule(select_elite, rivals.disagreement_bonus),
        "hucrl": StepRule(rivals.select_hallucinated, None),
        "thompson": StepRule(rivals.select_thompson, None),
        "maxinfo": StepRule(select_elite, rivals.information_bonus),
        "sac": None,
    }
    assert {algo: rule_of(algo) for algo in ALGORITHMS} == rules
    assert rule_of("sac", select=select_elite) is None
    assert rule_of("narl", bonus=disagreement) == StepRule(select_optimistic, disagreement)
    assert rule_of("mbpo", select=select_smallest_reward) == PESSIMISTIC
    with pytest.raises(InputError, match=r"^algo: .*'mpbo'.*'mbpo'"):
        find_algorithm("mpbo")


@pytest.mark.parametrize(
    ("options", "select", "bonus"),
    [
        ({"noise": "reward"}, select_elite, reward_noise),
        ({"noise": "both"}, select_optimistic, reward_noise),
        ({"optimism_at": "update"}, select_elite, None),
        ({"noise": "both", "optimism_at": "update"}, select_elite, reward_noise),
    ],
)
def test_options_of_narl_decide_between_selection_and_noise(options, select, bonus):
    assert step_rule_of(tiny_config(**options)) == StepRule(select, bonus)


def test_registered_algorithm_accepted_with_model_options(registry):
    register_algorithm("curious", select_elite, disagreement, members=4, summary="goes there")
    assert rule_of("curious") == CURIOUS
    config = make_config("Pendulum-v1", algo="curious", model_width=50, rollout_batch=10)
    assert config.uses_model
    assert config.num_members == 4
    assert config.run_id.startswith("train-curious-pendulum-v1-")
    assert used_by("model_width") == (*MODEL_BASED, "curious")
    assert used_by("radius") == ("narl",)
    with pytest.raises(InputError, match=r"radius: .*curious.*narl"):
        make_config("Pendulum-v1", algo="curious", radius=0.1)
    for name in ("curious", "narl"):
        with pytest.raises(InputError, match=f"algo: '{name}' is registered already"):
            register_algorithm(name, select_smallest_reward)
    assert rule_of("curious") == CURIOUS


def test_registration_removed_after_test():
    with pytest.raises(InputError, match="algo"):
        make_config("Pendulum-v1", algo="curious")


def test_user_selection_decides_imagined_steps():
    step = imagine((PESSIMISTIC,), THREE, replica_params())
    np.testing.assert_allclose(step.batch.reward, 2.0, rtol=1e-6)
    np.testing.assert_allclose(step.batch.next_obs, 2.0, rtol=1e-6)
    selected = step.selected
    assert selected.member.tolist() == selected.reward_member.tolist() == [1] * 20
    assert not selected.fallback.any()


def test_user_bonus_added_to_imagined_reward_only():
    """The members' next states are 2 apart: with a radius of 1.5 the bonus is 3."""
    params = replica_params(radius=1.5)
    plain = imagine((NARL,), THREE, params)
    curious = imagine((StepRule(select_optimistic, disagreement),), THREE, params)
    np.testing.assert_allclose(plain.batch.reward, 5.0, rtol=1e-6)
    np.testing.assert_allclose(curious.batch.reward, 5.0 + 3.0, rtol=1e-6)
    np.testing.assert_allclose(curious.bonus, 3.0, rtol=1e-6)
    same_reward = curious.batch._replace(reward=plain.batch.reward)
    assert_same(curious._replace(batch=same_reward, bonus=plain.bonus), plain)


@pytest.mark.parametrize("optimism", [NARL, MBPO])
def test_zero_bonus_gives_bits_of_algorithm_without_bonus(optimism):
    params = replica_params(radius=0.8, num_elites=2)
    with_zero = imagine((optimism._replace(bonus=zero_bonus),), NOISY, params)
    assert_same(with_zero, imagine((optimism,), NOISY, params))


@pytest.mark.slow
def test_replicas_with_different_optimisms_share_one_program():
    """Each replica gets what its algorithm gives alone, in a batch (vmap) and one by one."""
    step_rules = (NARL, MBPO, PESSIMISTIC, CURIOUS)
    params = [replica_params(i, radius=0.8, num_elites=2) for i in range(4)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params)
    batched = jax.vmap(lambda each: imagine(step_rules, NOISY, each))(stacked)
    alone = [imagine((optimism,), NOISY, params[0]) for optimism in step_rules]
    # The case is one in which all four differ.
    assert len({np.asarray(step.batch.reward).tobytes() for step in alone}) == 4
    for i, expected in enumerate(alone):
        one_by_one = imagine(step_rules, NOISY, params[i])
        in_batch = jax.tree.map(lambda x, i=i: x[i], batched)
        for step in (one_by_one, in_batch):
            jax.tree.map(
                lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), step, expected
            )


@pytest.mark.parametrize(
    "ensemble",
    [
        pytest.param(constant_ensemble([[1.0, 1.0]], logvar=0.0), id="one member"),
        pytest.param(constant_ensemble([[1.0, 1.0]] * 3), id="identical members"),
    ],
)
def test_narl_equals_mbpo_where_members_agree(ensemble):
    for radius in (0.0, 0.1, np.inf):
        params = replica_params(radius=radius)
        narl, mbpo = (imagine((optimism,), ensemble, params) for optimism in (NARL, MBPO))
        assert_same(narl.batch, mbpo.batch)
        assert not narl.selected.fallback.any()


def test_radius_zero_takes_predictions_closest_to_mean():
    """The rewards 5, 2, 4 have mean 11/3; of the next states 1, 2, 3 the mean is one."""
    step = imagine((NARL,), THREE, replica_params(radius=0.0))
    np.testing.assert_allclose(step.batch.reward, 4.0, rtol=1e-6)
    np.testing.assert_allclose(step.batch.next_obs, 2.0, rtol=1e-6)
    # No reward is the mean; one of the next states is, so its value is admitted.
    assert step.selected.reward_fallback.all()
    assert not step.selected.fallback.any()
