"""The Python API: learn, predict, evaluate, on environments by name and of the user."""

import contextlib
import json
import os
import signal
import threading
import warnings
from pathlib import Path

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.spaces import Box
from gymnasium.wrappers import TimeLimit
from quick_trainings import quick_config, quick_options

import narl
import toy_worlds
from narl.deep.policy import act_in_numpy
from narl.deep.trainer import Trainer
from narl.errors import InputError
from short_trainings import ENV

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cache")]

OBS = np.array([0.3, -0.2])
BATCH = np.random.default_rng(0).normal(size=(7, 2))


def sac(env=ENV, **options):
    return narl.SAC(env, **quick_options("sac", **options))


def actions(agent, **options):
    """Return the bytes of an agent's actions for a batch."""
    return agent.predict(BATCH, **options)[0].tobytes()


@pytest.fixture(scope="module")
def learned(cache):
    """An agent of two seeds after three epochs; tests must not change it."""
    return sac(seeds=[3, 8]).learn(60)


@pytest.fixture(scope="module")
def learned_with_model(cache):
    """An agent with a model after three epochs in one call; tests must not change it."""
    return narl.NARL(ENV, **quick_options("narl")).learn(60)


# --- predict ----------------------------------------------------------------------------------


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


def test_policy_before_learning_is_the_one_with_which_learning_begins(monkeypatch):
    monkeypatch.setattr(Trainer, "_compile", lambda self: None)
    agent = sac(seeds=[5, 9])
    with contextlib.closing(Trainer([quick_config(seeds=(5, 9))])) as trainer:
        first = trainer.to_host().sac.actor
    for i, seed in enumerate((5, 9)):
        for layer, expected in zip(agent.policy.actor(seed), first, strict=True):
            np.testing.assert_array_equal(layer.w, expected.w[i])
            np.testing.assert_array_equal(layer.b, expected.b[i])


def test_action_has_shape_bounds_and_type_of_the_environment(learned):
    action, state = learned.predict(OBS)
    assert (action.shape, action.dtype, state) == ((1,), np.float32, None)
    assert learned.policy.interface.action_space.contains(action)
    mode = act_in_numpy(learned.policy.actor(), OBS.astype(np.float32))
    np.testing.assert_allclose(action, 2 * mode, rtol=1e-6)  # the bounds are ±2
    # Stable-Baselines3's evaluate_policy gives further arguments.
    again = learned.predict(OBS, state=None, episode_start=np.ones(1, bool), deterministic=True)
    assert again == (action, state)


def test_batch_of_observations_gives_a_batch_of_actions(learned):
    batch, _ = learned.predict(BATCH)
    alone = np.stack([learned.predict(obs)[0] for obs in BATCH])
    np.testing.assert_allclose(batch, alone, rtol=1e-5, atol=1e-6)
    assert learned.predict(BATCH[:1])[0].shape == (1, 1)
    assert learned.predict(BATCH.tolist())[0].shape == (7, 1)


def test_each_seed_has_a_policy(learned):
    first, second = (learned.predict(OBS, seed=seed)[0] for seed in (3, 8))
    assert first != second
    assert learned.predict(OBS)[0] == first
    with pytest.raises(InputError, match="seed: 4 was not trained; it must be one of 3, 8"):
        learned.predict(OBS, seed=4)


def test_draws_spread_around_the_mode_as_the_policy_says(learned):
    draws = learned.predict(np.tile(OBS, (4000, 1)), deterministic=False)[0][:, 0] / 2
    *hidden, last = learned.policy.actor()
    x = OBS.astype(np.float32)
    for layer in hidden:
        x = np.maximum(x @ layer.w + layer.b, 0)
    mean, log_std = x @ last.w + last.b
    raw = np.arctanh(np.clip(draws, -0.999999, 0.999999))
    assert np.median(raw) == pytest.approx(mean, abs=5 * np.exp(log_std) / np.sqrt(4000))
    spread = np.subtract(*np.percentile(raw, [75, 25])) / 1.349
    assert spread == pytest.approx(np.exp(log_std), rel=0.1)


@pytest.mark.parametrize(
    ("obs", "line"),
    [
        (np.zeros(3), r"obs: shape \(3,\) given; it must be \(2,\), or \('N', 2\) for N of them"),
        (np.zeros((0, 2)), r"obs: shape \(0, 2\) given"),
        (np.zeros((2, 2, 2)), r"obs: shape \(2, 2, 2\) given"),
        (["a", "b"], "obs: list given; it must be an array of numbers"),
        ([0.0, np.nan], "obs: it holds numbers that are not finite"),
        ([[0.0, 1.0], [2.0]], "obs: list of parts that differ in shape given"),
        ((np.zeros(2), {}), r"obs: observation and info given; .* obs, info = env.reset\(\)"),
    ],
)
def test_wrong_observation_is_refused(learned, obs, line):
    with pytest.raises(InputError, match=line):
        learned.predict(obs)


class Odd(toy_worlds.Toy):
    """Observations are tables of small integers, actions are integers with other bounds."""

    def __init__(self):
        super().__init__()
        self.observation_space = Box(0, 10, (2, 3), np.int16)
        self.action_space = Box(np.array([[-3], [2]]), np.array([[5], [4]]), (2, 1), np.int64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.full((2, 3), 4, np.int16), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.total_steps += 1
        return np.full((2, 3), self.total_steps % 10, np.int16), 0.0, False, False, {}


def test_odd_spaces_are_kept_by_prediction_evaluation_and_saving(tmp_path):
    agent, obs = sac(Odd, eval_horizon=3), np.full((2, 3), 7, np.int16)
    action, many = agent.predict(obs)[0], agent.predict(np.stack([obs] * 4))[0]
    assert (action.shape, action.dtype, many.shape) == ((2, 1), np.int64, (4, 2, 1))
    assert agent.policy.interface.action_space.contains(action)
    again = narl.load(agent.save(tmp_path / "odd"))
    np.testing.assert_array_equal(again.predict(obs)[0], action)
    assert again.policy.interface.action_space == agent.policy.interface.action_space
    assert agent.evaluate(2).lengths == [3, 3]


@pytest.mark.parametrize("env", ["Ant-v5", "Humanoid-v4"])
def test_longer_observations_are_cut_where_the_preset_leaves_out_their_end(env):
    agent = narl.SAC(env, hidden=(8,))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is out of date.*", DeprecationWarning)
        usual = gymnasium.make(env)
    obs = usual.reset(seed=4)[0]
    usual.close()
    cut = obs[: agent.policy.interface.obs_shape[0]]
    assert cut.size < obs.size
    action = agent.predict(cut)[0]
    np.testing.assert_array_equal(agent.predict(obs)[0], action)
    assert agent.predict(np.stack([obs, obs]))[0].shape == (2, *action.shape)


# --- learn ------------------------------------------------------------------------------------


def test_learning_changes_the_policy_and_keeps_its_history(learned):
    assert [row["step"] for row in learned.history] == [20, 40, 60]
    assert (learned.num_steps, len(learned.history[0]["eval_return"])) == (60, 2)
    assert json.loads(json.dumps(learned.history)) == learned.history
    assert sac(seed=3).predict(OBS)[0] != learned.predict(OBS)[0]


def without_seconds(history):
    return [{name: x for name, x in row.items() if name != "seconds"} for row in history]


def test_calls_add_up_and_buffers_grow_rarely(learned):
    """Also within the random steps; and a seed learns what it learns beside others."""
    agent = sac(seed=8).learn(10)
    assert (agent.num_steps, agent.history[-1]["updates"]) == (10, [0])
    assert actions(agent) == actions(sac(seed=8))
    trainer = agent._learner.trainer
    agent.learn(10).learn(total_timesteps=40)
    assert agent._learner.trainer is trainer
    assert [row["step"] for row in agent.history] == [10, 20, 40, 60]
    assert actions(agent) == actions(learned, seed=8)
    assert agent.history[-1]["critic_loss"][0] == learned.history[-1]["critic_loss"][1]
    data = trainer.to_host().real
    assert data.rows.shape[1] == 64
    agent.learn(40)  # room for twice the steps, a power of two
    trainer = agent._learner.trainer
    rows, size = trainer.to_host().real.rows, trainer.to_host().real.size
    assert (rows.shape[1], size.tolist(), agent.num_steps) == (256, [100], 100)
    np.testing.assert_array_equal(rows[:, :60], data.rows[:, :60])
    assert np.abs(rows[:, 60:100]).sum(axis=-1).min() > 0
    num_traces = trainer.replicas.num_traces
    agent.learn(10)
    assert (agent._learner.trainer, trainer.replicas.num_traces) == (trainer, num_traces)


def test_with_a_model_the_ends_of_calls_do_not_matter(tmp_path, learned_with_model):
    """A model is due after 20 steps, where the first call ends: it is fitted by the next one."""
    options = quick_options("narl")
    agent, other = narl.NARL(ENV, **options).learn(20), narl.NARL(ENV, **options).learn(12)
    again = narl.load(agent.save(tmp_path / "saved", data=True)).learn(40)
    agent.learn(15).learn(25)
    other.learn(48)
    assert [row["step"] for row in agent.history] == [20, 35, 40, 60]
    assert [row["step"] for row in again.history] == [20, 40, 60]
    assert [row["step"] for row in other.history] == [12, 20, 40, 60]
    assert agent.history[1]["model_epochs"][0] > 0
    assert actions(agent) == actions(again) == actions(other)
    assert without_seconds(again.history[-1:]) == without_seconds(other.history[-1:])
    # One call has smaller buffers, which have a part in the rounding of sums.
    expected, _ = learned_with_model.predict(BATCH)
    np.testing.assert_allclose(agent.predict(BATCH)[0], expected, atol=1e-3)


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
        sac().learn(**arguments)


def test_compiled_programs_are_kept_unless_the_user_keeps_them_elsewhere(monkeypatch):
    """The cache of these tests stands for the user's own."""
    calls, name = [], "jax_compilation_cache_dir"
    monkeypatch.setattr("narl.deep.learner.enable_cache", lambda: calls.append(True))
    monkeypatch.setattr("narl.deep.learner.Trainer", lambda *arguments: 1 / 0)
    folder = getattr(jax.config, name)
    for cache_folder, expected in ((folder, []), (None, [True])):
        jax.config.update(name, cache_folder)
        try:
            with pytest.raises(ZeroDivisionError):
                sac().learn(60)
        finally:
            jax.config.update(name, folder)
        assert calls == expected


def test_learning_beyond_memory_is_refused_and_the_agent_stays(monkeypatch):
    agent = sac().learn(60)
    before = actions(agent)
    monkeypatch.setattr("narl.deep.memory.available_memory", lambda: 1000)
    with pytest.raises(InputError, match=r"memory: it needs .* MB and 0\.0 MB are available; take"):
        agent.learn(40)
    assert actions(agent) == before
    monkeypatch.undo()
    assert agent.learn(40).num_steps == 100


def test_progress_is_a_line_per_epoch_without_a_terminal(capsys):
    """Learning works in a thread, too."""
    agent = sac()
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
    agent = sac(seed=8)
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
    assert actions(again) == actions(agent)
    agent.learn(40)
    assert agent._learner.trainer is trainer  # nothing is compiled again
    assert actions(agent) == actions(learned, seed=8)
    if callback is fail:
        assert actions(again.learn(40)) == actions(agent)


def test_closed_agent_still_acts_and_is_saved_whole(tmp_path):
    """A callback may close the agent; learning ends there."""
    agent = sac()
    agent.learn(60, lambda row: agent.close())
    before = actions(agent)
    agent.close()
    assert (agent.num_steps, len(agent.history)) == (20, 1)
    run = narl.storage.load_run_at(agent.save(tmp_path / "saved"))
    assert "sac.critic.0.w" in run.arrays()
    with pytest.raises(InputError, match="learn: the agent was closed; make a new one"):
        agent.learn(20)
    assert actions(agent) == before


# --- environments of the user, and wrong input ------------------------------------------------


class Watched(toy_worlds.Toy):
    """Remembers that it was closed."""

    closed = False

    def close(self):
        self.closed = True


def test_instance_is_trained_in_stays_open_and_is_evaluated_in_a_copy():
    env = TimeLimit(Watched(), 30)
    agent = sac(env).learn(60)
    assert agent.config.env == "Watched"
    assert agent._learner.trainer.envs[0].env is env
    copy = agent._learner.trainer._evaluator._envs[0].env
    assert copy.unwrapped is not env.unwrapped
    from_function = sac(lambda: TimeLimit(toy_worlds.Toy(), 30)).learn(60)
    assert actions(agent) == actions(from_function)
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
        (lambda: narl.NARL(7), "env: int is neither an id nor a function"),
        (lambda: narl.NARL(ENV, epochs=3), "option: unknown value 'epochs'; did you mean"),
        (lambda: narl.MBPO(ENV, radius=0.1), "radius: .* mbpo, only with narl"),
        (lambda: narl.Agent(ENV, algo="mpbo"), "algo: unknown value 'mpbo'; did you mean 'mbpo'"),
        (lambda: narl.NARL(ENV, seeds=[1, 1]), "seeds: 1 is given twice"),
        (lambda: sac(toy_worlds.Toy(), seeds="0:2"), "seeds: one environment serves one seed"),
        (lambda: narl.NARL(ENV, termination="no"), "termination: unknown value 'no'; did you"),
        (lambda: narl.NARL(ENV, termination=3), "termination: int given; it must be a function"),
        (
            lambda: narl.SAC(ENV, termination=lambda obs, action, next_obs: False),
            "termination: .* sac, only with narl and mbpo",
        ),
        (
            lambda: narl.NARL(ENV, termination=lambda obs, action: True),
            "termination: the function must take",
        ),
    ],
)
def test_wrong_input_is_one_line_at_once(make, line):
    with pytest.raises(InputError, match=line) as refused:
        make()
    assert "\n" not in str(refused.value)


# --- evaluate, record -------------------------------------------------------------------------


def test_evaluations_are_repeatable_and_apart_from_learning(learned):
    first = learned.evaluate(3, seed=8)
    assert all(1 <= length <= 30 for length in first.lengths)
    assert learned.evaluate(3, seed=8) == first
    assert learned.evaluate(3, seed=3).returns != first.returns
    assert learned.evaluate(np.int64(1), seed=8).returns == first.returns[:1]
    for wrong in (0, 2.5, "3", True, None):
        with pytest.raises(InputError, match="episodes: "):
            learned.evaluate(wrong)


class NoRenderMode(toy_worlds.Toy):
    """Takes no render_mode."""

    def __init__(self):
        super().__init__()


def test_pictures_and_videos_need_a_render_mode(learned, tmp_path):
    learned.record(tmp_path / "toy.gif", seed=8)
    assert (tmp_path / "toy.gif").stat().st_size > 100
    assert learned.picture().shape == (16, 24, 3)
    with pytest.raises(InputError, match=r"must end in .mp4 or .gif"):
        learned.record(tmp_path / "toy.avi")
    agent = sac(NoRenderMode)
    line = (
        r"env: the function that makes .* does not take render_mode \(.*\); .* lambda render_mode"
    )
    for draw in (agent.picture, lambda: agent.record(tmp_path / "toy.gif")):
        with pytest.raises(InputError, match=line):
            draw()
    assert sac(toy_worlds.Toy("rgb_array")).picture().shape == (16, 24, 3)
    line = "env: NoRenderMode was made with render_mode=None and cannot be made anew with 'rgb_arr"
    with pytest.raises(InputError, match=line):
        sac(NoRenderMode()).picture()
