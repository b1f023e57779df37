"""The environments of all replicas: processes give the same bits, and their faults a line."""

import contextlib
import os
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from quick_trainings import quick_config
from tiny import affine_actor, assert_same

from narl import cli
from narl.deep import env_faults, environment_pool
from narl.deep.env_process import pack_message, unpack_message
from narl.deep.environment import EnvRecipe
from narl.deep.environment_pool import (
    Environments,
    Episodes,
    WorkerEnvironments,
    can_move,
    open_environments,
)
from narl.deep.trainer import Trainer
from narl.deep.user_parts import UserParts
from narl.errors import EnvironmentFault, InputError

SEEDS = (3, 4, 5)
HOPPER = EnvRecipe("Hopper-v5", {"terminate_when_unhealthy": True}, "none", 5)
BAD = """
import time
import gymnasium
import numpy as np
from gymnasium.spaces import Box

class Bad(gymnasium.Env):
    observation_space = action_space = Box(-1.0, 1.0, (1,))

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        if action[0] > 0.5:
            time.sleep(60)
        if action[0] < -0.5:
            import os
            os._exit(7)
        raise ValueError("out of ink")

gymnasium.register("Bad-v0", Bad)
"""
DRIFTING = """
import gymnasium
import numpy as np
from bad_worlds import Bad

class Drifting(Bad):
    def step(self, action):
        return np.full(1, 3.0, np.float32), 0.0, False, False, {}

    def close(self):
        raise OSError("no display")

gymnasium.register("Drifting-v0", Drifting)
"""
SLOW = """
import os
import time
import gymnasium
from bad_worlds import Bad

class Slow(Bad):
    def __init__(self):
        if CONDITION:
            time.sleep(60)

gymnasium.register(f"Slow-{__name__}-v0", Slow)
"""


@pytest.fixture
def opened():
    """Close everything that is entered."""
    with contextlib.ExitStack() as stack:
        yield lambda envs: stack.enter_context(contextlib.closing(envs))


@pytest.fixture
def bad_env(tmp_path, monkeypatch):
    """Return the recipe of an environment in a module of the current folder that misbehaves."""
    (tmp_path / "bad_worlds.py").write_text(BAD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    return EnvRecipe("bad_worlds:Bad-v0")


def play(envs, num_steps):
    """Return everything that is observed with fixed actions, as a list of arrays."""
    draw = np.random.default_rng(0)
    seen = [envs.reset()]
    dim = envs.example.spaces.action_dim
    for step in range(num_steps):
        replicas = (0, 1, 2) if step % 3 else (0, 2)  # replica 1 rests now and then
        actions = {i: draw.uniform(-1, 1, dim).astype(np.float32) for i in replicas}
        outcomes = envs.step(actions)
        assert list(outcomes) == list(replicas)
        seen += [np.hstack(outcome) for outcome in outcomes.values()]
    return seen


@pytest.mark.slow
def test_worker_processes_give_the_same_bits_and_exchange_states(opened):
    here = opened(Environments(HOPPER, SEEDS))
    there = opened(WorkerEnvironments(HOPPER, SEEDS, num_workers=2))
    assert_same(play(there, 40), play(here, 40))
    assert any(row[-6] for row in play(here, 40)[1:])  # an episode ended
    actor = jax.tree.map(np.asarray, affine_actor(np.full((5, 3), 0.3), np.zeros(3)))
    episodes = {2: Episodes(actor, 2, 7, 30), 0: Episodes(actor, 2, 8, 30)}
    assert there.evaluate(episodes) == here.evaluate(episodes)
    assert_same(there.first_observations({1: 5}, 3), here.first_observations({1: 5}, 3))
    states = there.capture()
    again = opened(Environments(HOPPER, SEEDS))
    assert all(again.restore(i, state) for i, state in enumerate(states))
    action = {i: np.full(3, 0.1, np.float32) for i in range(3)}
    assert_same(again.step(action), there.step(action))
    assert there.restore(1, states[1])
    assert_same(there.abandon_episode(2, 77), again.abandon_episode(2, 77))


@pytest.mark.slow
def test_training_with_worker_processes_has_the_same_bits(cache):
    config = quick_config(seeds=(1, 2))
    trained = []
    for workers in (0, 2):
        with contextlib.closing(Trainer([config], UserParts(env_workers=workers))) as trainer:
            rows = [trainer.step() for _ in range(config.steps)]
            kind = type(trainer.envs)
            trained.append((kind, trainer.to_host(), [row["eval_return"] for row in rows if row]))
    assert [kind for kind, *_ in trained] == [Environments, WorkerEnvironments]
    assert_same(trained[0][1:], trained[1][1:])


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (0.0, r"Bad-v0 \(seed 3, training\): step 1: ValueError: out of ink"),
        (1.0, r"Bad-v0 \(seed 3\): no answer within 0.5 s: the environment hangs, or"),
        (-1.0, r"Bad-v0 \(seed 3\): the process of the environment ended with status 7"),
    ],
)
def test_faults_in_a_process_are_named(opened, bad_env, action, message):
    envs = opened(WorkerEnvironments(bad_env, (3,), num_workers=4))
    envs.reset()
    envs._place[0][0]._timeout = 0.5
    with pytest.raises(EnvironmentFault, match=message):
        envs.step({0: np.full(1, action, np.float32)})


def test_observations_outside_their_bounds_are_logged_once_for_all_processes(
    bad_env, caplog, capfd, monkeypatch
):
    monkeypatch.setattr(env_faults, "_warned", set())
    Path("drifting_worlds.py").write_text(DRIFTING)
    envs = WorkerEnvironments(EnvRecipe("drifting_worlds:Drifting-v0"), SEEDS, num_workers=2)
    with contextlib.closing(envs):
        envs.reset()
        for _ in range(2):
            outcomes = envs.step(dict.fromkeys(range(3), np.zeros(1, np.float32)))
        assert [outcome.next_obs.tolist() for outcome in outcomes.values()] == [[3.0]] * 3
        assert caplog.messages == [
            "Drifting-v0 (seed 3, training): step 1: observation[0] is 3, outside its bounds "
            "[-1, 1], by which it is scaled; correct the bounds in observation_space"
        ]
    # A process whose training has closed prints what it has to say.
    lines = capfd.readouterr().err.splitlines()
    assert "Drifting-v0 (seed 5, training): close: OSError: no display" in lines
    assert "outside" not in "".join(lines)


def test_environment_that_cannot_be_made_is_refused_and_leaves_no_process(bad_env):
    with pytest.raises(InputError, match="env: unknown environment 'bad_worlds:Worse-v0'"):
        WorkerEnvironments(EnvRecipe("bad_worlds:Worse-v0"), (3,), num_workers=1)
    envs = WorkerEnvironments(bad_env, (3,), num_workers=1)
    pid, begin = envs._place[0][0]._process.pid, time.monotonic()
    envs.close()
    assert time.monotonic() - begin < 5
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.slow
def test_processes_are_used_where_they_help_and_can_make_the_environment(opened, monkeypatch):
    monkeypatch.setattr(environment_pool, "num_cores", lambda: 4)
    recipe = EnvRecipe("Pendulum-v1")

    def kind(recipe, seeds, **options):
        return type(opened(open_environments(recipe, seeds, **options)))

    assert kind(recipe, (1, 2), spare=True) is WorkerEnvironments
    assert kind(recipe, (1, 2), spare=False) is Environments
    assert kind(recipe, (1,), spare=True) is Environments
    assert kind(recipe, (1,), timeout=9.0) is WorkerEnvironments
    assert kind(recipe, (1, 2), spare=True, num_workers=0) is Environments
    for refused in ((EnvRecipe(lambda: None), None), (recipe, 0)):
        with pytest.raises(InputError, match="env_timeout: it needs an environment that another"):
            open_environments(refused[0], (1,), timeout=9.0, num_workers=refused[1])
    assert can_move(EnvRecipe("narl/SparsePendulum-v0"))
    assert not can_move(EnvRecipe(lambda: None))


def test_messages_hold_values_and_arrays():
    value = [None, 1.5, "ü", (1, 2), {"a": np.arange(3.0)}, float("inf"), np.float32(2)]
    again = unpack_message(pack_message(value))
    np.testing.assert_array_equal(again[4].pop("a"), value[4].pop("a"))
    assert again == value


@pytest.mark.slow
def test_training_with_an_environment_that_hangs_ends_with_one_line(bad_env, cache, capsys):
    text = BAD.replace("if action[0] > 0.5:", "if True:").replace("Bad", "Hanging")
    Path("stuck_worlds.py").write_text(text)
    begin = ["train", "stuck_worlds:Hanging-v0", "--algo", "sac", "--steps", "1200"]
    status = cli.main([*begin, "--env-timeout", "3", "--runs", "runs"])
    lines = capsys.readouterr().err.splitlines()
    assert status == 1
    (line,) = [line for line in lines if "no answer within 3 s" in line]
    assert "Hanging-v0 (seed 0): no answer within 3 s: the environment hangs" in line
    for option, value in (
        ("--env-timeout", "0"),
        ("--env-timeout", "inf"),
        ("--env-workers", "-1"),
    ):
        assert cli.main([*begin, option, value]) == 2
        assert f"{option}: {value} given; it must be" in capsys.readouterr().err


@pytest.mark.parametrize("hangs_here", [True, False])
def test_environment_whose_making_hangs_is_cut_off(bad_env, hangs_here):
    # In this process, or only in the other processes.
    condition = f"(os.getpid() == {os.getpid()}) == {hangs_here}"
    module = f"slow_worlds_{hangs_here}"
    Path(f"{module}.py").write_text(SLOW.replace("CONDITION", condition))
    name = f"Slow-{module}-v0"
    message = rf"^{name} \(seed 3\): no answer within 2 s: the environment hangs, or the time-out"
    if hangs_here:
        message = f"^{module}:{name}: it is not made within 2 s: __init__ hangs, or the time-out"
    begin = time.monotonic()
    with pytest.raises(EnvironmentFault, match=message):
        WorkerEnvironments(EnvRecipe(f"{module}:{name}"), (3,), num_workers=1, timeout=2.0)
    assert time.monotonic() - begin < 30


@pytest.mark.slow
def test_slow_start_of_a_process_is_no_fault_of_the_environment(bad_env, opened):
    # Python runs this file first.
    is_worker = 'any("env_worker" in word for word in sys.orig_argv)'
    Path("sitecustomize.py").write_text(f"import sys, time\nif {is_worker}:\n    time.sleep(4)")
    envs = opened(WorkerEnvironments(bad_env, (3,), num_workers=1, timeout=3.0))
    assert envs.reset().tolist() == [[0.0]]
