"""Environments on the host: seeds, faults, sources, arguments."""

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled
from gymnasium.spaces import Box

from narl.deep import env_faults
from narl.deep.environment import open_env
from narl.deep.make_environment import UserEnvironment
from narl.errors import EnvironmentFault, InputError


class Toy(gymnasium.Env):
    """An environment that stays where it is and remembers the actions."""

    def __init__(self, obs_space=None, action_space=None):
        self.observation_space = obs_space or Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = action_space or Box(-1.0, 1.0, (1,))
        self.actions = []
        self.closed = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.low.clip(min=0), {}

    def step(self, action):
        self.actions.append(action)
        return np.zeros(2), 0.0, False, False, {}

    def close(self):
        self.closed = True


def test_seed_decides_first_episode_and_later_ones():
    def first_observations(seed):
        host = open_env("Hopper-v5", seed)
        return [host.reset().tolist() for _ in range(2)]

    assert first_observations(5) == first_observations(5)
    assert first_observations(5) != first_observations(6)
    assert first_observations(5)[0] != first_observations(5)[1]
    assert open_env("Hopper-v5", 6).reset(seed=5).tolist() == first_observations(5)[0]


def test_missing_pygame_is_named_with_the_extra_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    host = open_env("MountainCarContinuous-v0", 0, render_mode="rgb_array")
    host.reset()
    line = r'render: pygame is not installed; pip install -c constraints\.txt "\.\[video\]" in'
    with pytest.raises(InputError, match=line):
        host.render()


# --- faults -----------------------------------------------------------------------------------


class Faulty(Toy):
    """Returns or raises something else at its third step."""

    def __init__(self, **changes):
        super().__init__()
        self.changes = changes

    def step(self, action):
        names = ("obs", "reward", "terminated", "truncated", "info")
        result = dict(zip(names, super().step(action), strict=True))
        if len(self.actions) == 3:
            if "error" in self.changes:
                raise self.changes["error"]
            if "result" in self.changes:
                return self.changes["result"]
            result |= self.changes
        return tuple(result.values())


def third_step(**changes):
    host = open_env(lambda: Faulty(**changes), 0)
    host.reset()
    return [host.step(np.zeros(1, np.float32)) for _ in range(3)][2]


def steps_of(make_env, num_steps):
    host = open_env(make_env, 0)
    host.reset()
    return [host.step(np.zeros(1, np.float32)) for _ in range(num_steps)]


FAULTS = {
    "ValueError: no such thing": {"error": ValueError("no such thing\nsecond line")},
    "KeyError": {"error": KeyError()},
    "observation[1] is nan": {"obs": np.array([0.0, np.nan])},
    "observation[0] is 1e+300, which float32 cannot hold": {"obs": np.array([1e300, 0.0])},
    "observation has shape (3,), expected (2,)": {"obs": np.zeros(3)},
    "observation is a dict of object, not an array of numbers": {"obs": {"a": 1}},
    "reward is inf": {"reward": np.float32(np.inf)},
    "reward is 1e+39, which float32 cannot hold": {"reward": 1e39},
    "reward is None, not a number": {"reward": None},
    "reward is array([1., 2.]), not a number": {"reward": np.array([1.0, 2.0])},
    "reward is '3', not a number": {"reward": "3"},
    "terminated is None, not a boolean": {"terminated": None},
    "truncated is 'no', not a boolean": {"truncated": "no"},
    "terminated is 0.5, not a boolean": {"terminated": 0.5},
    "terminated is array([False,  True]), not a boolean": {"terminated": np.array([False, True])},
    "truncated is [[0], [0, 1]], not a boolean": {"truncated": [[0], [0, 1]]},
    "step() must return (observation, reward, terminated, truncated, info)": {
        "result": (np.zeros(2), 0.0, False, {})
    },
}


@pytest.mark.parametrize("cause", FAULTS)
def test_fault_of_environment_is_named(cause):
    with pytest.raises(EnvironmentFault) as fault:
        third_step(**FAULTS[cause])
    assert str(fault.value) == f"Faulty (seed 0, training): step 3: {cause}"


@pytest.mark.parametrize("reward", [1, True, np.float32(1.0), np.array([1.0]), np.array(1)])
def test_reward_of_any_numeric_type_is_float(reward):
    step = third_step(reward=reward)
    assert (step.reward, type(step.reward)) == (1.0, float)


@pytest.mark.parametrize("kind", [bool, int, float, np.bool_, np.int8, np.array, lambda x: [x]])
@pytest.mark.parametrize("value", [False, True])
def test_flag_of_any_plain_type_is_boolean(kind, value):
    step = third_step(terminated=kind(value), truncated=kind(not value))
    assert (step.terminated, step.truncated) == (value, not value)
    assert type(step.terminated) is bool


class Unpacking(gymnasium.Wrapper):
    """A wrapper of a user that takes the result of a step apart."""

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated, info


class Misspelt(gymnasium.Wrapper):
    """A wrapper with a fault of its own."""

    def step(self, action):
        one, two = (1,)
        return self.env.step((one, two))


@pytest.mark.parametrize("result", [(np.zeros(2), 0.0, False, {}), (0,) * 6, None])
def test_wrong_result_of_a_step_is_named_inside_a_wrapper_of_gymnasium(result):
    def make():
        return gymnasium.wrappers.TimeLimit(Faulty(result=result), 9)

    with pytest.raises(EnvironmentFault) as fault:
        steps_of(make, 3)
    assert str(fault.value) == (
        "Faulty (seed 0, training): step 3: step() must return "
        "(observation, reward, terminated, truncated, info)"
    )


def test_wrong_result_of_a_step_is_told_apart_from_faults_of_wrappers():
    four = (np.zeros(2), 0.0, False, {})
    with pytest.raises(EnvironmentFault, match=r"step 3: step\(\) must return \(observation, rew"):
        steps_of(lambda: Unpacking(Faulty(result=four)), 3)
    with pytest.raises(EnvironmentFault, match=r"step 1: ValueError: not enough .*expected 2"):
        steps_of(lambda: Misspelt(Toy()), 1)


def test_failing_reset_is_named():
    class Broken(Toy):
        def reset(self, *, seed=None, options=None):
            raise OSError("no display")

    class OldReset(Toy):
        def reset(self, *, seed=None, options=None):
            return np.zeros(2)

    with pytest.raises(EnvironmentFault) as fault:
        open_env(Broken, 3, role="evaluation").reset()
    assert str(fault.value) == "Broken (seed 3, evaluation): reset: OSError: no display"
    with pytest.raises(EnvironmentFault, match=r"^OldReset .* reset: reset\(\) must return"):
        open_env(OldReset, 0).reset()


def test_failing_constructor_and_exit_are_named():
    class Unmade(Toy):
        def __init__(self):
            raise OSError("no display")

    class Leaving(Toy):
        def step(self, action):
            raise SystemExit("enough")

    with pytest.raises(EnvironmentFault) as fault:
        open_env(Unmade, 0)
    assert str(fault.value) == "env: the environment cannot be made: OSError: no display"
    host = open_env(Leaving, 0)
    host.reset()
    with pytest.raises(EnvironmentFault, match=r"step 1: SystemExit: enough$"):
        host.step(np.zeros(1, np.float32))


def test_failing_close_is_logged_only(caplog):
    class Stuck(Toy):
        def close(self):
            raise OSError("no display")

    open_env(Stuck, 0).close()
    assert [record.message for record in caplog.records] == [
        "Stuck (seed 0, training): close: OSError: no display"
    ]


def test_action_that_is_not_finite_is_named():
    host = open_env(Toy, 0)
    host.reset()
    with pytest.raises(EnvironmentFault, match=r"step 1: the policy's action\[0\] is nan$"):
        host.step(np.array([np.nan], np.float32))


# --- observations outside their bounds --------------------------------------------------------


class Drifting(Toy):
    """Shows the numbers that it is given, one observation after the other."""

    def __init__(self, seen, low=(0.0, 10.0), high=(1.0, 20.0)):
        bounds = np.array(low, np.float64), np.array(high, np.float64)
        super().__init__(Box(*bounds, dtype=np.float64))
        self.seen = [np.array(obs) for obs in seen]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.seen[0], {}

    def step(self, action):
        self.actions.append(action)
        return self.seen[len(self.actions)], 0.0, False, False, {}


@pytest.fixture
def warnings_of(caplog, monkeypatch):
    """Return the lines that are logged while environments show these observations."""
    monkeypatch.setattr(env_faults, "_warned", set())

    def lines(*seen, num_envs=1, scaling="bounds", **bounds):
        caplog.clear()
        for seed in range(num_envs):
            host = open_env(lambda: Drifting(seen, **bounds), seed, scaling=scaling)
            host.reset()
            for _ in seen[1:]:
                host.step(np.zeros(1, np.float32))
        return caplog.messages

    return lines


def test_first_observation_outside_its_bounds_is_logged_once(warnings_of):
    inside, outside = (0.5, 15.0), (0.5, 23.5)
    assert warnings_of(inside, inside, outside, outside, (-7.0, 15.0), num_envs=3) == [
        "Drifting (seed 0, training): step 2: observation[1] is 23.5, outside its bounds [10, 20], "
        "by which it is scaled; correct the bounds in observation_space"
    ]
    assert warnings_of(inside, outside) == []  # said before
    assert warnings_of((-0.5, 4.0), low=(0, 5)) == [  # other bounds
        "Drifting (seed 0, training): reset: observation[0] is -0.5, outside its bounds [0, 1], "
        "by which it is scaled; correct the bounds in observation_space"
    ]


@pytest.mark.parametrize(
    ("obs", "changes"),
    [
        ((1.0009, 9.991), {}),  # within a thousandth of the range
        ((0.5, 23.5), {"scaling": "none"}),  # the bounds are not used
        ((7.0, 15.0), {"low": (-np.inf, 10.0)}),
        ((7.0, 15.0), {"high": (np.inf, 20.0)}),
        ((7.0, 15.0), {"low": (0.0, 10.0), "high": (0.0, 20.0)}),  # a range of 0 is no scale
        # on its bound, but float32 rounds the middle of the bounds, 2^24 + 3, to 2^24 + 4
        ((0.5, 2.0**24 + 2), {"low": (0.0, 2.0**24 + 2), "high": (1.0, 2.0**24 + 4)}),
    ],
)
def test_observation_outside_bounds_that_do_not_matter_is_not_logged(warnings_of, obs, changes):
    assert warnings_of(obs, **changes) == []


def test_observation_a_little_beyond_the_tolerance_is_logged(warnings_of):
    assert len(warnings_of((1.0011, 15.0))) == 1


@pytest.mark.parametrize(
    "env_id",
    [
        *("Pendulum-v1", "MountainCarContinuous-v0", "CartPole-v1", "Acrobot-v1", "MountainCar-v0"),
        *("narl/SparsePendulum-v0", "narl/SparseCartPole-v0", "narl/SparseReacher-v0"),
        *("narl/SparseArmReacher-v0", "narl/Pusher-v0", "narl/HalfCheetah-v0", "Hopper-v5"),
    ],
)
def test_known_environments_stay_within_their_bounds(env_id, caplog, monkeypatch):
    monkeypatch.setattr(env_faults, "_warned", set())
    host, draw = open_env(env_id, 0), np.random.default_rng(0)
    host.reset()
    for step in range(300):
        size = 1.0 if step < 150 else draw.uniform(-1, 1, host.spaces.action_dim)
        result = host.step(np.full(host.spaces.action_dim, size, np.float32))
        if result.terminated or result.truncated:
            host.reset()
    host.close()
    assert caplog.messages == []


# --- sources and arguments --------------------------------------------------------------------


def test_actions_have_environments_shape_dtype_and_bounds():
    box = Box(np.array([[0], [-6]], np.int16), np.array([[4], [6]], np.int16), dtype=np.int16)
    host = open_env(lambda: Toy(Box(0, 200, (2,), np.uint8), box), 0)
    assert host.reset().tolist() == [-1, -1]
    host.step(np.array([-1, 0.5], np.float32))
    (action,) = host.env.actions
    assert action.dtype == np.int16
    assert action.tolist() == [[0], [3]]


def test_observations_are_scaled_by_bounds_unless_switched_off():
    scaled, plain = open_env("Pendulum-v1", 0), open_env("Pendulum-v1", 0, scaling="none")
    assert (plain.reset() / scaled.reset()).tolist() == pytest.approx([1, 1, 8])


def test_time_limit_is_known():
    assert open_env(Toy, 0).time_limit is None
    assert open_env("Pendulum-v1", 0, {"max_episode_steps": 7}).time_limit == 7


def test_missing_box2d_is_an_extra_of_narl(monkeypatch):
    def fail(*args, **kwargs):
        raise DependencyNotInstalled("Box2D is not installed, you can install it by run `pip`")

    monkeypatch.setattr(gymnasium, "make", fail)
    line = r'^env: LunarLander-v3 cannot be made: Box2D is not installed; pip install .*\[box2d\]"'
    with pytest.raises(InputError, match=line):
        open_env("LunarLander-v3", 0, {})


@pytest.mark.parametrize(
    ("env", "kwargs", "line"),
    [
        ("Hopper", {}, r"env: unknown environment 'Hopper'; did you mean 'Hopper-v5'\?$"),
        ("Hopper-v2", {}, r"env: unknown environment 'Hopper-v2'; did you mean 'Hopper-v5'\?$"),
        (
            "toy_worlds:Broken-v7",
            {},
            "env: unknown environment 'toy_worlds:Broken-v7'; did you mean 'toy_worlds:Broken-v",
        ),
        (
            "toy_worlds:Qqqqqqqq-v7",
            {},
            "env: unknown environment 'toy_worlds:Qqqqqqqq-v7'; the module 'toy_worlds' does not "
            "register it$",
        ),
        ("no_such:Hopper-v5", {}, "env: cannot import 'no_such': No module named 'no_such'"),
        ("toy_worlds.py:Toy-v0", {}, "env: cannot import 'toy_worlds.py': .*; write toy_worlds:, "),
        ("narl/DeepSea-v0", {}, r"env: narl/DeepSea-v0 has Discrete\(\d+\) observations"),
        ("Hopper-v5", {"colour": 1}, "env: Hopper-v5 cannot be made: .*'colour'"),
        (Toy, {"colour": 1}, r"env: the function .* does not take colour \("),
        (lambda: 3, {}, "env: the function returned a int; it must return a gymnasium.Env$"),
        (3, {}, "env: int is neither an id nor a function"),
    ],
)
def test_environment_that_cannot_be_opened_is_refused(env, kwargs, line):
    with pytest.raises(InputError, match=f"^{line}"):
        open_env(env, 0, kwargs)


def test_faults_of_a_module_and_of_a_constructor_are_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "divides.py").write_text("1 / 0")
    line = "env: cannot import 'divides': ZeroDivisionError: division by zero$"
    with pytest.raises(InputError, match=line):
        open_env("divides:Toy-v0", 0)

    def make(**kwargs):
        raise MemoryError

    gymnasium.register("Large-v0", entry_point=make)
    try:
        with pytest.raises(InputError, match=r"env: Large-v0 cannot be made: MemoryError$"):
            open_env("Large-v0", 0)
    finally:
        del gymnasium.registry["Large-v0"]


def test_line_about_a_missing_module_says_whether_the_current_folder_was_searched(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.py").write_text("import no_such")
    line = "^env: cannot import '{}': No module named 'no_such'{}$"
    with pytest.raises(InputError, match=line.format("no_such", "")):
        open_env("no_such:Toy-v0", 0)
    monkeypatch.syspath_prepend(tmp_path)
    searched = "; the current folder was searched too"
    with pytest.raises(InputError, match=line.format("no_such", searched)):
        open_env("no_such:Toy-v0", 0)
    with pytest.raises(InputError, match=line.format("there", "")):
        open_env("there:Toy-v0", 0)


def test_obs_keep_is_checked():
    with pytest.raises(InputError, match=r"^obs_keep: 12 is out of range; Hopper-v5 has 11"):
        open_env("Hopper-v5", 0, obs_keep=12)
    assert open_env("Hopper-v5", 0, obs_keep=3).reset().shape == (3,)


def test_instance_of_user_stays_open_and_copies_are_closed():
    source = UserEnvironment(Toy())
    training, evaluation = (open_env(source, 0, role=role) for role in ("training", "evaluation"))
    assert training.env is source.instance
    assert type(evaluation.env) is Toy
    for host in (training, evaluation):
        host.close()
    assert (training.env.closed, evaluation.env.closed) == (False, True)
    refused = UserEnvironment(Toy())
    with pytest.raises(InputError, match="obs_keep"):
        open_env(refused, 0, obs_keep=7)
    assert not refused.instance.closed


class Uncopyable(Toy):
    def __deepcopy__(self, memo):
        raise TypeError("cannot copy a simulator")


def test_instance_that_cannot_be_copied_is_made_from_its_specification():
    with pytest.raises(InputError, match="env: Uncopyable can neither be copied nor made anew"):
        UserEnvironment(Uncopyable()).make("evaluation")
    registered = gymnasium.make("Pendulum-v1")
    registered.unwrapped.handle = (number for number in ())  # a generator cannot be copied
    copy = UserEnvironment(registered).make("evaluation")
    assert copy.spec.id == "Pendulum-v1"
    assert copy.unwrapped is not registered.unwrapped
    line = r"render_mode=None and cannot be made anew with 'rgb_array'; give a function"
    with pytest.raises(InputError, match=line):
        UserEnvironment(Toy()).make("evaluation", render_mode="rgb_array")


def test_termination_of_unchanged_preset_is_known():
    wrapped = gymnasium.wrappers.TransformObservation(
        gymnasium.make("Hopper-v5"), lambda obs: 2 * obs, None
    )
    changed = gymnasium.make("Hopper-v5", healthy_z_range=(0.5, 2.0))
    for env, known in [
        (gymnasium.make("Hopper-v5"), True),
        (lambda: gymnasium.make("Hopper-v5"), True),
        (wrapped, False),
        (changed, False),
        (Toy(), False),
    ]:
        assert (UserEnvironment(env).termination is not None) == known


def test_opening_writes_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_env("HalfCheetah-v4", 0).close()
    assert list(tmp_path.iterdir()) == []
