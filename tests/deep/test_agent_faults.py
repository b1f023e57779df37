"""What is left of an agent when something goes wrong: in a callback, in learning, in its folder."""

import logging

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

import narl
import toy_worlds
from narl.deep.agent import load
from narl.deep.callbacks import as_callback
from narl.errors import InputError
from short_courses import cache, programs, short, spoil  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cache")]

ENV, BROKEN = "toy_worlds:Toy-v0", "toy_worlds:Broken-v0"
QUICK = {name: value for name, value in short("sac").items() if name != "steps"}
OBS = np.array([0.3, -0.2])
MANY = np.random.default_rng(0).normal(size=(7, 2))


def sac(env=ENV, **given) -> narl.SAC:
    return narl.SAC(env, **{**QUICK, **given})


def once(row):
    """A callback that ends learning at the first epoch."""
    return False


@pytest.fixture(scope="module")
def whole(cache):  # noqa: F811
    """Three epochs without an interruption; tests must not change it."""
    return sac().learn(300)


@pytest.fixture(scope="module")
def folder(whole, tmp_path_factory):
    """That agent, saved with its data."""
    return whole.save(tmp_path_factory.mktemp("saved") / "kept", data=True)


def arrays(agent, path):
    """All that is saved of an agent."""
    return narl.storage.load_run_at(agent.save(path)).arrays()


def assert_same(some, others):
    assert sorted(some) == sorted(others)
    for name, array in some.items():
        assert array.tobytes() == others[name].tobytes(), name


# --- callbacks --------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_after_an_error_in_a_callback_the_agent_is_where_learning_was(error, whole, tmp_path):
    def raise_it(row):
        raise error

    agent = sac()
    with pytest.raises(type(error)) as raised:
        agent.learn(300, raise_it)
    assert raised.value is error
    assert (agent.num_steps, [row["step"] for row in agent.history]) == (100, [100])
    stopped = sac().learn(300, once)
    assert_same(arrays(agent, tmp_path / "kept"), arrays(stopped, tmp_path / "stopped"))
    assert agent.evaluate(2).returns == stopped.evaluate(2).returns
    again = load(agent.save(tmp_path / "data", data=True))
    for one in (agent, again):
        one.learn(200)
        assert one.num_steps == 300
        assert one.predict(MANY)[0].tobytes() == whole.predict(MANY)[0].tobytes()


def test_a_callback_may_close_the_agent():
    agent = sac()
    agent.learn(300, lambda row: agent.close())
    assert (agent.num_steps, len(agent.history)) == (100, 1)
    with pytest.raises(InputError, match="learn: the agent was closed; make a new one"):
        agent.learn(100)


def test_all_callbacks_of_a_list_are_called_and_any_of_them_stops():
    seen, agent = [], sac()

    def first(row):
        seen.append(("first", row["step"]))
        return np.bool_(row["step"] < 200)

    def second(row):
        seen.append(("second", row["step"]))

    agent.learn(300, [first, second])
    assert seen == [(who, step) for step in (100, 200) for who in ("first", "second")]
    assert agent.num_steps == 200


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (None, True),
        ([], True),
        (lambda row: None, True),
        (lambda row: 0, True),
        (print, True),
        (lambda row: False, False),
        (lambda row: np.False_, False),
        (lambda row: np.array(False), False),
        ((lambda row: True, lambda row: False), False),
    ],
)
def test_false_ends_learning_and_nothing_else_does(given, answer):
    assert as_callback(given)({"step": 1}) is answer


class NotCallable:
    """Such as a callback of another library."""


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("print", "callback: str given; it must be a function that takes the row of an epoch, or"),
        (NotCallable(), "callback: NotCallable given"),
        ([print, None], "callback: NoneType given"),
        (iter([print]), "callback: .*iterator given"),
        (lambda: None, r"callback: <lambda> cannot be called with the row of an epoch \(too many"),
        (lambda a, b: None, r"callback: <lambda> cannot be called with .* \(missing a required"),
    ],
)
def test_a_wrong_callback_is_refused_before_learning_begins(given, line):
    agent = sac()
    with pytest.raises(InputError, match=line) as refused:
        agent.learn(100, given)
    assert "\n" not in str(refused.value)
    assert agent.num_steps == 0


# --- learning that goes wrong -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "fault"), [("raise", narl.EnvironmentFault), ("huge", narl.Fault)]
)
def test_after_a_fault_all_networks_of_the_last_epoch_stay(what, fault, monkeypatch, tmp_path):
    monkeypatch.setitem(toy_worlds.FAULTS, "what", what)
    good = arrays(sac(BROKEN).learn(300, once), tmp_path / "good")
    monkeypatch.setitem(toy_worlds.FAULTS, "at", 150)
    agent = sac(BROKEN)
    with pytest.raises(fault) as raised:
        agent.learn(300)
    assert (agent.num_steps, len(agent.history)) == (100, 1)
    assert "sac.critic.0.w" in good
    assert_same(arrays(agent, tmp_path / "kept"), good)
    cause = str(raised.value).split(": ")[-1]
    with pytest.raises(InputError, match="learn: it went wrong before") as refused:
        agent.learn(100)
    line = str(refused.value)
    assert cause in line
    assert "step 100" in line
    assert line.endswith("make a new one, or load one that was saved with data=True")
    with pytest.raises(InputError, match=r"^data: there is none; it went wrong before") as refused:
        agent.save(tmp_path / "data", data=True)
    assert not (tmp_path / "data").exists()


def test_with_models_they_stay_as_well(monkeypatch, tmp_path):
    given = short("narl")
    del given["steps"]
    monkeypatch.setitem(toy_worlds.FAULTS, "at", 220)
    agent = narl.NARL(BROKEN, **given)
    with pytest.raises(narl.EnvironmentFault):
        agent.learn(300)
    kept = arrays(agent, tmp_path / "kept")
    assert {name.split(".")[0] for name in kept} >= {"sac", "ensemble", "ending"}
    assert agent.num_steps == 200


def test_an_interrupt_in_the_middle_of_a_step_is_like_a_fault():
    class Interrupted(toy_worlds.Toy):
        total = 0

        def step(self, action):
            self.total += 1
            if self.total == 130:
                raise KeyboardInterrupt
            return super().step(action)

    agent = sac(Interrupted, eval_horizon=10)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(300)
    assert agent.num_steps == 100
    with pytest.raises(InputError, match=r"it went wrong before \(KeyboardInterrupt\)"):
        agent.learn(100)


def test_networks_that_are_not_finite_are_not_kept(monkeypatch, tmp_path):
    agent = sac().learn(100)
    good = arrays(agent, tmp_path / "good")
    from narl.deep import learning

    def spoilt(training):
        found = dict(genuine(training))
        found["sac.critic.0.w"] = np.full_like(found["sac.critic.0.w"], np.nan)
        return found

    genuine = learning.networks
    monkeypatch.setattr(learning, "networks", spoilt)
    with pytest.raises(narl.Fault, match=r"step 200: sac\.critic\.0\.w is not finite"):
        agent.learn(100)
    assert_same(arrays(agent, tmp_path / "kept"), good)


# --- folders ----------------------------------------------------------------------------------


def test_damaged_data_do_not_keep_the_policy_from_being_loaded(whole, tmp_path, caplog):
    path = whole.save(tmp_path / "kept", data=True)
    (checkpoint,) = (path / "checkpoints").iterdir()
    spoil(checkpoint)
    with caplog.at_level(logging.WARNING, "narl"):
        agent = load(path)
    assert "kept: its data are damaged; the policy is loaded, but cannot learn on" in caplog.text
    assert agent.predict(MANY)[0].tobytes() == whole.predict(MANY)[0].tobytes()
    assert agent.evaluate(1).returns == whole.evaluate(1).returns
    with pytest.raises(InputError, match="learn: the data that were saved are damaged; load"):
        agent.learn(100)


class Other(toy_worlds.Toy):
    """With other spaces."""

    def __init__(self, size=2, bound=2.0, low=-np.inf):
        super().__init__()
        self.observation_space = Box(low, -low, (size,), np.float64)
        self.action_space = Box(-bound, bound, (1,))


@pytest.mark.parametrize(
    ("env", "line"),
    [
        (
            "Pendulum-v1",
            r"env: Pendulum-v1 has observations of shape \(3,\); the agent learned with \(2,\)",
        ),
        (lambda: Other(size=5), r"env: Other has observations of shape \(5,\)"),
        (Other(bound=1.0), r"env: Other has action\[0\] in \[-1, 1\]; .* learned with \[-2, 2\]"),
        (
            lambda: Other(low=-7.0),
            r"env: Other has other bounds of observation\[0\] than the agent",
        ),
        ("Hoper-v5", "env: unknown environment 'Hoper-v5'"),
    ],
)
def test_an_agent_is_loaded_with_an_environment_of_the_same_spaces_only(env, line, folder):
    with pytest.raises(InputError, match=line) as refused:
        load(folder, env=env)
    assert "\n" not in str(refused.value)
    assert load(folder, env=Other).evaluate(1).lengths[0] > 0


def test_an_environment_that_has_changed_since_is_named(folder, monkeypatch):
    agent = load(folder)
    spec = gymnasium.spec("Toy-v0")
    monkeypatch.setattr(spec, "entry_point", lambda **kwargs: Other(size=4))
    with pytest.raises(InputError, match=r"env: .* has observations of shape \(4,\); the agent"):
        agent.evaluate(1)


def test_a_folder_without_an_agent_is_one_short_line(tmp_path):
    (tmp_path / "thesis.txt").write_text("")
    with pytest.raises(InputError) as refused:
        load(tmp_path)
    assert str(refused.value) == (
        f"folder: {tmp_path} holds no saved agent; give one that agent.save or narl train made"
    )
    with pytest.raises(InputError, match=r"folder: .*thesis.txt is a file; give the folder"):
        load(tmp_path / "thesis.txt")
