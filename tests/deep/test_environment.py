"""Environments on the host: resume in mid-episode, faults, odd spaces, unknown names.

Named so because `test_envs.py` of the tabular tests would be the same module to pytest.
"""

import json
import os
import subprocess
import sys
from collections import deque
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

import narl
from narl.deep.environment import EnvironmentFault, HostEnv, open_env
from narl.deep.episode_replay import cut_seed, episode_seed
from narl.errors import InputError

SOURCE = str(Path(narl.__file__).parents[1])
HERE = str(Path(__file__).parent)


class Toy(gymnasium.Env):
    """A point with noise on a line; episodes are 30 steps long."""

    def __init__(self, obs_space=None, action_space=None):
        self.observation_space = obs_space or Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = action_space or Box(-1.0, 1.0, (1,))
        self.position = np.zeros(2)
        self.num_taken = 0
        self.last = None
        self.actions = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = self.np_random.normal(size=2)
        self.num_taken = 0
        return self.obs(), {}

    def step(self, action):
        self.actions.append(action)
        self.last = float(np.sum(action))
        self.position = self.position + self.last + 0.1 * self.np_random.normal(size=2)
        self.num_taken += 1
        return self.obs(), -float(abs(self.position[0])), self.num_taken >= 30, False, {}

    def obs(self):
        return self.position.copy()


class Sampler(Toy):
    """Draws from its own space and from a generator of its own."""

    def __init__(self):
        super().__init__()
        self.own = np.random.default_rng(5)
        self.history = {"seen": [np.float32(0.0), float("nan")], "pair": (1, None)}

    def obs(self):
        self.history["seen"].append(np.float32(self.own.normal()))
        sampled = float(self.action_space.sample()[0])
        return self.position + sampled + float(self.history["seen"][-1])


class Handle:
    """Stands for a simulator that cannot be looked into."""

    def __init__(self):
        self.position = np.zeros(2)


class Closed(Toy):
    """Keeps its state where it cannot be captured."""

    def __init__(self):
        super().__init__()
        self.handle = Handle()

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed)
        self.handle.position = self.position
        return result


class Opened(Closed):
    """The same, with the methods that narl asks for."""

    def get_state(self):
        return {"position": self.position, "num_taken": self.num_taken, "names": ["a", ("b", 1)]}

    def set_state(self, state):
        assert state["names"] == ["a", ("b", 1)]
        self.np_random.normal()  # must not matter
        self.position, self.num_taken = state["position"], state["num_taken"]
        self.handle.position = self.position


def wrapped():
    """A user's own stack of wrappers, with Gymnasium's checker in it."""
    env = gymnasium.make("Pendulum-v1", max_episode_steps=60)
    return gymnasium.wrappers.RescaleAction(env, np.float32(-5), np.float32(5))


def limited():
    return gymnasium.wrappers.TimeLimit(Toy(), 17)


MAKERS = {"Toy": Toy, "Sampler": Sampler, "Opened": Opened, "wrapped": wrapped, "limited": limited}


def open_named(name: str, seed: int) -> HostEnv:
    if name in MAKERS:
        return open_env(MAKERS[name], seed)
    from narl.deep.presets import find_preset  # loads JAX, which the fresh processes can do without

    task = find_preset(name)
    if task is None:
        return open_env(name, seed)
    return open_env(name, seed, task.env_kwargs, obs_keep=task.obs_keep)


def run(host: HostEnv, actions: np.ndarray) -> np.ndarray:
    """One row per step, with the observation after a reset where the episode is over."""
    rows = []
    for action in actions:
        step = host.step(action)
        over = step.terminated or step.truncated
        fresh = host.reset() if over else np.zeros_like(step.obs)
        rows.append([*step.obs, step.reward, step.terminated, step.truncated, *fresh])
    return np.array(rows, np.float64)


def store(state: dict, folder: Path) -> None:
    (folder / "state.json").write_text(json.dumps(state["json"], allow_nan=False))
    np.savez(folder / "state.npz", **state["arrays"])


def fetch(folder: Path) -> dict:
    with np.load(folder / "state.npz", allow_pickle=False) as arrays:
        return {
            "json": json.loads((folder / "state.json").read_text()),
            "arrays": dict(arrays),
        }


def continue_in_fresh_process(name: str, folder: Path) -> np.ndarray:
    """Runs `continue_here` in another process, in an empty folder, with warnings as errors."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    code = f"import test_host_envs; test_host_envs.continue_here({name!r}, {str(folder)!r})"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=elsewhere,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((SOURCE, HERE))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(elsewhere.iterdir()) == []  # no log file of MuJoCo's
    return np.load(folder / "rows.npy")


def continue_here(name: str, folder: str) -> None:
    host = open_named(name, seed=99)
    host.restore(fetch(Path(folder)))
    np.save(Path(folder) / "rows.npy", run(host, np.load(Path(folder) / "actions.npy")))
    host.close()


SLOW = [
    *("InvertedPendulum-v4", "HalfCheetah-v5", "Walker2d-v4", "MountainCarContinuous-v0"),
    *("Ant-v4", "Ant-v5", "Humanoid-v4", "Humanoid-v5"),
]


@pytest.mark.parametrize(
    "name",
    [
        *("InvertedPendulum-v5", "Hopper-v5", "Pendulum-v1", *MAKERS),
        *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW),
    ],
)
def test_continues_bit_for_bit_in_a_fresh_process(name, tmp_path):
    host = open_named(name, seed=3)
    assert host.capture_problem is None
    host.reset()
    rng = np.random.default_rng(0)
    size = host.spaces.action_dim
    # Small at first, so that the body still stands when it is captured.
    run(host, (0.1 * rng.uniform(-1, 1, (11, size))).astype(np.float32))
    store(host.capture(), tmp_path)
    actions = rng.uniform(-1, 1, (200, size)).astype(np.float32)
    np.save(tmp_path / "actions.npy", actions)
    rows = run(host, actions)
    host.close()
    assert len(np.unique(rows[:, 0])) > 150  # something happened
    continued = continue_in_fresh_process(name, tmp_path)
    assert continued.tobytes() == rows.tobytes()


def test_capture_does_not_change_the_environment():
    first, second = (open_env("Hopper-v5", 1) for _ in range(2))
    actions = np.random.default_rng(1).uniform(-1, 1, (40, 3)).astype(np.float32)
    assert first.reset().tobytes() == second.reset().tobytes()
    before = run(first, actions[:20])
    assert first.capturable
    assert run(second, actions[:20]).tobytes() == before.tobytes()
    assert run(first, actions[20:]).tobytes() == run(second, actions[20:]).tobytes()


def test_restoring_undoes_what_was_done_since():
    host = open_env("Walker2d-v5", 1)
    host.reset()
    actions = np.random.default_rng(1).uniform(-1, 1, (60, 6)).astype(np.float32)
    run(host, actions[:7])
    state = host.capture()
    first = run(host, actions)
    host.restore(state)
    assert host.num_steps == 7
    assert run(host, actions).tobytes() == first.tobytes()


def test_the_time_limit_goes_on_where_it_was():
    host = open_env(limited, 0)
    host.reset()
    zero = np.zeros(1, np.float32)
    for _ in range(10):
        host.step(zero)
    other = open_env(limited, 0)
    other.restore(host.capture())
    ends = [other.step(zero).truncated for _ in range(7)]
    assert ends == [False] * 6 + [True]
    assert other.time_limit == 17


# --- environments that hide their state -------------------------------------------------------


class Hidden(Closed):
    """All of it lies behind the handle, also a generator that every seed renews."""

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.handle.noise = np.random.default_rng([seed, 7])
        result = super().reset(seed=seed)
        return result[0] + self.handle.noise.normal(), {}

    def step(self, action):
        self.position = self.position + self.handle.noise.normal()
        return super().step(action)


class ClosedSampler(Sampler):
    """Draws from generators that no seed renews."""

    def __init__(self):
        super().__init__()
        self.handle = Handle()


class LateClosed(Toy):
    """Can be captured until its 40th step in all, in its second episode."""

    def __init__(self):
        super().__init__()
        self.total = 0

    def step(self, action):
        self.total += 1
        if self.total == 40:
            self.handle = Handle()
        return super().step(action)


HIDING = {
    "Closed": Closed,
    "Hidden": Hidden,
    "ClosedSampler": ClosedSampler,
    "LateClosed": LateClosed,
    "limited": lambda: gymnasium.wrappers.TimeLimit(Hidden(), 21),
}
MAKERS |= {f"hiding {name}": make for name, make in HIDING.items()}


@pytest.mark.parametrize("num_steps", [0, 5, 30, 47])
@pytest.mark.parametrize("kind", HIDING)
def test_without_access_to_the_state_the_episode_is_repeated(kind, num_steps):
    host, other = (open_env(HIDING[kind], seed) for seed in (4, 99))
    rng = np.random.default_rng(2)
    host.reset()
    other.reset()
    run(host, rng.uniform(-1, 1, (num_steps, 1)).astype(np.float32))
    assert host.capturable == (kind == "LateClosed" and num_steps < 40)
    state = host.capture()
    json.dumps(state["json"], allow_nan=False)
    assert other.restore(state)
    assert other.num_steps == num_steps
    actions = rng.uniform(-1, 1, (100, 1)).astype(np.float32)
    assert run(other, actions).tobytes() == run(host, actions).tobytes()


def test_they_are_repeated_in_a_fresh_process(tmp_path):
    name = "hiding Hidden"
    host = open_named(name, seed=3)
    assert host.capture_problem.startswith("Hidden: its attribute 'handle' is a ")
    host.reset()
    actions = np.random.default_rng(0).uniform(-1, 1, (80, 1)).astype(np.float32)
    run(host, actions[:40])
    state = host.capture()
    assert state["arrays"]["actions"].tobytes() == actions[30:40].tobytes()  # of this episode only
    store(state, tmp_path)
    np.save(tmp_path / "actions.npy", actions[40:])
    rows = run(host, actions[40:])
    assert continue_in_fresh_process(name, tmp_path).tobytes() == rows.tobytes()


def test_every_episode_of_theirs_has_a_seed_of_its_own():
    def seeds_of(make, num=4):
        host, seeds = open_env(make, 5), []
        reset = host.env.reset
        host.env.reset = lambda *, seed: (seeds.append(seed), reset(seed=seed))[1]
        for _ in range(num):
            host.reset()
        return seeds

    assert seeds_of(Toy) == [5, None, None, None]
    seeds = seeds_of(Closed)
    assert seeds == [5, *(episode_seed(5, i) for i in (1, 2, 3))]
    assert len(set(seeds)) == 4


def test_seeds_of_different_purposes_differ():
    """Words that are missing count as 0: without a tag they would be the same."""
    from narl.deep.evaluation import evaluation_seed  # loads JAX

    numbers = [(seed, step) for seed in range(8) for step in range(0, 4000, 250)]
    makers = (evaluation_seed, episode_seed, cut_seed)
    seeds = [make(*number) for make in makers for number in numbers]
    assert len(set(seeds)) == len(seeds)
    assert evaluation_seed(3, 250) == int(np.random.SeedSequence([3, 250, 0]).generate_state(1)[0])


class Fickle(Closed):
    """Is no function of seed and actions."""

    lives = 0

    def __init__(self, what):
        super().__init__()
        type(self).lives += 1
        self.what, self.life = what, type(self).lives

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        if self.num_taken == 4 and self.life % 2 == 0:
            if self.what == "raises":
                raise OSError("gone")
            obs = obs + (self.what == "observation")
            reward = reward - (self.what == "reward")
            terminated = self.what == "end"
        return obs, reward, terminated, truncated, info


@pytest.mark.parametrize("what", ["observation", "reward", "end", "raises"])
def test_a_repetition_that_differs_is_noticed_and_cut(what):
    Fickle.lives = 0
    host, other = (open_env(lambda: Fickle(what), 4) for _ in range(2))
    other.reset()
    host.reset()
    run(host, np.zeros((7, 1), np.float32))
    assert not other.restore(host.capture())
    assert other.num_steps == 7
    assert other.cut(7).tobytes() == open_env(Closed, 4).reset(seed=cut_seed(4, 7)).tobytes()


def test_one_that_closes_up_in_an_episode_that_was_restored_is_not_repeated():
    """How that episode began was not kept, since the state itself was."""
    host, other, third = (open_env(LateClosed, 4) for _ in range(3))
    host.reset()
    zeros = np.zeros((60, 1), np.float32)
    run(host, zeros[:35])
    assert other.restore(host.capture())
    run(other, zeros[:10])
    assert not third.restore(other.capture())
    run(other, zeros[:20])  # into the next episode
    assert third.restore(other.capture())
    assert run(third, zeros).tobytes() == run(other, zeros).tobytes()


def tangled(kind: str):
    """A maker of environments that would not survive a copy of their attributes."""

    def make():
        env = Toy()
        if kind == "view":
            env.first = env.position[:1]
        elif kind == "list":
            env.other = env.actions
        elif kind == "foreign":
            env.first = np.frombuffer(bytearray(16))
        elif kind == "deque":
            env.first = deque([1])
        elif kind == "strings":
            env.first = np.array(["a"])
        return env

    return make


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("view", "'first' shares memory with something else"),
        ("list", "'other' shares memory with something else"),
        ("foreign", "'first' shares memory with something else"),
        ("deque", "'first' is a collections.deque"),
        ("strings", "'first' is a numpy.ndarray"),
    ],
)
def test_attributes_that_cannot_be_captured_are_named(kind, problem):
    assert open_env(tangled(kind), 0).capture_problem == f"Toy: its attribute {problem}"


def test_a_model_that_is_changed_cannot_be_captured():
    host = open_env("InvertedPendulum-v5", 0)
    host.reset()
    assert host.capturable
    host.env.unwrapped.model.body_mass[1] *= 1.1
    assert host.capture_problem.endswith("its MuJoCo model changes during the run")


def test_states_of_something_else_are_refused():
    pendulum, toy, hopper = (open_named(name, 0) for name in ("Pendulum-v1", "Toy", "Hopper-v5"))
    hopper.reset()
    with pytest.raises(InputError, match=r"^env: the captured state is of Toy, not Pendulum-v1$"):
        pendulum.restore(toy.capture())
    with pytest.raises(InputError, match=r"captured with 0 wrappers, now it has 1"):
        open_env(limited, 0).restore(toy.capture())
    state = hopper.capture()
    state["json"]["layers"][-1]["mujoco"]["version"] = "2.0.0"
    with pytest.raises(InputError, match=r"^mujoco: .* install mujoco==2.0.0 to continue$"):
        hopper.restore(state)


def test_the_seed_decides_the_first_episode_and_those_after_it():
    def starts(seed):
        host = open_env("Hopper-v5", seed)
        return [host.reset().tolist() for _ in range(2)]

    assert starts(5) == starts(5)
    assert starts(5) != starts(6)
    assert starts(5)[0] != starts(5)[1]
    host = open_env("Hopper-v5", 6)
    assert host.reset(seed=5).tolist() == starts(5)[0]


# --- faults -----------------------------------------------------------------------------------


class Faulty(Toy):
    """Goes wrong at its third step."""

    def __init__(self, **wrong):
        super().__init__()
        self.wrong = wrong

    def step(self, action):
        result = dict(
            zip(
                ("obs", "reward", "terminated", "truncated", "info"),
                super().step(action),
                strict=True,
            )
        )
        if self.num_taken == 3:
            if "error" in self.wrong:
                raise self.wrong["error"]
            if "result" in self.wrong:
                return self.wrong["result"]
            result |= self.wrong
        return tuple(result.values())


FAULTS = {
    "ValueError: no such thing": {"error": ValueError("no such thing\nsecond line")},
    "KeyError": {"error": KeyError()},
    "observation[1] is nan": {"obs": np.array([0.0, np.nan])},
    "observation[0] is -inf": {"obs": np.array([-np.inf, np.nan])},
    "observation[0] is 1e+300, which float32 cannot hold": {"obs": np.array([1e300, 0.0])},
    "observation has shape (3,), expected (2,)": {"obs": np.zeros(3)},
    "observation has shape (), expected (2,)": {"obs": 1.0},
    "observation is a dict of object, not an array of numbers": {"obs": {"a": 1}},
    "observation is a NoneType of object, not an array of numbers": {"obs": None},
    "reward is nan": {"reward": float("nan")},
    "reward is inf": {"reward": np.float32(np.inf)},
    "reward is 1e+39, which float32 cannot hold": {"reward": 1e39},
    "reward is None, not a number": {"reward": None},
    "reward is array([1., 2.]), not a number": {"reward": np.array([1.0, 2.0])},
    "reward is '3', not a number": {"reward": "3"},
    "reward is b'3', not a number": {"reward": b"3"},
    "terminated is None, not a boolean": {"terminated": None},
    "truncated is 'no', not a boolean": {"truncated": "no"},
    "terminated is 0.5, not a boolean": {"terminated": 0.5},
    "terminated is array([False,  True]), not a boolean": {"terminated": np.array([False, True])},
    "truncated is [[0], [0, 1]], not a boolean": {"truncated": [[0], [0, 1]]},
    "step() did not return (observation, reward, terminated, truncated, info)": {
        "result": (np.zeros(2), 0.0, False, {})
    },
}


@pytest.mark.parametrize("cause", FAULTS)
def test_faults_of_the_environment_are_named(cause):
    host = open_env(lambda: Faulty(**FAULTS[cause]), 0)
    host.reset()
    for _ in range(2):
        host.step(np.zeros(1, np.float32))
    with pytest.raises(EnvironmentFault) as fault:
        host.step(np.zeros(1, np.float32))
    assert str(fault.value) == f"Faulty (seed 0, training): step 3: {cause}"


def test_rewards_of_any_numeric_type_are_floats():
    for reward in (1, True, np.float32(1.0), np.array([1.0]), np.array(1)):
        host = open_env(lambda reward=reward: Faulty(reward=reward), 0)
        host.reset()
        rewards = [host.step(np.zeros(1, np.float32)).reward for _ in range(3)]
        assert rewards[2] == 1.0
        assert type(rewards[2]) is float


@pytest.mark.parametrize("kind", [bool, int, float, np.bool_, np.int8, np.array, lambda x: [x]])
@pytest.mark.parametrize("value", [False, True])
def test_flags_of_any_type_that_is_plain_are_booleans(kind, value):
    host = open_env(lambda: Faulty(terminated=kind(value), truncated=kind(not value)), 0)
    host.reset()
    step = [host.step(np.zeros(1, np.float32)) for _ in range(3)][2]
    assert (step.terminated, step.truncated) == (value, not value)
    assert type(step.terminated) is bool


def test_a_reset_that_fails_is_named():
    class Broken(Toy):
        def reset(self, *, seed=None, options=None):
            raise OSError("no display")

    class Old(Toy):
        def reset(self, *, seed=None, options=None):
            return np.zeros(2)

    with pytest.raises(EnvironmentFault) as fault:
        open_env(Broken, 3, role="evaluation").reset()
    assert str(fault.value) == "Broken (seed 3, evaluation): reset: OSError: no display"
    with pytest.raises(EnvironmentFault, match=r"^Old \(seed 0, training\): reset: reset\(\) did"):
        open_env(Old, 0).reset()


def test_a_policy_that_diverges_is_not_the_environments_fault():
    host = open_env("Pendulum-v1", 0)
    host.reset()
    with pytest.raises(EnvironmentFault, match=r"step 1: the policy's action\[0\] is nan$"):
        host.step(np.array([np.nan], np.float32))


# --- spaces, names, arguments -----------------------------------------------------------------


def test_actions_arrive_in_the_environments_shape_dtype_and_bounds():
    box = Box(np.array([[0], [-6]], np.int16), np.array([[4], [6]], np.int16), dtype=np.int16)
    host = open_env(lambda: Toy(Box(0, 200, (2,), np.uint8), box), 0)
    host.env.obs = lambda: np.array([200, 100], np.uint8)
    assert host.reset().tolist() == [1, 0]
    host.step(np.array([-1, 0.5], np.float32))
    (action,) = host.env.actions
    assert action.dtype == np.int16
    assert action.tolist() == [[0], [3]]


def test_observations_are_scaled_by_their_bounds_unless_told_otherwise():
    scaled, plain = open_env("Pendulum-v1", 0), open_env("Pendulum-v1", 0, scaling="none")
    assert (plain.reset() / scaled.reset()).tolist() == pytest.approx([1, 1, 8])


def test_an_environment_without_a_time_limit():
    assert open_env(Toy, 0).time_limit is None
    assert open_env("Pendulum-v1", 0, {"max_episode_steps": 7}).time_limit == 7


@pytest.mark.parametrize(
    ("env", "line"),
    [
        ("Hoper-v5", "env: unknown environment 'Hoper-v5'; did you mean 'Hopper-v5'?"),
        ("Hopper", "env: unknown environment 'Hopper'; did you mean 'Hopper-v5'?"),
        ("Hopper-v2", "env: unknown environment 'Hopper-v2'; did you mean 'Hopper-v5'?"),
        ("no_such:Hopper-v5", "env: cannot import 'no_such': No module named 'no_such'"),
        (
            "CartPole-v1",
            "env: CartPole-v1 has Discrete(2) actions; "
            "narl trains on Box observations and Box actions with finite bounds",
        ),
        (
            lambda: 3,
            "env: the function returned a int; it must return a gymnasium.Env",
        ),
    ],
)
def test_environments_that_cannot_be_opened(env, line):
    with pytest.raises(InputError) as refused:
        open_env(env, 0)
    assert str(refused.value) == line


def test_arguments_that_the_environment_does_not_take():
    with pytest.raises(InputError, match=r"^env: Hopper-v5 cannot be made: .*'colour'"):
        open_env("Hopper-v5", 0, {"colour": 1})
    with pytest.raises(InputError, match=r"^env: the function .* does not take colour \("):
        open_env(Toy, 0, {"colour": 1})
    with pytest.raises(InputError, match=r"^env: Toy is neither an id nor a function"):
        open_env(Toy(), 0)


def test_obs_keep_is_checked():
    with pytest.raises(
        InputError, match=r"^obs_keep: 12 is out of range; Hopper-v5 has 11 entries"
    ):
        open_env("Hopper-v5", 0, obs_keep=12)
    assert open_env("Hopper-v5", 0, obs_keep=3).reset().shape == (3,)


def test_nothing_is_written_into_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_env("HalfCheetah-v4", 0).close()
    assert list(tmp_path.iterdir()) == []
