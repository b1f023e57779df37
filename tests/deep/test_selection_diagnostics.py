"""Running statistics of the members' disagreement, and the diagnostics after each fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import (
    affine_actor,
    affine_ensemble,
    assert_same,
    constant_ensemble,
    make_context,
    replica_params,
    sac_with_value,
    tiny_config,
)

from narl.deep import selection_diagnostics
from narl.deep.algorithm_registry import MODEL_BASED, step_rule_of
from narl.deep.bonus_state import Moments, finite_mean, init_bonus_state
from narl.deep.replay_buffer import Replay
from narl.deep.selection_diagnostics import NUM_STEPS, DiagnosedFit, diagnose

KEY = jax.random.key(1)
SAC = sac_with_value(2.0)
NONE = init_bonus_state(SAC.actor).disagreement
add = jax.jit(Moments.add)


def test_moments_equal_numpy_whatever_the_pieces():
    values = np.random.default_rng(0).normal(5.0, 3.0, 1000).astype(np.float32)
    running = NONE
    for piece in np.split(values, [1, 10, 300]):
        running = add(running, jnp.asarray(piece))
    assert running.num == 1000
    assert running.mean == pytest.approx(values.mean(), rel=1e-5)
    assert running.std == pytest.approx(values.std(), rel=1e-4)
    expected = (values[:5] - values.mean()) / values.std()
    np.testing.assert_allclose(running.standardise(jnp.asarray(values[:5])), expected, atol=1e-4)


def test_moments_of_nothing_and_of_a_constant_do_not_scale():
    assert (NONE.num, NONE.mean, NONE.std) == (0.0, 0.0, 1.0)
    constant = add(NONE, jnp.full(7, 3.0))
    assert (constant.num, constant.std) == (7.0, 1.0)
    np.testing.assert_allclose(constant.standardise(jnp.array([3.0, 5.0])), [0.0, 2.0], atol=1e-6)


@pytest.mark.parametrize("broken", [np.inf, -np.inf, np.nan])
def test_moments_leave_out_numbers_that_are_not_finite(broken):
    values = jnp.array([1.0, broken, 3.0])
    running = add(add(NONE, values), jnp.array([broken]))
    assert (running.num, running.mean, running.std) == (2.0, 2.0, 1.0)
    assert finite_mean(values) == 2.0
    assert finite_mean(jnp.array([broken])) == 0.0


def test_diagnostics_by_hand():
    """Three members from state 0: the values 2s' are 2, 4, 12 with mean 6."""
    ensemble = constant_ensemble([[0.0, 1.0], [3.0, 2.0], [0.0, 6.0]], logvar=0.0)
    ensemble = ensemble._replace(holdout_error=jnp.array([3.0, 1.0, 2.0]))
    real = Replay(jnp.zeros((4, 5)), jnp.int32(4), jnp.int32(4))
    fit = jax.jit(lambda key: diagnose(key, make_context(ensemble, SAC), real))(KEY)
    found = fit.diagnostics
    assert found.holdout_error.tolist() == [3.0, 1.0, 2.0]
    np.testing.assert_allclose(found.distance, [2.0, 1.0, 3.0], rtol=1e-5)
    np.testing.assert_allclose(found.reward_distance, [1.0, 2.0, 1.0], rtol=1e-5)
    np.testing.assert_allclose(found.value_distance, [4.0, 2.0, 6.0], rtol=1e-5)
    # Within 0.1 of the mean is none, and member 1 is closest; within 5 are members 0 and 1.
    assert found.selected_at.tolist() == [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    std = np.sqrt(2.0), np.sqrt(14.0 / 3.0)
    assert found.disagreement == pytest.approx(sum(std) / 2, rel=1e-5)
    assert found.information == pytest.approx((np.log(3.0) + np.log1p(14 / 3)) / 2, rel=1e-5)
    assert fit.disagreement.shape == (NUM_STEPS,)
    # The policy has not changed since the last imagination.
    assert fit.past_information == pytest.approx(float(found.information), rel=1e-5)


# --- choices ----------------------------------------------------------------------------------

RULES = {algo: step_rule_of(tiny_config(algo=algo)) for algo in MODEL_BASED}
REAL = Replay(jnp.zeros((4, 5)), jnp.int32(4), jnp.int32(4))
NEAR = constant_ensemble([[20.0, 0.0], [0.0, 4.0], [3.0, 5.0]], logvar=0.0)
"""From state 0 the values 2s' are 0, 8, 10: their mean is 6. r + γV is 20, 7.92, 12.9: 13.6."""
FAR = constant_ensemble([[0.0, 0.0], [0.0, 40.0], [0.0, 50.0]], logvar=0.0)
"""The values are 0, 80, 100: their mean is 60, their standard deviation 43.2."""
STD = np.sqrt(56 / 3)
"""Standard deviation of the values 0, 8, 10."""


@jax.jit
def diagnose_choices(params, ensemble, strength, episode_uniform):
    """Return the diagnostics of one-step predictions from state 0; every algorithm is a branch."""
    context = make_context(ensemble, SAC, params, tuple(RULES.values()), strength=strength)
    context = context._replace(episode_uniform=episode_uniform)
    return diagnose(KEY, context, REAL).diagnostics


def choices(algo, ensemble=NEAR, strength=1.0, episode_uniform=0.0, **options):
    numbers = jnp.float32(strength), jnp.float32(episode_uniform)
    params = replica_params(list(RULES).index(algo), **options)
    return diagnose_choices(params, ensemble, *numbers)


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        # None is within 0.1 of 6, and 8 is closest; 8 and 10 are within 5.
        ({"exclude": "ball"}, (1, 2, 2)),
        # Only 0 is below 6.1; all are below 11.
        ({"exclude": "above"}, (0, 2, 2)),
        ({"exclude": "above", "radius": 77.0, "strength": 0.0}, (0, 2, 2)),
        ({"exclude": "above", "anneal": "radius", "strength": 0.0}, (0, 2, 2)),
        ({"exclude": "above", "ensemble": FAR}, (0, 0, 2)),
        ({"exclude": "above", "ensemble": FAR, "radius_unit": "spread"}, (0, 2, 2)),
        # r + γV of member 0 is more than 5 above 13.6.
        ({"exclude": "above", "exclude_by": "return"}, (2, 2, 2)),
        ({"exclude": "above", "joint": True}, (2, 2, 0)),
    ],
)
def test_choice_at_each_radius_is_that_of_the_options(options, chosen):
    for algo in ("narl", "mbpo"):
        found = choices(algo, **options)
        assert found.selected_at.argmax(1).tolist() == list(chosen)
        assert found.selected_at.max(1).tolist() == [1.0] * 3


def test_random_member_is_chosen_at_a_radius_that_excludes_all():
    found = choices("narl", fallback="random").selected_at
    np.testing.assert_allclose(found[0], 1 / 3, atol=0.05)
    assert found[1:].tolist() == [[0.0, 0.0, 1.0]] * 2


def test_choice_at_each_radius_is_among_elites_where_the_training_chooses_among_them():
    """The values 0 and 8 of the best two members have the mean 4."""
    config = tiny_config(choose_among="elites")
    params = replica_params(num_elites=2, exclude="above")
    found = diagnose(KEY, make_context(NEAR, SAC, params, config=config), REAL).diagnostics
    assert found.selected_at.argmax(1).tolist() == [0, 1, 1]
    assert found.optimistic_share == 1.0


@pytest.mark.parametrize(
    ("algo", "options", "gain"),
    [
        ("narl", {}, 4.0),
        ("narl", {"radius": 0.1, "exclude": "above"}, -6.0),
        ("narl", {"radius": 0.1, "exclude": "ball"}, 2.0),
        ("narl", {"joint": True}, -6.0),
        ("narl", {"strength": 0.0}, -6.0),  # the best on held-out data is the first
        ("mbpo", {"num_elites": 1}, -6.0),
        ("sombrl", {"num_elites": 1}, -6.0),
        ("thompson", {"episode_uniform": 0.5}, 2.0),
        ("hucrl", {"reach": 0.0}, 0.0),
    ],
)
def test_gain_of_a_choice_is_its_value_minus_the_mean_in_standard_deviations(algo, options, gain):
    """The members' noise, with a standard deviation of 1, is left out."""
    found = choices(algo, **options)
    assert found.optimistic_share == float(gain > 0.0)
    assert found.optimistic_gain == pytest.approx(gain / STD, abs=1e-5)


def test_share_of_optimistic_choices_by_chance_and_of_hucrl():
    """Two of three members are above their mean.

    The best of seven draws of H-UCRL, and of the mean itself, is so in all but 1 of 2⁷ cases. It
    is 0.75 standard deviations above: E max(0, η) of seven η ~ U[−1, 1] is 0.75.
    """
    by_chance = choices("mbpo", num_elites=3)
    assert by_chance.optimistic_share == pytest.approx(2 / 3, abs=0.05)
    assert by_chance.optimistic_gain == pytest.approx(0.0, abs=0.1)
    by_trajectory = choices("thompson", one_member_per="trajectory")
    assert by_trajectory.optimistic_share == pytest.approx(2 / 3, abs=0.05)
    hallucinated = choices("hucrl", FAR, reach=1.0)
    assert hallucinated.optimistic_share == pytest.approx(1 - 1 / 2**7, abs=0.01)
    assert hallucinated.optimistic_gain == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("algo", RULES)
@pytest.mark.parametrize("outputs", [[[0.3, 0.7]], [[0.3, 0.7]] * 3])
def test_choice_among_members_that_agree_gains_nothing(algo, outputs):
    found = choices(algo, constant_ensemble(outputs, logvar=0.0))
    assert (found.optimistic_share, found.optimistic_gain) == (0.0, 0.0)


# --- the past policy, and the statistics of the bonuses ---------------------------------------


def test_past_policy_is_compared_on_the_same_states():
    """Members disagree by ±a: information grows with |a|."""
    ensemble = affine_ensemble([[[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [-1.0, 0.0]]], [[0, 0]] * 2)
    weights = ensemble.weights._replace(min_logvar=jnp.zeros(2))
    context = make_context(ensemble._replace(weights=weights), SAC)
    bold = affine_actor([[0.0]], [3.0], -20.0)
    timid = SAC._replace(actor=affine_actor([[0.0]], [0.0], -20.0))
    state = context.bonus_state._replace(past_actor=bold)
    real = Replay(jnp.zeros((4, 5)), jnp.int32(4), jnp.int32(4))
    fit = jax.jit(
        lambda state: diagnose(KEY, context._replace(sac=timid, bonus_state=state), real)
    )(state)
    assert fit.diagnostics.information == pytest.approx(0.0, abs=1e-6)
    assert fit.past_information > 0.1


def fit_with(information, past, disagreement=(1.0, 3.0)):
    return DiagnosedFit(None, jnp.array(disagreement), jnp.array(information), jnp.float32(past))


CONFIG = tiny_config(learning_rate=0.01, model_every=5, updates_per_step=4)
CONTEXT = make_context(constant_ensemble([[0.0, 0.0]] * 2), SAC, config=CONFIG)


@jax.jit
def update(state, fit):
    context = CONTEXT._replace(bonus_state=state)
    return selection_diagnostics.update_bonus_state(context, fit)


@pytest.mark.parametrize(
    ("past", "steps"),
    [
        (2.0, 0.0),  # the policy gains 2 on average, as much as before
        (2.5, 0.5),
        (1.0, -1.0),
        (99.0, 1.0),  # at most one standard deviation counts
    ],
)
def test_weight_of_maxinfo_grows_while_policy_gains_less_information(past, steps):
    """Information 1 and 3: the standard deviation is 1. Twenty updates of 0.01 are done at once."""
    state = update(CONTEXT.bonus_state, fit_with((1.0, 3.0), past))
    assert state.log_weight == pytest.approx(20 * 0.01 * steps, abs=1e-6)


def test_weight_of_maxinfo_is_bounded():
    state = CONTEXT.bonus_state._replace(log_weight=jnp.float32(4.9))
    assert update(state, fit_with((1.0, 3.0), 99.0)).log_weight == 5.0


def test_first_disagreement_is_kept_and_statistics_go_on():
    first = update(CONTEXT.bonus_state, fit_with((1.0, 3.0), 2.0, (1.0, 3.0)))
    assert first.first_disagreement == 2.0
    second = update(first, fit_with((5.0, 7.0), 2.0, (0.0, 0.0)))
    assert second.first_disagreement == 2.0
    assert (second.disagreement.num, second.disagreement.mean) == (4.0, 1.0)
    assert (second.information.num, second.information.mean) == (4.0, 4.0)
    assert_same(second.past_actor, SAC.actor)
    assert second.episode == CONTEXT.bonus_state.episode


def test_unit_of_the_noise_can_be_the_largest_disagreement_so_far():
    numbers = CONTEXT.params.numbers._replace(noise_unit_largest=jnp.bool_(True))
    context = CONTEXT._replace(params=CONTEXT.params._replace(numbers=numbers))
    state, units = CONTEXT.bonus_state, []
    for disagreement in ((1.0, 3.0), (4.0, 6.0), (0.0, 1.0)):
        now = context._replace(bonus_state=state)
        fit = fit_with((1.0, 3.0), 2.0, disagreement)
        state = selection_diagnostics.update_bonus_state(now, fit)
        units.append(float(state.first_disagreement))
    assert units == [2.0, 5.0, 5.0]
