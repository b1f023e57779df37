"""Algorithm 1 for one replica: each function changes what it should, by known amounts."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import (
    affine_actor,
    affine_critic,
    assert_same,
    constant_ensemble,
    differs,
    make_sac,
    replica_params,
    sac_with_value,
    tiny_config,
)

from narl.deep.algorithm import Algorithm, StepInfo, zero_losses
from narl.deep.algorithm_registry import step_rule_of
from narl.deep.replay_buffer import Replay, make_replay, unpack
from narl.deep.termination import never
from narl.deep.termination_model import init_termination_model

NO_ARGUMENT = np.float32(0.0)


def make_algorithm(termination=never, **changes):
    config = tiny_config(updates_per_step=1, **changes)
    rule = step_rule_of(config)
    step_rules = () if rule is None else (rule,)
    return Algorithm(config, 1, 1, termination, horizon=4, step_rules=step_rules)


def init_arguments(seed=0):
    return np.uint32(seed), replica_params(), np.zeros(1, np.float32)


def info(num_steps, length=1, retained=48):
    return StepInfo(*map(jnp.int32, (num_steps, length, retained)))


def filled(replay, reward, num_rows):
    """Return a buffer of transitions from state 1 to state 2 that end with this reward."""
    row = jnp.array([1.0, 0.0, reward, 2.0, 1.0])
    rows = replay.rows.at[:num_rows].set(row)
    return Replay(rows, jnp.int32(num_rows), jnp.int32(num_rows))


def changed_fields(before, after):
    return {name for name in before._fields if differs(getattr(before, name), getattr(after, name))}


NARL = make_algorithm()
SAC = make_algorithm(algo="sac")
init_narl = jax.jit(NARL.init)


@pytest.fixture(scope="module")
def fresh():
    """Return the first state of a replica of NARL."""
    return init_narl(*init_arguments())


def test_init_gives_empty_buffers_and_random_first_action(fresh):
    # 16 rollouts, two fits per epoch, at most 3 steps long.
    assert (fresh.real.capacity, fresh.model.capacity) == (40, 2 * 16 * 3)
    assert fresh.real.size == fresh.model.size == 0
    assert_same(fresh.loss_sums, zero_losses())
    assert -1.0 <= float(fresh.action[0]) <= 1.0
    assert_same(init_narl(*init_arguments()), fresh)
    other_seed = init_narl(*init_arguments(seed=1))
    assert {"key", "sac", "ensemble", "action"} <= changed_fields(fresh, other_seed)


@pytest.mark.parametrize(
    ("algo", "termination", "has_ensemble", "has_termination"),
    [("narl", never, True, False), ("narl", None, True, True), ("sac", None, False, False)],
)
def test_init_holds_only_models_that_are_learned(algo, termination, has_ensemble, has_termination):
    state = jax.eval_shape(make_algorithm(termination, algo=algo).init, *init_arguments())
    assert (state.ensemble is not None) == has_ensemble
    assert (state.termination is not None) == has_termination


def test_act_stores_transition_and_chooses_action_for_next_observation(fresh):
    act = jax.jit(NARL.act, static_argnames="random")
    # The mean is 2 s: with a standard deviation of e^−20 the action is tanh(2 s).
    sharp = fresh.sac._replace(actor=affine_actor([[2.0]], [0.0], -20.0))
    state = fresh._replace(sac=sharp, obs=jnp.array([0.5]), action=jnp.array([-0.25]))
    # next_obs, reward, terminated, obs to act on, whether an episode begins
    observed = jnp.array([0.75, 3.0, 1.0, 0.1, 1.0])
    after, action = act(state, observed, info(0), random=False)
    assert after.real.rows[0].tolist() == [0.5, -0.25, 3.0, 0.75, 1.0]
    assert (after.real.size, after.real.num_added) == (1, 1)
    np.testing.assert_allclose(action, np.tanh([0.2]), rtol=1e-5)
    assert_same((after.obs, after.action), (jnp.array([0.1]), action))
    # The observation to act on is not the next one: an episode has ended.
    assert changed_fields(state, after) == {"real", "obs", "action", "bonus_state"}
    assert after.bonus_state.episode == state.bonus_state.episode + 1
    same_episode = jnp.array([0.75, 3.0, 0.0, 0.75, 0.0])
    assert act(state, same_episode, info(0), random=False)[0].bonus_state.episode == 0


def test_random_actions_uniform_and_fixed_by_key_and_step(fresh):
    act = jax.jit(jax.vmap(lambda step: NARL.act(fresh, jnp.zeros(5), info(step), random=True)[1]))
    actions = np.asarray(act(jnp.arange(2000)))[:, 0]
    assert_same(act(jnp.arange(2000))[:, 0], actions)
    counts, _ = np.histogram(actions, bins=4, range=(-1.0, 1.0))
    np.testing.assert_allclose(counts / 2000, 0.25, atol=0.04)
    assert abs(np.corrcoef(actions[1:], actions[:-1])[0, 1]) < 0.08


def test_random_actions_are_repeated(fresh):
    config = dataclasses.replace(NARL.config, random_repeat=3)
    repeating = dataclasses.replace(NARL, config=config)
    state, actions = fresh, [fresh.action]
    act = jax.jit(repeating.act, static_argnames="random")
    for step in range(8):
        state, action = act(state, jnp.zeros(5), info(step), random=True)
        actions.append(action)
    numbers = np.asarray(actions)[:, 0].reshape(3, 3)
    assert (numbers == numbers[:, :1]).all()
    assert len({*numbers[:, 0]}) == 3
    # The first action of each three is the one that is drawn without repetition.
    drawn = NARL.act(fresh, jnp.zeros(5), info(2), random=True)[1]
    assert_same(drawn, actions[3])


@pytest.mark.parametrize(
    ("algorithm", "loss"),
    [(NARL, (2 * 1.0**2 + 6 * 3.0**2) / 8), (SAC, 1.0**2)],
    ids=["narl", "sac"],
)
def test_update_mixes_real_and_imagined_transitions(fresh, algorithm, loss):
    """Critics of 0 lose the squared rewards: 1 for 2 real, 3 for 6 imagined transitions."""
    start = fresh._replace(
        sac=make_sac(affine_actor([[0.0]], [0.0]), affine_critic([[0.0, 0.0]] * 2, [0.0, 0.0])),
        real=filled(fresh.real, 1.0, 20),
        model=filled(fresh.model, 3.0, 1),
    )
    update = jax.jit(algorithm.update)
    once, first_loss = update(start, NO_ARGUMENT, info(20))
    assert first_loss == pytest.approx(loss)
    assert changed_fields(start, once) == {"sac", "loss_sums"}
    twice, second_loss = update(once, NO_ARGUMENT, info(21))
    assert twice.loss_sums.calls == 2.0
    assert twice.loss_sums.losses.critic_loss == pytest.approx(float(first_loss + second_loss))


@pytest.mark.slow
def test_fit_model_uses_only_rows_stored_so_far(fresh):
    algorithm = make_algorithm(termination=None)
    rng = np.random.default_rng(1)
    rows = jnp.asarray(rng.normal(size=fresh.real.rows.shape), jnp.float32)
    rows = rows.at[:, -1].set(rows[:, 0] > 1.0)  # episodes end from s > 1
    start = fresh._replace(
        real=Replay(rows, jnp.int32(30), jnp.int32(30)),
        termination=init_termination_model(jax.random.key(2), 1, 1),
    )
    fit_model = jax.jit(algorithm.fit_model)
    fitted, report = fit_model(start, NO_ARGUMENT, info(30))
    assert changed_fields(start, fitted) == {"ensemble", "termination"}
    assert 0 < report.epochs <= algorithm.config.most_model_epochs
    assert_same(report.holdout_error, fitted.ensemble.holdout_error)
    garbage = start._replace(real=start.real._replace(rows=rows.at[30:].set(1e6)))
    refitted, _ = fit_model(garbage, NO_ARGUMENT, info(30))
    assert_same((refitted.ensemble, refitted.termination), (fitted.ensemble, fitted.termination))


# r = 1, s' = s + 1 and r = 1, s' = s + 3.
FORK = constant_ensemble([[1.0, 1.0], [1.0, 3.0]])
imagine = jax.jit(NARL.imagine)


def test_imagine_fills_model_buffer_from_real_states(fresh):
    real = filled(fresh.real, 0.0, 5)
    start = fresh._replace(ensemble=FORK, sac=sac_with_value(1.0), real=real)
    after, imagined = imagine(start, NO_ARGUMENT, info(20, length=2, retained=24))
    assert changed_fields(start, after) == {"model", "bonus_state"}
    assert imagined.sums.steps == 2 * 16
    # Values of 2 and 4, each 1 from their mean; the second is taken without a radius.
    np.testing.assert_allclose(imagined.diagnostics.value_distance, [1.0, 1.0], rtol=1e-5)
    assert imagined.diagnostics.selected_at[-1].tolist() == [0.0, 1.0]
    assert after.bonus_state.first_disagreement == pytest.approx(0.5)
    assert after.model.size == 24
    batch = unpack(after.model.rows[: 2 * 16], 1)
    # Every trajectory begins in the only real state, 1, and takes the state of larger value.
    assert batch.obs[:, 0].tolist() == [1.0] * 16 + [4.0] * 16
    np.testing.assert_array_equal(batch.next_obs, batch.obs + 3.0)


def filled_with_candidates(replay, rewards, num_rows=5):
    """Return a buffer of steps from 1 that end for both members, with a reward of each."""
    row = jnp.array([1.0, 0.0, *rewards, 2.0, 2.0, 1.0, 1.0])
    rows = replay.rows.at[:num_rows].set(row)
    return Replay(rows, jnp.int32(num_rows), jnp.int32(num_rows))


@pytest.mark.slow
def test_optimism_in_the_update_chooses_among_stored_candidates():
    """Critics of 0 lose the squared rewards: 1 for 2 real, the chosen one for 6 imagined ones.

    Of the rewards 3 and 5 the larger one is taken. A random fallback takes both now and then, and
    annealing draws the member with the least error: here the first.
    """
    algorithm = make_algorithm(optimism_at="update")
    update = jax.jit(algorithm.update)
    zero = make_sac(affine_actor([[0.0]], [0.0]), affine_critic([[0.0, 0.0]] * 2, [0.0, 0.0]))
    state = jax.jit(algorithm.init)(*init_arguments())
    state = state._replace(
        sac=zero,
        real=filled(state.real, 1.0, 20),
        model=filled_with_candidates(state.model, (3.0, 5.0)),
    )

    def loss_of(params, step=20):
        _, loss = update(state._replace(params=params), NO_ARGUMENT, info(step))
        return float(loss)

    least, largest = ((2 * 1.0**2 + 6 * reward**2) / 8 for reward in (3.0, 5.0))
    assert loss_of(replica_params(radius=np.inf)) == pytest.approx(largest)
    assert loss_of(replica_params(radius=0.5)) == pytest.approx(largest)
    assert loss_of(replica_params(radius=0.5, exclude="above")) == pytest.approx(least)
    # Ten steps after the random ones optimism is over.
    assert loss_of(replica_params(anneal_steps=5)) == pytest.approx(least)
    assert loss_of(replica_params(anneal_steps=5, anneal="radius")) == pytest.approx(largest)
    random = [loss_of(replica_params(radius=0.5, fallback="random"), step) for step in range(5)]
    assert least < np.mean(random) < largest


# Three candidates per imagined step; the value of a state s is s, and γ = 1/2.
THREE = {"optimism_at": "update", "members": 3, "discount": 0.5}


@pytest.fixture(scope="module")
def target_of_update(fresh):
    """Return a function of a stored step's candidates: the target y of the compiled update.

    The online critics are 0, so that the loss is the mean of y² over 2 real and 6 imagined steps.
    The target critics are s and s + 5. Real steps have r = 1 and s' = 2: their target is 2.
    """
    algorithm = make_algorithm(**THREE)
    zero = affine_critic([[0.0, 0.0]] * 2, [0.0, 0.0])
    target = affine_critic([[1.0, 0.0]] * 2, [0.0, 5.0])
    sac = make_sac(affine_actor([[0.0]], [0.0]), zero, target, alpha=1e-30)
    real = fresh.real.rows.at[:20].set(jnp.array([1.0, 0.0, 1.0, 2.0, 0.0]))
    state = fresh._replace(
        sac=sac,
        ensemble=constant_ensemble([[0.0, 0.0]] * 3),
        real=Replay(real, jnp.int32(20), jnp.int32(20)),
    )
    empty = make_replay(96, 1, 1, 3)
    update = jax.jit(algorithm.update)

    def target_of(rewards, states, ends, params):
        row = jnp.array([1.0, 0.0, *rewards, *states, *ends], jnp.float32)
        model = Replay(empty.rows.at[:5].set(row), jnp.int32(5), jnp.int32(5))
        _, loss = update(state._replace(model=model, params=params), NO_ARGUMENT, info(20))
        return np.sqrt((8 * float(loss) - 2 * 2.0**2) / 6)

    return target_of


GOES_ON = [0, 0, 0]
# r + V/2 is 5, 4, 6: the largest reward, value and sum are of different members.
APART = [5, 0, 4], [0, 8, 4], GOES_ON
# r + V/2 is 11, 4, 6, with mean 7 and standard deviation √(26/3) = 2.94.
LEADER = [6, 0, 3], [10, 8, 6], GOES_ON
# The episode ends for member 2: its value is 0, not 9, and the mean of the values is 2.
ENDS = [1, 1, 1], [2, 4, 9], [0, 0, 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("candidates", "radius", "options", "target"),
    [
        pytest.param(APART, np.inf, {}, 5 + 8 / 2, id="largest r, largest V"),
        pytest.param(APART, np.inf, {"joint": True}, 4 + 4 / 2, id="joint: largest sum"),
        # Distances 2, 3, 1 of the rewards and 4, 4, 0 of the values.
        pytest.param(APART, 2.5, {}, 5 + 4 / 2, id="each within a radius of its own"),
        # Distances 0, 1, 1 of the sums.
        pytest.param(APART, 0.5, {"joint": True}, 5 + 0 / 2, id="joint: within the radius"),
        # Distances 3, 3, 0 of the rewards, 2, 0, 2 of the values and 4, 3, 1 of the sums.
        pytest.param(LEADER, 3.5, {}, 6 + 10 / 2, id="each: the leader is admitted"),
        pytest.param(LEADER, 3.5, {"exclude_by": "return"}, 3 + 8 / 2, id="return: excluded"),
        pytest.param(LEADER, 3.5, {"joint": True}, 3 + 6 / 2, id="joint: the leader is excluded"),
        pytest.param(
            *(LEADER, 0.5, {"exclude_by": "return", "exclude": "above"}),
            3 + 8 / 2,
            id="return, above: all below the mean are admitted",
        ),
        # Radii of 2.94, 3.24 and 4.12 admit one, two and three members; radii of 1, 1.1 and 1.4
        # would admit one.
        pytest.param(
            *(LEADER, 1.0, {"exclude_by": "return", "radius_unit": "spread"}),
            3 + 6 / 2,
            id="return: 1 deviation of the sums",
        ),
        pytest.param(
            *(LEADER, 1.1, {"exclude_by": "return", "radius_unit": "spread"}),
            3 + 8 / 2,
            id="return: 1.1 deviations of the sums",
        ),
        pytest.param(
            *(LEADER, 1.4, {"exclude_by": "return", "radius_unit": "spread"}),
            6 + 10 / 2,
            id="return: 1.4 deviations of the sums",
        ),
        # The standard deviations of the rewards and of the values are 2.45 and 1.63.
        pytest.param(LEADER, 1.0, {"radius_unit": "spread"}, 3 + 8 / 2, id="each: 1 deviation"),
        pytest.param(ENDS, np.inf, {}, 1 + 4 / 2, id="no value after the end"),
        pytest.param(ENDS, 1.0, {}, 1 + 2 / 2, id="the end counts in the mean"),
    ],
)
def test_update_takes_the_reward_and_the_value_that_optimism_chooses(
    target_of_update, candidates, radius, options, target
):
    params = replica_params(radius=radius, **options)
    assert target_of_update(*candidates, params) == pytest.approx(target, rel=1e-5)


def test_strength_falls_after_random_steps_and_uniform_number_stays_for_an_episode(fresh):
    """Ten random steps, then optimism falls over 20 steps."""

    @jax.jit
    def numbers(step, episode, anneal_steps):
        params = fresh.params._replace(
            numbers=fresh.params.numbers._replace(anneal_steps=anneal_steps)
        )
        bonus_state = fresh.bonus_state._replace(episode=episode)
        context = NARL._context(fresh._replace(params=params, bonus_state=bonus_state), info(step))
        return context.strength, context.episode_uniform

    strengths = [float(numbers(step, 0, 20.0)[0]) for step in (0, 10, 15, 30, 99)]
    np.testing.assert_allclose(strengths, [1.0, 1.0, 0.75, 0.0, 0.0])
    assert float(numbers(99, 0, np.inf)[0]) == 1.0
    uniforms = [
        float(numbers(step, episode, 20.0)[1]) for step, episode in ((0, 0), (9, 0), (9, 1))
    ]
    assert uniforms[0] == uniforms[1] != uniforms[2]
    many = np.array([float(numbers(0, episode, 20.0)[1]) for episode in range(100)])
    assert 0.0 <= many.min() < 0.1
    assert 0.9 < many.max() < 1.0


def test_assess_returns_model_return_value_and_losses_once(fresh):
    # The mode of the action is 0: the values are s and s + 0.5.
    critic = affine_critic([[1.0, 0.0], [1.0, 5.0]], [0.0, 0.5])
    losses = jax.tree.map(lambda x: x + 7.0, zero_losses())
    start = fresh._replace(
        ensemble=FORK, sac=make_sac(affine_actor([[0.0]], [0.0]), critic), loss_sums=losses
    )
    starts = jnp.array([[2.0], [-1.0]])
    after, assessment = jax.jit(NARL.assess)(start, starts, info(20))
    for returns in (assessment.model_returns, assessment.mean_model_returns):
        np.testing.assert_allclose(returns, [[1.0, 2.0, 3.0, 4.0]] * 2, rtol=1e-5)
    np.testing.assert_allclose(assessment.value, [2.0, -1.0], rtol=1e-6)
    assert_same(assessment.loss_sums, losses)
    assert_same(after, start._replace(loss_sums=zero_losses()))
    _, assessment = jax.jit(SAC.assess)(start._replace(ensemble=None), starts, info(20))
    assert np.isnan(assessment.model_returns).all()
    assert np.isnan(assessment.mean_model_returns).all()
    np.testing.assert_allclose(assessment.value, [2.0, -1.0], rtol=1e-6)
