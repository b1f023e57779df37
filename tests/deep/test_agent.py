"""The Python API: learn, stop, evaluate, on environments by name and of the user."""

import contextlib
import copy
import json
import os
import pickle
import signal
import threading
from pathlib import Path

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from quick_trainings import actions_of, quick_agent

import narl
import toy_worlds
from narl.errors import InputError
from short_trainings import ENV

slow = pytest.mark.slow


def test_agents_have_the_options_of_preset_and_algorithm():
    agent = narl.NARL("InvertedPendulum-v5", members=3, radius=0.1, seed=0)
    assert (agent.config.members, agent.config.radius, agent.seeds) == (3, 0.1, (0,))
    assert agent.config.updates_per_step == 10  # the preset
    action, state = agent.predict(np.zeros(4), deterministic=True)
    assert (action.shape, action.dtype, state) == ((1,), np.float32, None)
    assert narl.NARL("Pendulum-v1", radius=None).config.radius is None
    assert narl.MBPO("Pendulum-v1").config.num_elites == 5
    assert narl.MBPO("Pendulum-v1", members=3).config.num_elites == 3
    assert narl.SAC("Pendulum-v1", steps=7000).config.steps == 7000
    assert narl.Agent("Pendulum-v1", algo="mbpo").config.num_members == 7


# --- learn ------------------------------------------------------------------------------------


@slow
def test_learning_changes_the_policy_and_keeps_its_history(learned):
    assert [row["step"] for row in learned.history] == [20, 40, 60]
    assert (learned.num_steps, len(learned.history[0]["eval_return"])) == (60, 2)
    assert json.loads(json.dumps(learned.history)) == learned.history
    assert actions_of(quick_agent(seed=3)) != actions_of(learned)


def without_seconds(row):
    return {name: x for name, x in row.items() if name != "seconds"}


@slow
@pytest.mark.parametrize("algo", ["sac", "narl"])
def test_several_calls_equal_a_single_one(algo, learned_with_model, tmp_path, monkeypatch):
    """Also within the random steps, and after 20 steps, where a model is due.

    The buffers have one size here: it has a part in the rounding of sums.
    """
    monkeypatch.setattr("narl.deep.buffer_capacity._room", lambda config, last_step, state: 60)
    agent, other = (quick_agent(algo) for _ in range(2))
    first_actions = actions_of(agent)
    agent.learn(20)
    again = narl.load(agent.save(tmp_path / "saved", data=True)).learn(40)
    assert (actions_of(agent), agent.history[-1]["updates"]) == (first_actions, [0])
    trainer = agent._learner.trainer
    agent.learn(15).learn(25)
    assert agent._learner.trainer is trainer
    other.learn(12).learn(total_timesteps=48)
    assert [row["step"] for row in agent.history] == [20, 35, 40, 60]
    assert [row["step"] for row in again.history] == [20, 40, 60]
    assert [row["step"] for row in other.history] == [12, 20, 40, 60]
    whole = learned_with_model if algo == "narl" else quick_agent().learn(60)
    assert actions_of(agent) == actions_of(again) == actions_of(other) == actions_of(whole)
    rows = [without_seconds(each.history[-1]) for each in (agent, again, other, whole)]
    assert all(row == rows[0] for row in rows)


@slow
def test_buffers_grow_rarely_and_keep_their_data(learned):
    """A seed learns what it learns beside others."""
    agent = quick_agent(seed=8).learn(60)
    assert actions_of(agent) == actions_of(learned, 8)
    data = agent._learner.trainer.to_host().real.rows
    agent.learn(40)  # room for twice the steps, a power of two
    trainer = agent._learner.trainer
    real, num_traces = trainer.to_host().real, trainer.replicas.num_traces
    assert (data.shape[1], real.rows.shape[1], real.size.tolist()) == (60, 256, [100])
    np.testing.assert_array_equal(real.rows[:, :60], data)
    assert np.abs(real.rows[:, 60:100]).sum(axis=-1).min() > 0
    agent.learn(10)
    assert (agent._learner.trainer, trainer.replicas.num_traces) == (trainer, num_traces)


@slow
def test_every_column_is_documented(learned, learned_with_model):
    page = Path(__file__).parents[2].joinpath("docs", "metrics.md").read_text(encoding="utf-8")
    section = page.partition("## Training: per epoch")[2].partition("\n## ")[0]
    for row in (learned.history[-1], learned_with_model.history[-1]):
        names = {*row, *row["seconds"]}
        assert {name for name in names if f"`{name}`" not in section} == set()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        *(({"total_steps": x}, "total_steps: .* a whole number >= 1") for x in (2.5, True, "10")),
        ({"total_timesteps": 0}, "total_steps: 0 is too small; the nearest valid value is 1"),
        ({"total_steps": 9, "total_timesteps": 9}, "total_timesteps: it is another name of total"),
    ],
)
def test_wrong_number_of_steps_is_refused(arguments, line):
    with pytest.raises(InputError, match=line):
        quick_agent().learn(**arguments)


@slow
def test_compiled_programs_are_kept_unless_the_user_keeps_them_elsewhere(cache, monkeypatch):
    """The cache of these tests stands for the user's own."""
    calls, name = [], "jax_compilation_cache_dir"
    monkeypatch.setattr("narl.deep.agent_training.enable_cache", lambda: calls.append(True))
    monkeypatch.setattr("narl.deep.agent_training.Trainer", lambda *arguments: 1 / 0)
    folder = getattr(jax.config, name)
    for cache_folder, expected in ((folder, []), (None, [True])):
        jax.config.update(name, cache_folder)
        try:
            with pytest.raises(ZeroDivisionError):
                quick_agent().learn(60)
        finally:
            jax.config.update(name, folder)
        assert calls == expected


@slow
def test_learning_beyond_memory_is_refused_and_the_agent_stays(cache, monkeypatch):
    agent = quick_agent().learn(60)
    before = actions_of(agent)
    monkeypatch.setattr("narl.deep.device_memory.available_memory", lambda: 1000)
    with pytest.raises(InputError, match=r"memory: it needs .* kB and 1\.0 kB are available; take"):
        agent.learn(40)
    assert actions_of(agent) == before
    monkeypatch.undo()
    assert agent.learn(40).num_steps == 100


@slow
def test_progress_is_a_line_per_epoch_without_a_terminal(cache, capsys):
    """Learning works in a thread, too."""
    agent = quick_agent()
    thread = threading.Thread(target=agent.learn, args=(60,), kwargs={"progress": True})
    thread.start()
    thread.join()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[2].startswith(f"sac {ENV}: step 60/60, return ")
    assert agent.num_steps == 60


# --- stops ------------------------------------------------------------------------------------


def press_once(row):
    os.kill(os.getpid(), signal.SIGINT)


def press_twice(row):
    press_once(row)
    press_once(row)


def fail(row):
    raise ZeroDivisionError


@slow
@pytest.mark.parametrize(
    ("callback", "error"),
    [
        (lambda row: False, None),
        (press_once, KeyboardInterrupt),
        (press_twice, KeyboardInterrupt),
        (fail, ZeroDivisionError),
    ],
)
def test_stopped_agent_is_where_learning_was_and_goes_on(learned, tmp_path, callback, error):
    agent = quick_agent(seed=8)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with contextlib.nullcontext() if error is None else pytest.raises(error):
            agent.learn(60, callback)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert (agent.num_steps, [row["step"] for row in agent.history]) == (20, [20])
    trainer = agent._learner.trainer
    again = narl.load(agent.save(tmp_path / "saved", data=True))
    assert actions_of(again) == actions_of(agent)
    agent.learn(40)
    assert agent._learner.trainer is trainer  # nothing is compiled again
    assert actions_of(agent) == actions_of(learned, 8)
    if callback is fail:
        assert actions_of(again.learn(40)) == actions_of(agent)


@slow
def test_closed_agent_still_acts_and_is_saved_whole(cache, tmp_path):
    """A callback may close the agent; learning ends there."""
    agent = quick_agent()
    agent.learn(60, lambda row: agent.close())
    before = actions_of(agent)
    agent.close()
    assert (agent.num_steps, len(agent.history)) == (20, 1)
    run = narl.storage.load_run_at(agent.save(tmp_path / "saved"))
    assert "sac.critic.0.w" in run.arrays()
    with pytest.raises(InputError, match="learn: the agent was closed; make a new one"):
        agent.learn(20)
    assert actions_of(agent) == before


# --- environments of the user, and wrong input ------------------------------------------------


class Watched(toy_worlds.Toy):
    """Remembers that it was closed."""

    closed = False

    def close(self):
        self.closed = True


@slow
def test_instance_is_trained_in_stays_open_and_is_evaluated_in_a_copy(cache):
    env = TimeLimit(Watched(), 30)
    agent = quick_agent(env=env).learn(60)
    assert agent.config.env == "Watched"
    assert agent._learner.trainer.envs.training[0].env is env
    copy = agent._learner.trainer.envs.evaluation[0].env
    assert copy.unwrapped is not env.unwrapped
    from_function = quick_agent(env=lambda: TimeLimit(toy_worlds.Toy(), 30)).learn(60)
    assert actions_of(agent) == actions_of(from_function)
    assert agent.evaluate(2).returns == from_function.evaluate(2).returns
    agent.close()
    assert (env.unwrapped.closed, copy.unwrapped.closed) == (False, True)
    env.step(env.action_space.sample())


def test_termination_of_a_preset_made_by_hand_is_known():
    with contextlib.closing(gymnasium.make("InvertedPendulum-v5")) as env:
        agent = narl.NARL(env)
        assert agent._parts.termination is not None
        assert agent.config.solved_return == 1000
        assert narl.NARL(env, termination="learned")._parts.termination is None


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: narl.NARL("Hoper-v5"), "env: unknown environment 'Hoper-v5'; did you mean 'Hop"),
        (lambda: narl.NARL("Hoper-v5"), "If a module of yours registers it, write module:id"),
        (lambda: narl.NARL("MlpPolicy", ENV), "policy: narl has no policy classes; only the"),
        (lambda: narl.SAC(ENV, "MlpPolicy"), r"policy: .* hidden= sets the networks"),
        (
            lambda: narl.NARL(env=ENV, policy="MlpPolicy"),
            "policy: narl has no policy classes; only the",
        ),
        (lambda: narl.NARL(7), "env: int is neither an id nor a function"),
        (lambda: narl.NARL(ENV, epochs=3), "option: unknown value 'epochs'; did you mean"),
        (lambda: narl.MBPO(ENV, radius=0.1), "radius: .* mbpo, only with narl"),
        (lambda: narl.Agent(ENV, algo="mpbo"), "algo: unknown value 'mpbo'; did you mean 'mbpo'"),
        (lambda: narl.NARL(ENV, seeds=[1, 1]), "seeds: 1 is given twice"),
        (
            lambda: quick_agent(env=toy_worlds.Toy(), seeds="0:2"),
            "seeds: one environment serves one seed",
        ),
        (
            lambda: narl.NARL(ENV, termination="no"),
            "termination: unknown value 'no'; it must be one of",
        ),
        (lambda: narl.NARL(ENV, termination=3), "termination: int given; it must be a function"),
        (
            lambda: narl.SAC(ENV, termination=lambda obs, action, next_obs: False),
            "termination: .* sac, only with narl, mbpo, sombrl, .* and maxinfo; leave it out",
        ),
        (
            lambda: narl.NARL(ENV, termination=lambda obs, action: True),
            "termination: the function must take",
        ),
    ],
)
def test_wrong_input_is_refused_at_once(make, line):
    with pytest.raises(InputError, match=line) as refused:
        make()
    assert "\n" not in str(refused.value)


# --- evaluate, record -------------------------------------------------------------------------


def test_evaluations_are_repeatable_and_apart_from_learning(untrained):
    first = untrained.evaluate(3, seed=8)
    assert all(1 <= length <= 30 for length in first.lengths)
    assert untrained.evaluate(3, seed=8) == first
    assert untrained.evaluate(3, seed=3).returns != first.returns
    assert untrained.evaluate(np.int64(1), seed=8).returns == first.returns[:1]
    for wrong in (0, 2.5, "3", True, None):
        with pytest.raises(InputError, match="episodes: "):
            untrained.evaluate(wrong)


class NoRenderMode(toy_worlds.Toy):
    """A toy that takes no render_mode."""

    def __init__(self):
        super().__init__()


def test_pictures_and_videos_need_a_render_mode(untrained, tmp_path):
    untrained.record(tmp_path / "toy.gif", seed=8)
    assert (tmp_path / "toy.gif").stat().st_size > 100
    assert untrained.picture().shape == (16, 24, 3)
    with pytest.raises(InputError, match=r"must end in .mp4 or .gif"):
        untrained.record(tmp_path / "toy.avi")
    agent = quick_agent(env=NoRenderMode)
    line = (
        r"env: the function that makes .* does not take render_mode \(.*\); .* lambda render_mode"
    )
    for draw in (agent.picture, lambda: agent.record(tmp_path / "toy.gif")):
        with pytest.raises(InputError, match=line):
            draw()
    assert quick_agent(env=toy_worlds.Toy("rgb_array")).picture().shape == (16, 24, 3)
    line = "env: NoRenderMode was made with render_mode=None and cannot be made anew with 'rgb_arr"
    with pytest.raises(InputError, match=line):
        quick_agent(env=NoRenderMode()).picture()


# --- an agent as an object --------------------------------------------------------------------


def test_agent_has_the_environment_and_its_spaces(untrained):
    agent = quick_agent()
    assert agent.env.unwrapped.spec.id == "Toy-v0"
    assert agent.env is agent.env
    assert (agent.observation_space, agent.action_space) == (
        agent.env.observation_space,
        agent.env.action_space,
    )
    obs, _ = agent.env.reset(seed=0)
    assert agent.env.action_space.contains(agent.predict(obs)[0])
    agent.close()
    env = Watched()
    agent = quick_agent(env=env)
    assert agent.env is env
    agent.close()
    assert not env.closed  # it belongs to the user


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_agent_cannot_be_copied_and_says_what_to_do(untrained, duplicate):
    with pytest.raises(InputError, match=r"call agent.save\(folder\), .* narl.load\(folder\)$"):
        duplicate(untrained)


def test_policy_can_be_pickled(untrained):
    policy = pickle.loads(pickle.dumps(untrained.policy))
    obs = np.ones(2)
    assert (policy.act(obs, 8) == untrained.policy.act(obs, 8)).all()


def test_agent_that_has_learned_nothing_says_what_it_is(untrained):
    lines = repr(untrained).splitlines()
    assert lines[0] == f"sac on {ENV}"
    assert "  seeds    3,8" in lines
    assert "none so far" in lines[2]
    assert "hidden=8" in lines[-1]
    assert repr(narl.NARL("Pendulum-v1")).startswith("NARL on Pendulum-v1")
    assert repr(narl.NARL("Pendulum-v1")).endswith("the defaults for this environment")
    with pytest.raises(InputError, match="has no finished epoch yet; let it learn"):
        untrained.plot()


def test_best_evaluation_leaves_out_those_that_are_not_known(untrained, monkeypatch):
    returns = ([None, 1.0], [2.0, 4.0], [1.0, 2.0])
    rows = [{"step": i, "eval_return": x} for i, x in enumerate(returns)]
    for history, best in ((rows, ["3.0 at step 1"]), (rows[:1], [])):
        monkeypatch.setattr(untrained, "history", history)
        lines = [line.split(maxsplit=1) for line in repr(untrained).splitlines()]
        assert [line[1] for line in lines if line[0] == "best"] == best


@slow
def test_agent_shows_what_it_has_learned(learned):
    returns = [np.mean(row["eval_return"]) for row in learned.history]
    text = repr(learned)
    assert f"{returns[-1]:.1f} at the last evaluation (mean over the seeds)" in text
    assert f"{max(returns):.1f} at step {20 * (1 + int(np.argmax(returns)))}" in text
    assert "<table>" in learned._repr_html_()
    axes = learned.plot()
    np.testing.assert_allclose(axes.lines[0].get_ydata(), returns)
    assert axes.lines[0].get_xdata().tolist() == [20, 40, 60]
    table = learned.to_pandas()
    assert table["seed"].tolist() == [3, 8] * 3
    assert table["step"].tolist() == [20, 20, 40, 40, 60, 60]
    by_seed = table.groupby("seed")["eval_return"].mean()
    assert by_seed[8] == np.mean([row["eval_return"][1] for row in learned.history])
    import matplotlib.pyplot as plt

    plt.close("all")
