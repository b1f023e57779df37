"""Evaluations: returns, lengths, who ended an episode, and which seeds solved the task."""

import contextlib
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from probes import Drift, Endless, OneStep
from tiny import affine_actor, tiny_config

from narl.deep.counters import new_counters
from narl.deep.environment import EnvRecipe, open_env
from narl.deep.environment_pool import Environments
from narl.deep.evaluation import Evaluation, Evaluator, evaluate, evaluation_seed
from narl.deep.metrics import returns_in_model

ACTOR = affine_actor([[0.5]], [0.1])
TWO_ACTORS = jax.tree.map(lambda x: np.stack([x, -x]), ACTOR)


@pytest.fixture
def make_evaluator():
    """Return a function that makes an evaluator of seeds 3 and 4; its environments get closed."""
    with contextlib.ExitStack() as opened:

        def make(env, num_threads=1, **changes):
            envs = Environments(EnvRecipe(env), (3, 4), num_threads)
            opened.callback(envs.close)
            return Evaluator(tiny_config(eval_episodes=1, **changes), (3, 4), envs, horizon=9)

        yield make


def counters_at(step):
    counters = new_counters(2)
    counters.step = step
    return counters


@pytest.mark.parametrize(
    ("env", "horizon", "expected"),
    [
        (Endless, 9, ([3.0], [3], [True])),
        (Endless, 2, ([2.0], [2], [False])),
        (OneStep, 9, ([1.0], [1], [False])),
    ],
)
def test_evaluation_has_return_length_and_truncation(env, horizon, expected):
    with contextlib.closing(open_env(env, 0)) as opened:
        assert tuple(evaluate(ACTOR, opened, 1, 0, horizon)) == expected


def test_evaluation_of_a_step_depends_on_seed_and_step_only(make_evaluator):
    first = make_evaluator(Drift).evaluate(TWO_ACTORS, counters_at(10), [0, 1])[0]
    evaluator = make_evaluator(Drift)
    later = evaluator.evaluate(TWO_ACTORS, counters_at(20), [0, 1])[0]
    again = evaluator.evaluate(TWO_ACTORS, counters_at(10), [0, 1])[0]
    assert again == first != later
    with contextlib.closing(open_env(Drift, 3)) as env:
        assert evaluate(ACTOR, env, 1, evaluation_seed(3, 10), 9) == first[0]
        start = env.reset(seed=evaluation_seed(4, 10))
    np.testing.assert_array_equal(evaluator.starts(10)[1], [start])


def test_threads_change_no_evaluation_and_inactive_replicas_have_none(make_evaluator):
    expected = make_evaluator(Drift).evaluate(TWO_ACTORS, counters_at(10), [0, 1])[0]
    threaded = make_evaluator(Drift, num_threads=2)
    assert threaded.evaluate(TWO_ACTORS, counters_at(10), [0, 1])[0] == expected
    only_second = make_evaluator(Drift).evaluate(TWO_ACTORS, counters_at(10), [1])[0]
    assert only_second[1] == expected[1]
    assert (only_second[0].lengths, np.isnan(only_second[0].returns[0])) == ([0], True)


def test_solved_task_is_confirmed_by_ten_episodes_once(make_evaluator):
    evaluator, counters = make_evaluator(OneStep, solved_return=1.0), counters_at(10)
    _, figures = evaluator.evaluate(TWO_ACTORS, counters, [0])
    assert figures == {"mean10": [1.0, None], "confirmed_step": [10, None]}
    counters.step = 20
    _, figures = evaluator.evaluate(TWO_ACTORS, counters, [0, 1])
    assert figures == {"mean10": [None, 1.0], "confirmed_step": [10, 20]}
    assert counters.solved_step == [10, 20]


def test_confirming_episodes_are_fresh(make_evaluator):
    """Drift begins at random: the returns of the evaluation are none of those that confirm it."""
    evaluator, counters = make_evaluator(Drift, solved_return=-1e9), counters_at(10)
    evaluations, figures = evaluator.evaluate(TWO_ACTORS, counters, [0, 1])
    with contextlib.closing(open_env(Drift, 3)) as env:
        ten = evaluate(ACTOR, env, 10, evaluation_seed(evaluation_seed(3, 10), 1), 9).returns
    assert figures["mean10"][0] == pytest.approx(np.mean(ten))
    assert not set(evaluations[0].returns) & set(ten)


def test_lucky_episode_does_not_confirm(make_evaluator):
    """The environment's own threshold counts, where it has one."""
    evaluator, counters = make_evaluator(Drift, solved_return=-1e9), counters_at(10)
    for env in evaluator._envs.training:
        env.env.spec = SimpleNamespace(reward_threshold=1e6)
    _, figures = evaluator.evaluate(TWO_ACTORS, counters, [0, 1])
    assert counters.solved_step == [10, 10]
    assert figures["confirmed_step"] == [None, None]
    assert max(figures["mean10"]) < 1e6


def test_task_without_a_target_is_never_solved(make_evaluator):
    counters = counters_at(10)
    _, figures = make_evaluator(OneStep).evaluate(TWO_ACTORS, counters, [0, 1])
    assert counters.solved_step == [None, None]
    assert figures == {"mean10": [None, None], "confirmed_step": [None, None]}


def test_return_in_the_model_is_taken_over_as_many_steps_as_the_environment_allowed():
    """Truncated after 2 steps, terminated after 2, truncated later than the model; and 0 steps."""
    sums = np.array([[[1.0, 3.0, 6.0, 10.0]] * 3, [[8.0, 8.0, 8.0, 8.0]] * 3], np.float32)
    evaluations = [
        Evaluation([0.0] * 3, [2, 2, 9], [True, False, True]),
        Evaluation([np.nan] * 3, [0] * 3, [False] * 3),
    ]
    means = returns_in_model(sums, evaluations)
    np.testing.assert_allclose(means, [(3 + 10 + 10) / 3, 8.0])
