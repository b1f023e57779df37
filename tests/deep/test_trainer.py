"""The training loop: what stops it, and what counts as solved."""

import jax
import numpy as np
import pytest
from probes import Drift, Endless, OneStep
from tiny import affine_actor, tiny_settings

from narl.deep.algorithm import Judgement
from narl.deep.counters import LaneSpec
from narl.deep.environment import open_env
from narl.deep.evaluation import Evaluation, evaluate
from narl.deep.metrics import promised_returns
from narl.deep.trainer import Fault, Training

LANES = (LaneSpec(3, "narl", 0.1), LaneSpec(4, "narl", None))
RAW = tiny_settings(model_depth=1, scale_targets=False)


def until_learning(settings, **rest):
    training = Training(settings, LANES, make_env=Drift, **rest)
    while training.books.step <= settings.learn_after:
        training.advance()
    return training


def spoil(training, change):
    """Changes the state of the second lane."""
    learner = jax.tree.map(np.copy, training.export())
    change(learner)
    training.restore(learner)


def go_on(training):
    while not training.is_over:
        training.advance()


@pytest.mark.slow
def test_a_model_that_imagines_infinity_is_named():
    training = until_learning(RAW)

    def break_scale(learner):
        learner.ensemble.target_scale.std[1] = np.inf

    spoil(training, break_scale)
    with pytest.raises(Fault, match=r"seed 4: \d+ imagined steps are not finite"):
        go_on(training)
    training.close()


@pytest.mark.slow
def test_a_loss_that_is_not_finite_is_named_at_once():
    training = until_learning(RAW)
    step = training.books.step

    def break_critic(learner):
        learner.sac.critic[0].b[1] = np.nan

    spoil(training, break_critic)
    with pytest.raises(Fault, match="seed 4: critic_loss is nan"):
        go_on(training)
    assert training.books.step <= step + 1
    training.close()


@pytest.mark.slow
def test_solved_is_confirmed_by_ten_episodes():
    settings = tiny_settings(algo="sac", solved_return=1.0, eval_episodes=1, epoch_length=5)
    lanes = [LaneSpec(0, "sac", None)]
    training = Training(settings, lanes, make_env=OneStep)
    rows = []
    while len(rows) < 2:
        rows += filter(None, [training.advance()])
    training.close()
    assert rows[0]["solved_step"] == rows[0]["confirmed_step"] == [5]
    assert rows[0]["mean10"] == [1.0]
    # Ten episodes are run until they have confirmed it.
    assert rows[1]["mean10"] == [None]
    assert rows[1]["confirmed_step"] == [5]


@pytest.mark.slow
def test_one_lucky_episode_does_not_confirm():
    settings = tiny_settings(algo="sac", solved_return=-1e9, eval_episodes=1, epoch_length=5)
    training = Training(settings, [LaneSpec(0, "sac", None)], make_env=Drift)
    training.judges[0].env.spec = SPEC
    row = None
    while row is None:
        row = training.advance()
    training.close()
    assert row["solved_step"] == [5]
    assert row["confirmed_step"] == [None]
    assert row["mean10"][0] < 1e6


def test_the_model_promises_for_as_many_steps_as_the_environment_allowed():
    """Cut after 2 steps, terminated after 2, cut later than the model went on; and 0 steps."""
    sums = np.array([[[1.0, 3.0, 6.0, 10.0]] * 3, [[8.0, 8.0, 8.0, 8.0]] * 3], np.float32)
    asked = [
        Evaluation([0.0] * 3, [2, 2, 9], [True, False, True]),
        Evaluation([np.nan] * 3, [0] * 3, [False] * 3),
    ]
    judgement = Judgement(sums, np.zeros((2, 3)))
    np.testing.assert_allclose(promised_returns(judgement, asked), [(3 + 10 + 10) / 3, 8.0])


@pytest.mark.slow
def test_an_environment_that_cuts_its_own_episodes_is_imagined_as_long():
    settings = tiny_settings(scale_targets=True, most_model_epochs=20, eval_horizon=500)
    training = Training(settings, LANES, make_env=Endless)
    row = {}
    while not training.is_over:
        row = training.advance() or row
    training.close()
    assert (row["eval_return"], row["eval_length"]) == ([3.0, 3.0], [3.0, 3.0])
    # A poor model's promise, but of 3 steps and not of 500.
    np.testing.assert_allclose(row["model_return"], 3.0, atol=3.0)


@pytest.mark.parametrize(
    ("env", "horizon", "expected"),
    [
        (Endless, 9, ([3.0], [3], [True])),
        (Endless, 2, ([2.0], [2], [False])),
        (OneStep, 9, ([1.0], [1], [False])),
    ],
)
def test_an_evaluation_tells_who_ended_the_episode(env, horizon, expected):
    actor = affine_actor([[0.0]], [0.0])
    opened = open_env(env, 0)
    assert tuple(evaluate(actor, opened, 1, 0, horizon)) == expected
    opened.close()


class SPEC:
    reward_threshold = 1e6


def test_a_training_that_cannot_begin_closes_its_environments(monkeypatch):
    closed = []

    class Watched(Drift):
        def close(self):
            closed.append(self)

    monkeypatch.setattr(Training, "_begin", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Training(RAW, LANES, make_env=Watched)
    assert len(closed) == 4
