"""Selections, bonuses and terminations of the user: checked, used, and given again to `load`."""

import jax.numpy as jnp
import pytest
from quick_trainings import actions_of, quick_agent, quick_options

import narl
from narl.deep.algorithm_registry import register_algorithm
from narl.deep.selection import select_optimistic, take_members
from narl.errors import InputError
from short_trainings import ENV


def select_first(key, candidates, params):
    """Take the steps of member 0, always."""
    return take_members(candidates, jnp.zeros(candidates.obs.shape[0], jnp.int32))


def hundred(key, candidates, selected, params):
    """Add 100 to every imagined reward."""
    return jnp.full(candidates.obs.shape[0], 100.0)


def ends_at_once(obs, action, next_obs):
    """Let every imagined trajectory end after its first step."""
    return True


def stop(row):
    """End learning after the second epoch: the rest needs no larger buffers."""
    return row["step"] < 40


@pytest.mark.slow
def test_functions_of_the_user_are_used_and_given_again(cache, registry, tmp_path):
    """A program holds all registered ways to select; all agents of this test share one."""
    plain = quick_agent("narl").learn(60, stop)
    register_algorithm("first", select_first, hundred, members=2)
    # The built-in function is the algorithm's own, also beside others.
    agent = quick_agent("narl", select=select_optimistic).learn(60, stop)
    assert actions_of(agent) == actions_of(plain)
    assert agent.history[-1]["selected"] == plain.history[-1]["selected"] != [[1.0, 0.0]]

    own = quick_agent("narl", select=select_first, bonus=hundred).learn(60, stop)
    row = own.history[-1]
    assert row["selected"] == row["reward_selected"] == [[1.0, 0.0]]
    assert row["bonus"] == [100.0]
    assert plain.history[-1]["bonus"] == [0.0]
    # Returns inside the model are without the bonus.
    assert row["model_return"][0] < 1000
    assert actions_of(own) != actions_of(plain)
    registered = narl.Agent(ENV, algo="first", **quick_options("narl")).learn(60, stop)
    assert registered.history[-1]["model_return"] == row["model_return"]
    assert actions_of(registered) == actions_of(own)

    path = own.save(tmp_path / "own", data=True)
    again = narl.load(registered.save(tmp_path / "registered", data=True))
    assert (type(again), again.algo) == (narl.Agent, "first")
    for parts, missing in (({}, "select"), ({"select": select_first}, "bonus")):
        bare = narl.load(path, **parts)
        assert actions_of(bare) == actions_of(own)
        with pytest.raises(InputError, match=f"{missing}: it was the user's own; give it to narl"):
            bare.learn(20)
    complete = narl.load(path, select=select_first, bonus=hundred).learn(20)
    assert complete.history[-1]["selected"] == [[1.0, 0.0]]
    assert actions_of(again.learn(20)) == actions_of(complete)


@pytest.mark.slow
def test_termination_of_the_user_ends_imagined_trajectories(cache, tmp_path):
    shapes = set()

    def termination(obs, action, next_obs):
        shapes.add((obs.shape, action.shape, next_obs.shape))
        return ends_at_once(obs, action, next_obs)

    options = {"rollout_schedule": (0, 0, 2, 2), "termination": termination}
    agent = quick_agent("narl", **options).learn(60)
    assert shapes == {((2,), (1,), (2,))}
    assert agent.history[-1]["imagined"] == [2 * 40.0]  # two fits, one step per trajectory
    path = agent.save(tmp_path / "agent", data=True)
    with pytest.raises(InputError, match="termination: it was the user's own; give it to narl"):
        narl.load(path).learn(20)
    assert narl.load(path, termination=ends_at_once)._learner.problem == ""
    with pytest.raises(InputError, match="termination: str given; it must be a function"):
        narl.load(path, termination="never")


def too_few_rows(key, candidates, params):
    return take_members(candidates, jnp.zeros(1, jnp.int32))


def branches(key, candidates, selected, params):
    return candidates.disagreement if candidates.disagreement.sum() > 0 else -1.0


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: narl.SAC(ENV, select=select_first), "select: .* no effect with algorithm sac"),
        (lambda: narl.SAC(ENV, bonus=hundred), "bonus: .* no effect with algorithm sac"),
        (
            lambda: narl.NARL(ENV, select=select_first, optimism_at="update"),
            "select: it has no effect with optimism_at update",
        ),
        (
            lambda: narl.NARL(ENV, bonus=hundred, noise="reward"),
            "noise: 'reward' has no effect on rewards beside a bonus, .*; leave it out, or take",
        ),
        (
            lambda: narl.NARL(ENV, bonus=hundred, noise="both"),
            "noise: 'both' has no effect on rewards beside a bonus, .*; give 'model', which",
        ),
        (lambda: narl.NARL(ENV, select="optimistic"), "select: str given; it must be a function"),
        (
            lambda: narl.NARL(ENV, select=hundred),
            r"select: .* gives TypeError .* must give Selected",
        ),
        (lambda: narl.NARL(ENV, select=lambda *_: 0), r"select: .* gives int32\[\]; .* Selected"),
        (lambda: narl.NARL(ENV, select=too_few_rows), r"select: .* Selected\(reward=float32\[1\]"),
        (lambda: narl.MBPO(ENV, bonus=select_first), r"bonus: .* gives TypeError"),
        (lambda: narl.MBPO(ENV, bonus=lambda *_: 0.0), r"bonus: .* must give float32\[3\]"),
        (lambda: narl.MBPO(ENV, bonus=branches), r"TracerBool.*: use jnp.where in place of if; "),
    ],
)
def test_function_that_cannot_be_used_is_refused_at_once(make, line):
    with pytest.raises(InputError, match=line) as refused:
        make()
    assert "\n" not in str(refused.value)
