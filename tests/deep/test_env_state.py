"""Episodes that continue in another process: from a stored state or by repetition."""

import json
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

import narl
from narl.deep.env_state import episode_seed, restart_seed
from narl.deep.environment import HostEnv, open_env
from narl.deep.evaluation import evaluation_seed
from narl.deep.presets import find_preset
from narl.errors import InputError

PATH = os.pathsep.join((str(Path(narl.__file__).parents[1]), str(Path(__file__).parent)))


class Toy(gymnasium.Env):
    """A point with noise on a line; episodes are 30 steps long."""

    def __init__(self):
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed_hidden_state(seed)
        self.position = self.noise()
        self.num_taken = 0
        return self.position.copy(), {}

    def step(self, action):
        self.position = self.position + float(np.sum(action)) + self.step_noise()
        self.num_taken += 1
        reward = -float(abs(self.position[0]))
        return self.position.copy(), reward, self.num_taken >= 30, False, {}

    def seed_hidden_state(self, seed):
        pass

    def noise(self):
        return self.np_random.normal(size=2)

    def step_noise(self):
        return 0.1 * self.noise()


class RandomStart(Toy):
    """Draws at the beginning of an episode only."""

    def step_noise(self):
        return 0.0


class OwnGenerators(Toy):
    """Draws from its space and from generators that no seed renews."""

    def __init__(self):
        super().__init__()
        self.first = np.random.default_rng(5)
        self.second = np.random.Generator(np.random.MT19937(6))

    def noise(self):
        return self.first.normal(size=2) + self.second.normal() + self.action_space.sample()[0]


class HiddenGenerator(Toy):
    """Draws from a generator behind a handle, which every seed renews."""

    def __init__(self):
        super().__init__()
        self.unused = np.random.default_rng(8)

    def seed_hidden_state(self, seed):
        if seed is not None:
            self.handle = {"generator": np.random.RandomState(seed)}

    def noise(self):
        return self.handle["generator"].normal(size=2)


class StateMethods(Toy):
    """Has the methods get_state and set_state, and a counter that no reset touches."""

    total = 0

    def step(self, action):
        self.total += 1
        obs, reward, *rest = super().step(action)
        return obs, reward + self.total, *rest

    def get_state(self):
        others = ["a", ("b", 1.5, None), float("nan"), np.float32(0.1), np.random.default_rng(1)]
        return {
            "position": self.position,
            "counts": [self.num_taken, self.total],
            "others": others,
        }

    def set_state(self, state):
        text, pair, nan, number, generator = state["others"]
        assert (text, pair, type(number)) == ("a", ("b", 1.5, None), np.float32)
        assert np.isnan(nan)
        assert generator.normal() == np.random.default_rng(1).normal()
        self.np_random.normal()  # must not matter
        self.position = state["position"]
        self.num_taken, self.total = state["counts"]


class UnsupportedState(Toy):
    """Has the methods, with a state that cannot be stored."""

    def get_state(self):
        return object()

    def set_state(self, state):
        raise AssertionError("there is no state to set")


def rescaled_pendulum():
    """An environment with a wrapper whose state is not known, and with Gymnasium's checker."""
    env = gymnasium.make("Pendulum-v1", max_episode_steps=60)
    return gymnasium.wrappers.RescaleAction(env, np.float32(-5), np.float32(5))


def limited_toy():
    return gymnasium.wrappers.TimeLimit(StateMethods(), 17)


def checked_hopper():
    return gymnasium.make("Hopper-v5")


MUJOCO = [
    *("InvertedPendulum-v5", "Hopper-v5", "HalfCheetah-v5", "Walker2d-v4", "Ant-v4", "Ant-v5"),
    *("Humanoid-v4", "Humanoid-v5", "Reacher-v5", "Pusher-v5", "checked_hopper"),
    *("narl/SparseReacher-v0", "narl/SparseArmReacher-v0", "narl/Pusher-v0"),
    "narl/HalfCheetah-cost0.5-v0",
]
STATE_METHODS = ["StateMethods", "limited_toy", "narl/SparsePendulum-v0", "narl/SparseCartPole-v0"]
REPEATED = [
    *("Pendulum-v1", "MountainCarContinuous-v0", "Toy", "OwnGenerators", "HiddenGenerator"),
    *("UnsupportedState", "rescaled_pendulum"),
]


def open_named(name: str, seed: int) -> HostEnv:
    if name in globals():
        return open_env(globals()[name], seed)
    preset = find_preset(name)
    if preset is None:
        return open_env(name, seed)
    return open_env(name, seed, preset.env_kwargs, obs_keep=preset.obs_keep)


def run(host: HostEnv, actions: np.ndarray) -> np.ndarray:
    """Return one row per step, with the observation after a reset where the episode is over."""
    rows = []
    for action in actions:
        step = host.step(action)
        over = step.terminated or step.truncated
        first_obs = host.reset() if over else np.zeros_like(step.obs)
        rows.append([*step.obs, step.reward, step.terminated, step.truncated, *first_obs])
    return np.array(rows, np.float64)


def random_actions(num: int, size: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (num, size)).astype(np.float32)


# --- continued episodes -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def continued(tmp_path_factory) -> dict[str, tuple[np.ndarray, np.ndarray, dict]]:
    """For every environment: rows in this process, rows of a fresh process, the stored state."""
    folder = tmp_path_factory.mktemp("states")
    working_folder = folder / "empty"
    working_folder.mkdir()
    names, rows, states = [*MUJOCO, *STATE_METHODS, *REPEATED], {}, {}
    for name in names:
        host = open_named(name, seed=3)
        host.reset()
        size = host.spaces.action_dim
        run(host, 0.1 * random_actions(11, size))  # small: bodies still stand when captured
        states[name] = host.capture()
        path = stored_path(folder, name)
        Path(f"{path}.json").write_text(json.dumps(states[name]["json"], allow_nan=False))
        np.savez(path, **states[name]["arrays"])
        rows[name] = run(host, random_actions(150, size, seed=1))
        host.close()
    code = f"import test_env_state as t; t.continue_all({names!r}, {str(folder)!r})"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=working_folder,
        env=os.environ | {"PYTHONPATH": PATH},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(working_folder.iterdir()) == []  # no log file of MuJoCo's
    return {
        name: (rows[name], np.load(f"{stored_path(folder, name)}.npy"), states[name])
        for name in names
    }


def stored_path(folder: Path, name: str) -> Path:
    """Return the path of an environment's files, without the ending."""
    return folder / name.replace("/", " ")


def continue_all(names: list[str], folder: str) -> None:
    """Continue every stored episode; called in a fresh process."""
    for name in names:
        path = stored_path(Path(folder), name)
        with np.load(f"{path}.npz", allow_pickle=False) as arrays:
            state = {"json": json.loads(Path(f"{path}.json").read_text()), "arrays": dict(arrays)}
        host = open_named(name, seed=99)
        assert host.restore(state)
        assert host.num_steps == 11
        np.save(path, run(host, random_actions(150, host.spaces.action_dim, seed=1)))
        host.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MUJOCO, *STATE_METHODS, *REPEATED])
def test_episode_continues_bit_for_bit_in_fresh_process(continued, name):
    here, elsewhere, state = continued[name]
    assert len(np.unique(here[:, 0])) > 100  # the environment moved
    assert elsewhere.tobytes() == here.tobytes()
    assert ("layers" in state["json"]) == (name not in REPEATED)


@pytest.mark.parametrize("name", ["Walker2d-v5", "StateMethods", "Pendulum-v1"])
def test_capture_changes_nothing_and_restore_undoes_later_steps(name):
    host, undisturbed = open_named(name, 1), open_named(name, 1)
    actions = random_actions(60, host.spaces.action_dim)
    assert host.reset().tobytes() == undisturbed.reset().tobytes()
    run(host, actions[:7])
    state = host.capture()
    rows = run(host, actions)
    run(undisturbed, actions[:7])
    assert run(undisturbed, actions).tobytes() == rows.tobytes()
    assert host.restore(state)
    assert host.num_steps == 7
    assert run(host, actions).tobytes() == rows.tobytes()


@pytest.mark.parametrize("num_steps", [0, 5, 30, 47])
@pytest.mark.parametrize(
    "name", ["Toy", "RandomStart", "OwnGenerators", "HiddenGenerator", "UnsupportedState"]
)
def test_repeated_episode_continues_at_any_step(name, num_steps):
    host, other = (open_named(name, seed=4) for _ in range(2))
    host.reset()
    other.reset()
    actions = random_actions(num_steps + 100)
    run(host, actions[:num_steps])
    state = host.capture()
    stored_actions = actions[num_steps // 30 * 30 : num_steps]  # of this episode only
    assert state["arrays"]["actions"].tobytes() == stored_actions.tobytes()
    assert other.restore(state)
    assert run(other, actions[num_steps:]).tobytes() == run(host, actions[num_steps:]).tobytes()


@pytest.mark.parametrize(
    ("make", "derived"),
    [(Toy, False), (RandomStart, False), (StateMethods, False), (HiddenGenerator, True)],
)
def test_later_episodes_have_seeds_only_without_known_generators(make, derived):
    host, seeds = open_env(make, 5), []
    reset = host.env.reset
    host.env.reset = lambda *, seed: (seeds.append(seed), reset(seed=seed))[1]
    for _ in range(4):
        host.reset()
    assert seeds == [5, *(episode_seed(5, i) if derived else None for i in (1, 2, 3))]


def test_seeds_of_different_purposes_differ():
    """A missing word of a seed counts as 0: without a tag the seeds would be the same."""
    numbers = [(seed, step) for seed in range(8) for step in range(0, 4000, 250)]
    makers = (evaluation_seed, episode_seed, restart_seed)
    seeds = [make(*number) for make in makers for number in numbers]
    assert len(set(seeds)) == len(seeds)
    assert evaluation_seed(3, 250) == int(np.random.SeedSequence([3, 250, 0]).generate_state(1)[0])


class Irreproducible(Toy):
    """Every second instance differs in its fourth step."""

    num_instances = 0

    def __init__(self, difference):
        super().__init__()
        type(self).num_instances += 1
        self.difference, self.differs = difference, type(self).num_instances % 2 == 0

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        if self.num_taken == 4 and self.differs:
            if self.difference == "error":
                raise OSError("gone")
            obs = obs + (self.difference == "observation")
            reward = reward - (self.difference == "reward")
            terminated = self.difference == "end"
        return obs, reward, terminated, truncated, info


@pytest.mark.parametrize("difference", ["observation", "reward", "end", "error"])
def test_repetition_that_differs_is_noticed_and_abandoned(difference):
    Irreproducible.num_instances = 0
    host, other = (open_env(lambda: Irreproducible(difference), 4) for _ in range(2))
    host.reset()
    run(host, np.zeros((7, 1), np.float32))
    assert not other.restore(host.capture())
    assert other.num_steps == 7
    expected = open_env(Toy, 4).reset(seed=restart_seed(4, 7))
    assert other.abandon_episode(7).tobytes() == expected.tobytes()


def test_restored_episode_whose_state_becomes_unsupported_does_not_continue():
    host, other, third = (open_env(StateMethods, 4) for _ in range(3))
    host.reset()
    assert other.restore(host.capture())
    other.env.get_state = object
    assert not third.restore(other.capture())
    other.reset()  # recorded from its beginning on
    assert third.restore(other.capture())
    assert run(third, np.zeros((9, 1), np.float32))[:, 0].tobytes() == (
        run(other, np.zeros((9, 1), np.float32))[:, 0].tobytes()
    )


def test_states_of_another_environment_are_refused():
    pendulum, toy, hopper = (open_named(name, 0) for name in ("Pendulum-v1", "Toy", "Hopper-v5"))
    for host in (toy, hopper):
        host.reset()
    with pytest.raises(InputError, match=r"^env: the stored state is of Toy, not Pendulum-v1$"):
        pendulum.restore(toy.capture())
    shorter = open_env("Hopper-v5", 0, obs_keep=3)
    shorter.reset()
    with pytest.raises(InputError, match=r"3 wrappers, the environment has 2"):
        hopper.restore(shorter.capture())
    state = hopper.capture()
    state["json"]["layers"][-1]["mujoco"]["version"] = "2.0.0"
    with pytest.raises(InputError, match=r"^mujoco: .* install mujoco==2.0.0 to continue$"):
        hopper.restore(state)
    state = hopper.capture()
    state["arrays"]["mujoco.derived.qpos"] = np.zeros(3)
    with pytest.raises(InputError, match=r"^env: the stored state is of another MuJoCo model"):
        hopper.restore(state)
