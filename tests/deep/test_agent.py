"""The Python API: learn, predict, save, load, on environments by name and of one's own."""

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

import narl
import toy_worlds
from narl.deep.agent import Agent, load
from narl.deep.config import make_settings
from narl.deep.evaluation import numpy_mode
from narl.deep.trainer import LaneSpec, Training
from narl.deep.training_run import Stopped, train
from narl.errors import InputError
from short_courses import cache, checkpoints, course, programs, short  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cache")]

ENV = "toy_worlds:Toy-v0"
QUICK = {name: value for name, value in short("sac").items() if name != "steps"}
OBS = np.array([0.3, -0.2])
MANY = np.random.default_rng(0).normal(size=(7, 2))


def sac(env=ENV, **given) -> narl.SAC:
    return narl.SAC(env, **{**QUICK, **given})


@pytest.fixture(scope="module")
def learned(cache):  # noqa: F811
    """An agent of two seeds after two epochs; tests must not change it."""
    return sac(seeds=[3, 8]).learn(200)


# --- predict ----------------------------------------------------------------------------------


def test_the_signatures_are_those_of_the_design():
    with contextlib.closing(narl.NARL("InvertedPendulum-v5", members=3, radius=0.1, seed=0)) as one:
        assert (one.settings.members, one.settings.radius, one.seeds) == (3, 0.1, (0,))
        action, state = one.predict(np.zeros(4), deterministic=True)
        assert (action.shape, action.dtype, state) == ((1,), np.float32, None)
        assert one.settings.updates_per_step == 10  # the preset
    assert narl.NARL("Pendulum-v1", radius=None).settings.radius is None
    assert narl.MBPO("Pendulum-v1").settings.num_elites == 5
    assert narl.MBPO("Pendulum-v1", members=3).settings.num_elites == 3
    assert narl.SAC("Pendulum-v1", steps=7000).settings.steps == 7000


def test_before_learning_the_policy_that_learning_begins_with_acts():
    agent = sac(seeds=[5, 9], hidden=(16, 8))
    settings = make_settings(ENV, "sac", **short("sac", hidden=(16, 8)))
    training = Training(settings, [LaneSpec(seed, "sac", None) for seed in (5, 9)])
    begun = training.export().sac.actor
    training.close()
    for i, seed in enumerate((5, 9)):
        for mine, first in zip(agent.policy.actor(seed), begun, strict=True):
            np.testing.assert_array_equal(mine.w, first.w[i])
            np.testing.assert_array_equal(mine.b, first.b[i])


def test_an_action_has_the_environments_shape_bounds_and_type(learned):
    action, state = learned.predict(OBS)
    assert state is None
    assert (action.shape, action.dtype) == ((1,), np.float32)
    assert learned.policy.interface.action_space.contains(action)
    # Actions of [−1, 1] are stretched to the bounds ±2.
    vector = OBS.astype(np.float32)
    np.testing.assert_allclose(action, 2 * numpy_mode(learned.policy.actor(), vector), rtol=1e-6)


def test_a_batch_of_observations_gives_a_batch_of_actions(learned):
    actions, _ = learned.predict(MANY)
    assert actions.shape == (7, 1)
    alone = np.stack([learned.predict(obs)[0] for obs in MANY])
    np.testing.assert_allclose(actions, alone, rtol=1e-5, atol=1e-6)
    assert learned.predict(MANY[:1])[0].shape == (1, 1)
    assert learned.predict(MANY.tolist())[0].shape == (7, 1)


def test_each_seed_has_a_policy(learned):
    first, second = (learned.predict(OBS, seed=seed)[0] for seed in (3, 8))
    assert first != second
    assert learned.predict(OBS)[0] == first
    with pytest.raises(InputError, match="seed: 4 was not trained; one of 3, 8"):
        learned.predict(OBS, seed=4)


def test_draws_spread_around_the_mode_as_the_policy_says(learned):
    draws = learned.predict(np.tile(OBS, (4000, 1)), deterministic=False)[0][:, 0] / 2
    actor = learned.policy.actor()
    x = OBS.astype(np.float32)
    for layer in actor[:-1]:
        x = np.maximum(x @ layer.w + layer.b, 0)
    mean, log_std = x @ actor[-1].w + actor[-1].b
    raw = np.arctanh(np.clip(draws, -0.999999, 0.999999))
    assert np.median(raw) == pytest.approx(mean, abs=5 * np.exp(log_std) / np.sqrt(4000))
    spread = np.subtract(*np.percentile(raw, [75, 25])) / 1.349
    assert spread == pytest.approx(np.exp(log_std), rel=0.1)
    assert len(set(draws)) > 3000


@pytest.mark.parametrize(
    ("obs", "line"),
    [
        (np.zeros(3), r"obs: shape \(3,\) given; it must be \(2,\), or \('N', 2\) for N of them"),
        (np.zeros((0, 2)), r"obs: shape \(0, 2\) given"),
        (np.zeros((2, 2, 2)), r"obs: shape \(2, 2, 2\) given"),
        (["a", "b"], "obs: list given; it must be an array of numbers"),
        ([0.0, np.nan], "obs: it holds numbers that are not finite"),
        ([[0.0, 1.0], [2.0]], "obs: list of parts that differ in shape given; it must be an array"),
        ((np.zeros(2), {}), r"obs: observation and info given; .* obs, info = env.reset\(\)"),
    ],
)
def test_a_wrong_observation_is_one_line(learned, obs, line):
    with pytest.raises(InputError, match=line):
        learned.predict(obs)


def test_what_stable_baselines_hands_over_is_taken(learned):
    """Its evaluate_policy calls predict with these."""
    action, state = learned.predict(
        OBS, state=None, episode_start=np.ones(1, bool), deterministic=True
    )
    assert (action, state) == learned.predict(OBS)


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
        return np.full((2, 3), self.num_taken % 10, np.int16), 0.0, False, False, {}


def test_odd_spaces(tmp_path):
    agent = sac(Odd, eval_horizon=3)
    obs = np.full((2, 3), 7, np.int16)
    one, many = agent.predict(obs)[0], agent.predict(np.stack([obs] * 4))[0]
    assert (one.shape, one.dtype, many.shape) == ((2, 1), np.int64, (4, 2, 1))
    assert agent.policy.interface.action_space.contains(one)
    again = load(agent.save(tmp_path / "odd"))
    np.testing.assert_array_equal(again.predict(obs)[0], one)
    assert again.policy.interface.action_space == agent.policy.interface.action_space
    assert agent.evaluate(2).lengths == [3, 3]


@pytest.mark.parametrize("env", ["Ant-v4", "Ant-v5", "Humanoid-v4", "Humanoid-v5"])
def test_longer_observations_are_cut_where_the_preset_leaves_out_their_end(env):
    agent = narl.SAC(env, hidden=(8,))
    opening = contextlib.closing(agent._open(0))
    with opening as opened, contextlib.closing(_make(env)) as usual:
        start = usual.reset(seed=4)[0]
        own = opened.env.reset(seed=4)[0]
    np.testing.assert_array_equal(own, start[: own.size])
    action = agent.predict(own)[0]
    np.testing.assert_array_equal(agent.predict(start)[0], action)
    assert agent.predict(np.stack([start, start]))[0].shape == (2, *action.shape)


def _make(env):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is out of date.*", DeprecationWarning)
        return gymnasium.make(env)


# --- learn ------------------------------------------------------------------------------------


def test_learning_changes_the_policy_and_tells_its_history(learned):
    assert [row["step"] for row in learned.history] == [100, 200]
    assert learned.num_steps == 200
    assert len(learned.history[0]["eval_return"]) == 2
    assert json.loads(json.dumps(learned.history)) == learned.history
    assert sac(seed=3).predict(OBS)[0] != learned.predict(OBS)[0]


def test_a_seed_among_others_learns_what_it_learns_alone(learned):
    alone = sac(seed=8).learn(200)
    np.testing.assert_allclose(alone.predict(MANY)[0], learned.predict(MANY, seed=8)[0], atol=1e-5)


def test_a_callback_stops_it_and_learn_goes_on():
    agent, seen = sac(), []

    def once(row):
        seen.append(row["step"])
        return False

    assert agent.learn(300, once) is agent
    assert (seen, agent.num_steps) == ([100], 100)
    training = agent._learning.training
    agent.learn(200)  # to the same end: nothing is compiled again
    assert agent._learning.training is training
    assert [row["step"] for row in agent.history] == [100, 200, 300]
    whole = sac().learn(300)
    np.testing.assert_array_equal(agent.predict(MANY)[0], whole.predict(MANY)[0])


@pytest.mark.slow
def test_learning_goes_on_with_its_data():
    agent = sac().learn(150)
    real = agent._learning.training.export().real
    agent.learn(100)
    assert agent.num_steps == 250
    assert [row["step"] for row in agent.history] == [100, 150, 200, 250]
    now = agent._learning.training.export().real
    np.testing.assert_array_equal(now.rows[:, :150], real.rows)
    # Room for twice the steps, a power of two: going on is compiled once more, not every time.
    assert (now.rows.shape[1], int(now.size[0])) == (512, 250)
    assert np.abs(now.rows[:, 150:250]).sum(axis=-1).min() > 0
    training, traces = agent._learning.training, agent._learning.training.runner.num_traces
    agent.learn(100)
    assert agent._learning.training is training
    assert training.runner.num_traces == traces
    assert [row["step"] for row in agent.history] == [100, 150, 200, 250, 300, 350]


@pytest.mark.slow
def test_learning_goes_on_where_the_buffer_has_come_round():
    agent = sac(buffer=60).learn(150)
    agent.learn(50)
    real = agent._learning.training.export().real
    assert (real.rows.shape[1], int(real.size[0]), agent.num_steps) == (60, 60, 200)


@pytest.mark.slow
def test_learning_goes_on_with_models_and_longer_rollouts():
    given = short("narl", rollout_schedule=(0, 4, 1, 4))
    del given["steps"]
    agent = narl.NARL(ENV, **given).learn(200)
    size = int(agent._learning.training.export().model.size[0])
    agent.learn(200)
    model = agent._learning.training.export().model
    assert int(model.size[0]) > size
    assert [row["rollout_length"] for row in agent.history] == [1, 1, 1, 2]
    assert agent.num_steps == 400


@pytest.mark.parametrize("steps", [0, -5, 2.5, True, "10"])
def test_a_wrong_number_of_steps_is_one_line(steps):
    with pytest.raises(InputError, match=r"total_steps: .* must be a whole number >= 1"):
        sac().learn(steps)


def strip(history):
    """What does not depend on the clock."""
    return [{k: v for k, v in row.items() if k != "seconds"} for row in history]


def test_calls_add_up_even_within_the_random_steps():
    agent = sac().learn(50)
    assert (agent.num_steps, agent.history[-1]["updates"]) == (50, [0])
    training = agent._learning.training
    np.testing.assert_array_equal(agent.predict(MANY)[0], sac().predict(MANY)[0])
    agent.learn(50).learn(total_timesteps=100)
    assert agent._learning.training is training  # compiled once
    whole = sac().learn(200)
    assert agent.predict(MANY)[0].tobytes() == whole.predict(MANY)[0].tobytes()
    assert [row["step"] for row in agent.history] == [50, 100, 200]
    assert strip(agent.history[-1:]) == strip(whole.history[-1:])


@pytest.mark.slow
def test_with_models_it_does_not_matter_where_a_call_ends():
    """Models are due at 100, the end of the random steps, and at 150: none is left out."""
    given = short("narl")
    del given["steps"]
    agent, other = narl.NARL(ENV, **given), narl.NARL(ENV, **given)
    agent.learn(100).learn(50).learn(50)
    other.learn(60).learn(140)
    assert [row["step"] for row in agent.history] == [100, 150, 200]
    assert [row["step"] for row in other.history] == [60, 100, 200]
    assert agent.predict(MANY)[0].tobytes() == other.predict(MANY)[0].tobytes()
    assert agent.history[-1]["eval_return"] == other.history[-1]["eval_return"]


def test_a_call_that_ends_where_a_model_is_due_is_saved_without_it_and_goes_on(tmp_path):
    given = short("narl")
    del given["steps"]
    agent = narl.NARL(ENV, **given).learn(100)
    agent.save(tmp_path / "kept", data=True)
    again = load(tmp_path / "kept").learn(50)
    agent.learn(50)
    assert agent.history[-1]["model_epochs"][0] > 0
    assert strip(again.history) == strip(agent.history)


def test_every_column_is_explained(learned):
    page = Path(__file__).parents[2].joinpath("docs", "metrics.md").read_text(encoding="utf-8")
    section = page.partition("## Training: per epoch")[2].partition("\n## ")[0]
    given = short("narl", solved_return=-1e6)
    del given["steps"]
    modelled = narl.NARL(ENV, **given).learn(200)
    for row in (learned.history[-1], modelled.history[-1]):
        names = {*row, *row["seconds"]}
        assert {name for name in names if f"`{name}`" not in section} == set()


def test_steps_have_two_names_and_one_value():
    with pytest.raises(InputError, match="total_timesteps: it is another name of total_steps"):
        sac().learn(100, total_timesteps=100)
    with pytest.raises(InputError, match=r"total_steps: 0 is wrong; it must be a whole number"):
        sac().learn(total_timesteps=0)


def test_compiled_programs_are_kept_unless_the_user_keeps_them_elsewhere(monkeypatch):
    """The cache of these tests stands for the user's own."""
    asked = []
    monkeypatch.setattr("narl.deep.learning.enable_cache", lambda: asked.append(True))
    sac().learn(50)
    assert asked == []
    name = "jax_compilation_cache_dir"
    folder = getattr(jax.config, name)
    jax.config.update(name, None)
    try:
        agent = sac().learn(50)
        agent.learn(10)
        assert asked == [True]
    finally:
        jax.config.update(name, folder)


def test_what_does_not_fit_into_memory_is_refused_and_the_agent_stays(monkeypatch):
    agent = sac().learn(150)
    action = agent.predict(OBS)[0]
    monkeypatch.setattr("narl.deep.memory.available_memory", lambda: 1000)
    with pytest.raises(InputError, match=r"memory: it needs .* MB and 0\.0 MB are available; take"):
        agent.learn(100)
    assert agent.predict(OBS)[0] == action
    monkeypatch.undo()
    assert agent.learn(100).num_steps == 250


def test_progress_is_a_line_per_epoch_without_a_terminal(capsys):
    sac().learn(200, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith(f"sac {ENV}: step 200/200, return ")
    sac().learn(100)
    assert capsys.readouterr().err == ""


def test_an_interrupt_ends_learning_between_two_steps():
    agent = sac()

    def press(row):
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            agent.learn(300, press)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert agent.num_steps == 100
    agent.learn(200)
    whole = sac().learn(300)
    np.testing.assert_array_equal(agent.predict(MANY)[0], whole.predict(MANY)[0])


def test_a_second_interrupt_does_not_wait():
    agent = sac()

    def press(row):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            agent.learn(300, press)
    finally:
        signal.signal(signal.SIGINT, before)
    # It came while nothing was under way.
    agent.learn(200)
    whole = sac().learn(300)
    np.testing.assert_array_equal(agent.predict(MANY)[0], whole.predict(MANY)[0])


def test_it_learns_in_a_thread_too():
    agent = sac()
    thread = threading.Thread(target=agent.learn, args=(100,))
    thread.start()
    thread.join()
    assert agent.num_steps == 100


def test_a_closed_agent_still_acts_and_is_saved_whole(tmp_path):
    agent = sac().learn(100)
    action = agent.predict(OBS)[0]
    agent.close()
    agent.close()
    assert agent.predict(OBS)[0] == action
    assert "sac.critic.0.w" in narl.storage.load_run_at(agent.save(tmp_path / "kept")).arrays()
    with pytest.raises(InputError, match="learn: the agent was closed; make a new one"):
        agent.learn(100)


# --- environments and terminations of one's own -----------------------------------------------


class Lasting(toy_worlds.Toy):
    """Must not be closed by others."""

    def close(self):
        self.closed = True


def test_an_instance_is_trained_in_and_evaluated_in_a_copy():
    env = gymnasium.wrappers.TimeLimit(Lasting(), 30)
    agent = sac(env).learn(150)
    assert agent._learning.training.envs[0].env is env
    assert agent._learning.training.judges[0].env is not env
    assert agent._learning.training.judges[0].env.unwrapped is not env.unwrapped
    assert agent.settings.env == "Lasting"
    by_name = sac(lambda: gymnasium.wrappers.TimeLimit(toy_worlds.Toy(), 30)).learn(150)
    np.testing.assert_array_equal(agent.predict(MANY)[0], by_name.predict(MANY)[0])
    assert agent.evaluate(2).returns == by_name.evaluate(2).returns
    agent.learn(50)
    assert agent._learning.training.envs[0].env is env
    agent.close()
    assert not hasattr(env.unwrapped, "closed")
    env.step(env.action_space.sample())


def test_one_instance_serves_one_seed():
    with pytest.raises(InputError, match="seeds: one environment serves one seed; give a function"):
        sac(toy_worlds.Toy(), seeds=[0, 1])
    assert sac(toy_worlds.Toy, seeds=[0, 1]).seeds == (0, 1)
    assert sac(toy_worlds.Toy, seeds="0:3,7").seeds == (0, 1, 2, 7)  # as it is typed


def test_of_a_preset_made_by_hand_the_termination_is_known():
    plain = gymnasium.make("InvertedPendulum-v5")
    agent = narl.NARL(plain)
    assert agent._learning.ends is not None
    assert agent.settings.solved_return == 1000
    assert narl.NARL(plain, termination="learned")._learning.ends is None
    plain.close()


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (lambda obs, action: True, "termination: the function must take"),
        (lambda obs, action, next_obs: next_obs, r"it gives shape \(2,\)"),
        (lambda obs, action, next_obs: bool(next_obs[0] > 3), "as JAX arrays"),
    ],
)
def test_a_termination_that_cannot_be_used_is_refused_at_once(function, line):
    with pytest.raises(InputError, match=line):
        narl.NARL(ENV, termination=function)


@pytest.mark.slow
def test_a_termination_of_ones_own_is_used_inside_the_models():
    """Where it says that every episode ends at once, no imagined trajectory has a second step."""
    given = short("narl", rollout_schedule=(0, 0, 3, 3))
    del given["steps"]
    seen = []

    def at_once(obs, action, next_obs):
        seen.append((obs.shape, action.shape))
        return True

    agent = narl.NARL(ENV, termination=at_once, **given).learn(200)
    assert set(seen) == {((2,), (1,))}
    assert agent.history[-1]["imagined"] == [200.0 * 2]  # two fillings of 200 trajectories


# --- wrong input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: narl.NARL("Hoper-v5"), "env: unknown environment 'Hoper-v5'; did you mean 'Hop"),
        (lambda: narl.NARL("CartPole-v1"), r"env: CartPole-v1 has Discrete\(2\) actions"),
        (lambda: narl.NARL(7), "env: int is neither an id nor a function"),
        (
            lambda: narl.NARL(ENV, members=0),
            "members: 0 is too small; the nearest valid value is 1",
        ),
        (lambda: narl.NARL(ENV, epochs=3), "option: unknown value 'epochs'; did you mean"),
        (lambda: narl.NARL(ENV, elites=3), "elites: narl has no such setting, only mbpo"),
        (lambda: narl.MBPO(ENV, radius=0.1), "radius: mbpo has no such setting, only narl"),
        (lambda: narl.SAC(ENV, members=3), "members: sac has no such setting, only narl and mbpo"),
        (lambda: narl.NARL(ENV, termination="no"), "termination: unknown value 'no'; did you"),
        (lambda: narl.NARL(ENV, seeds=[]), r"seeds: none given; such as seeds=\[0, 1, 2\]"),
        (lambda: narl.NARL(ENV, seeds=[1, 1]), "seeds: one is given twice"),
        (
            lambda: narl.NARL(ENV, seed=-1),
            "seeds: -1 is wrong; it must be a number in 0..",
        ),
        (lambda: narl.NARL(ENV, seed=0.5), "seeds: 0.5 is wrong"),
        (
            lambda: narl.NARL(ENV, seeds=3),
            r"seeds: 3 given; it must be a list, such as seeds=\[0, 1, 2\], or seed=3",
        ),
        (lambda: narl.NARL(ENV, seeds="0-5"), "seeds: '0-5' is wrong; it must be like 3, 0:20"),
        (
            lambda: narl.SAC(ENV, termination=lambda obs, action, next_obs: False),
            "termination: sac has no such setting, only narl and mbpo; leave it out",
        ),
        (lambda: narl.NARL(ENV, termination=3), "termination: int given; it must be a function"),
    ],
)
def test_wrong_input_is_one_line_at_once(make, line):
    with pytest.raises(InputError, match=line) as caught:
        make()
    assert "\n" not in str(caught.value)


# --- evaluate, record -------------------------------------------------------------------------


def test_evaluations_are_repeatable_and_apart_from_learning(learned):
    first = learned.evaluate(3, seed=8)
    assert len(first.returns) == 3
    assert learned.evaluate(3, seed=8).returns == first.returns
    assert learned.evaluate(3, seed=3).returns != first.returns
    assert learned.evaluate(1, seed=8).returns == first.returns[:1]
    assert all(1 <= length <= 30 for length in first.lengths)
    with pytest.raises(InputError, match="episodes: 0 is too small"):
        learned.evaluate(0)
    for wrong in (2.5, "3", True, None):
        with pytest.raises(InputError, match=r"episodes: .* must be a whole number >= 1"):
            learned.evaluate(wrong)
    assert learned.evaluate(np.int64(1), seed=8).returns == first.returns[:1]


def test_a_video_of_the_first_episode(learned, tmp_path):
    learned.record(tmp_path / "toy.gif", seed=8)
    assert (tmp_path / "toy.gif").stat().st_size > 100
    assert learned.picture().shape == (16, 24, 3)
    with pytest.raises(InputError, match=r"must end in .mp4 or .gif"):
        learned.record(tmp_path / "toy.avi")


class Plain(toy_worlds.Toy):
    """Takes no render_mode."""

    def __init__(self):
        super().__init__()


@pytest.mark.parametrize("env", [Plain, lambda: Plain(), lambda **given: Plain(**given)])
def test_pictures_need_a_render_mode(env, tmp_path):
    agent = sac(env)
    line = (
        r"env: the function that makes .* does not take render_mode \(.*\); .* lambda render_mode"
    )
    for draw in (agent.picture, lambda: agent.record(tmp_path / "toy.gif")):
        with pytest.raises(InputError, match=line) as refused:
            draw()
        assert "\n" not in str(refused.value)
    assert agent.evaluate(1).lengths[0] > 0


def test_pictures_of_an_instance_need_a_render_mode_too():
    assert sac(toy_worlds.Toy("rgb_array")).picture().shape == (16, 24, 3)
    line = r"env: Plain was made with render_mode=None and cannot be made anew with 'rgb_array'; "
    with pytest.raises(InputError, match=line):
        sac(Plain()).picture()


# --- save, load -------------------------------------------------------------------------------


def test_a_loaded_agent_predicts_the_same_bits(learned, tmp_path):
    path = learned.save(tmp_path / "kept")
    assert sorted(file.name for file in path.iterdir()) == [
        *("arrays.npz", "config.json", "environment.json", "manifest.json", "metrics.json"),
        "progress.jsonl",
    ]
    agent = load(path)
    assert type(agent) is narl.SAC
    assert (agent.seeds, agent.num_steps, agent.settings) == ((3, 8), 200, learned.settings)
    assert agent.history == learned.history
    for seed in (3, 8):
        same = learned.predict(MANY, seed=seed)[0].tobytes()
        assert agent.predict(MANY, seed=seed)[0].tobytes() == same
    assert agent.evaluate(2).returns == learned.evaluate(2).returns
    twice = load(agent.save(tmp_path / "again"))
    assert twice.predict(MANY)[0].tobytes() == learned.predict(MANY)[0].tobytes()
    assert {*narl.storage.load_run_at(tmp_path / "again").arrays()} == {
        *narl.storage.load_run_at(path).arrays()
    }


def test_an_agent_that_learned_nothing_is_saved_as_well(tmp_path):
    agent = sac(seed=6)
    again = load(agent.save(tmp_path / "new"))
    np.testing.assert_array_equal(again.predict(MANY)[0], agent.predict(MANY)[0])
    assert again.history == []


def test_load_of_a_class_takes_its_own_only(learned, tmp_path):
    learned.save(tmp_path / "kept")
    assert narl.SAC.load(tmp_path / "kept").predict(OBS) == learned.predict(OBS)
    assert Agent.load(tmp_path / "kept").algo == "sac"
    with pytest.raises(InputError, match=r"holds an agent of sac; take narl.load, or"):
        narl.NARL.load(tmp_path / "kept")


def test_saving_replaces_an_agent_and_nothing_else(learned, tmp_path):
    other = sac(seed=1)
    other.save(tmp_path / "kept")
    learned.save(tmp_path / "kept")
    assert load(tmp_path / "kept").seeds == (3, 8)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    with pytest.raises(InputError, match="holds other things; choose another name"):
        learned.save(tmp_path / "mine")
    with pytest.raises(InputError, match="is a file; choose another name"):
        learned.save(tmp_path / "mine" / "thesis.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "mine"]


def test_a_damaged_or_missing_folder_is_one_line(learned, tmp_path):
    path = learned.save(tmp_path / "kept")
    (path / "metrics.json").write_text("{}")
    with pytest.raises(InputError, match=r"kept is damaged: metrics.json differs"):
        load(path)
    with pytest.raises(InputError, match=r"folder: .*nowhere is not there; give"):
        load(tmp_path / "nowhere")
    kept = narl.storage.save_run(
        tmp_path, {"experiment": "tabular", "seeds": [0]}, {}, {"regret": [0.0]}
    )
    with pytest.raises(InputError, match="run: it holds no policy; `narl train` makes"):
        load(kept.path)


@pytest.mark.slow
def test_with_its_data_a_loaded_agent_learns_on_as_if_it_had_stayed(tmp_path):
    agent = sac().learn(150)
    agent.save(tmp_path / "kept", data=True)
    again = load(tmp_path / "kept").learn(100)
    agent.learn(100)
    np.testing.assert_array_equal(again.predict(MANY)[0], agent.predict(MANY)[0])
    assert strip(again.history) == strip(agent.history)
    with pytest.raises(InputError, match="learn: no data were saved; save with data=True, or make"):
        load(agent.save(tmp_path / "other")).learn(100)
    with pytest.raises(InputError, match="data: there is none; it comes with learning"):
        sac().save(tmp_path / "third", data=True)


def test_an_environment_of_ones_own_is_given_again(tmp_path):
    agent = sac(toy_worlds.Toy).learn(100)
    agent.save(tmp_path / "kept", data=True)
    bare = load(tmp_path / "kept")
    np.testing.assert_array_equal(bare.predict(MANY)[0], agent.predict(MANY)[0])
    for use in (bare.evaluate, bare.learn):
        with pytest.raises(InputError, match=r"env: Toy was the user's own; .* again, env=\.\.\."):
            use()
    again = load(tmp_path / "kept", env=toy_worlds.Toy)
    assert again.evaluate(2).returns == agent.evaluate(2).returns
    assert again.learn(50).num_steps == 150
    assert max(load(tmp_path / "kept", env=ENV).evaluate(9).lengths) == 30  # its time limit


def test_the_run_of_a_training_is_loaded_finished_or_not(tmp_path):
    item = course()
    with pytest.raises(Stopped):
        train(item, tmp_path, on_epoch=lambda row: row["step"] < 200)
    part = tmp_path / f"{item.id}.part"
    (checkpoint,) = checkpoints(tmp_path, item)[-1:]
    half = load(part)
    assert (half.num_steps, checkpoint.name) == (200, "step-000000200")
    assert [row["step"] for row in half.history] == [100, 200]
    run, _ = train(item, tmp_path)
    whole = load(run.path)
    assert whole.num_steps == 300
    assert whole.predict(OBS)[0] != half.predict(OBS)[0]
    direct = sac().learn(300)
    assert whole.predict(MANY)[0].tobytes() == direct.predict(MANY)[0].tobytes()
    assert half.learn(100).predict(MANY)[0].tobytes() == direct.predict(MANY)[0].tobytes()
