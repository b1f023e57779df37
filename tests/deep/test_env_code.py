"""The code of a user's environment is part of what a found run or a checkpoint is compared with."""

import logging
import shutil
import sys

import gymnasium
import pytest
from quick_trainings import quick_agent, quick_config, train, train_until

import narl
import toy_worlds
from narl import cli, storage
from narl.commands.arguments import as_typed
from narl.commands.eval import Eval
from narl.deep.config import ENV_CODE
from narl.deep.env_code import current_env_code, env_code, env_module_problem
from narl.errors import InputError

slow = pytest.mark.slow
SOURCE = """
import gymnasium
import numpy as np
from toy_worlds import Toy

class Mine(Toy):
    bonus = 0.0

    def step(self, action):
        obs, reward, *others = super().step(action)
        return obs, reward + self.bonus, *others

gymnasium.register("Mine-v0", entry_point=Mine, max_episode_steps=30)
"""
CONFIG = quick_config(env="my_envs:Mine-v0")


@pytest.fixture
def write_env(tmp_path, monkeypatch):
    """Write the module my_envs with another bonus, as if a new process imported it."""
    monkeypatch.syspath_prepend(tmp_path / "modules")
    (tmp_path / "modules").mkdir()

    def write(bonus: str) -> None:
        forget()
        source = SOURCE.replace("bonus = 0.0", f"bonus = {bonus}")
        (tmp_path / "modules" / "my_envs.py").write_text(source)

    def forget() -> None:
        sys.modules.pop("my_envs", None)
        gymnasium.registry.pop("Mine-v0", None)
        shutil.rmtree(tmp_path / "modules" / "__pycache__", ignore_errors=True)

    yield write
    forget()


def test_environments_of_gymnasium_and_narl_have_no_code_of_their_own():
    for name in ("Pendulum-v1", "narl/SparsePendulum-v0"):
        with gymnasium.make(name) as env:
            assert env_code(env) == ""
        assert current_env_code(quick_config(env=name)) == ""


def test_code_spaces_and_arguments_of_an_environment_are_hashed(write_env, monkeypatch):
    codes = []
    for bonus in ("0.0", "1.0", "0.0"):
        write_env(bonus)
        codes.append(current_env_code(CONFIG))
    assert codes[0] == codes[2] != codes[1]
    env = gymnasium.make("Mine-v0")
    assert env_code(env) == codes[0]
    env.unwrapped.action_space = gymnasium.spaces.Box(-3.0, 3.0, (1,))
    assert env_code(env) != codes[0]
    assert current_env_code(CONFIG, toy_worlds.Toy) not in ("", *codes)


@slow
def test_run_of_other_code_is_set_aside_with_a_loud_line(write_env, tmp_path, caplog, cache):
    root = tmp_path / "runs"
    write_env("0.0")
    first = train(CONFIG, root)
    assert train(CONFIG, root).metrics == first.metrics
    write_env("1000.0")
    assert train(CONFIG, root, any_code=True).metrics == first.metrics
    assert caplog.messages == []
    with caplog.at_level(logging.WARNING, "narl"):
        second = train(CONFIG, root)
    (line,) = caplog.messages
    (aside,) = (run for run in storage.list_runs(root) if run.id != first.id)
    assert f"has CHANGED since run {first.id} was made: that run is now {aside.id}" in line
    assert aside.metrics == first.metrics
    assert second.id == first.id
    assert second.metrics["final_return"][0] > first.metrics["final_return"][0] + 1000
    assert [run.problems for run in storage.list_runs(root)] == [(), ()]


@slow
def test_policy_is_evaluated_in_changed_code_with_one_warning(write_env, tmp_path, caplog, cache):
    write_env("0.0")
    run = train(CONFIG, tmp_path / "runs")
    returns = []
    for bonus in ("0.0", "1000.0"):
        write_env(bonus)
        caplog.clear()
        agent = narl.load(run.path, trust_env_module=True)
        returns += [agent.evaluate(1).returns[0] for _ in range(2)]
        lines = [line for line in caplog.messages if "has changed since this policy" in line]
        assert len(lines) == (0 if bonus == "0.0" else 1)
    assert returns[2] > returns[0] + 1000
    # An environment that is given is not taken for the one of the training.
    caplog.clear()
    narl.load(run.path, env="my_envs:Mine-v0", trust_env_module=True).evaluate(1)
    assert "has changed since" not in caplog.text


@slow
def test_checkpoint_of_other_code_is_refused_unless_asked_for(write_env, tmp_path, caplog, cache):
    root = tmp_path / "runs"
    write_env("0.0")
    train_until(30, [CONFIG], root)
    write_env("1000.0")
    line = r"^env: the code of my_envs:Mine-v0 has changed since this training began; begin anew"
    with pytest.raises(InputError, match=line):
        train(CONFIG, root)
    codes = []
    for bonus in ("1000.0", "0.0"):
        write_env(bonus)
        codes.append(current_env_code(CONFIG))
    write_env("1000.0")
    run = train(CONFIG, root, any_code=True)
    assert run.environment[ENV_CODE] == f"{codes[1]}+{codes[0]}"
    assert "it goes on with the new code" in caplog.text


@slow
def test_checkpoints_of_another_seed_are_refused(tmp_path, cache):
    configs = [quick_config(seeds=(seed,)) for seed in (0, 1)]
    for config in configs:
        train_until(30, [config], tmp_path)
    own, other = (tmp_path / f"{config.run_id}.part" for config in configs)
    shutil.rmtree(own / "checkpoints")
    for name in ("checkpoints", "progress.jsonl"):
        copy = shutil.copytree if name == "checkpoints" else shutil.copy
        copy(other / name, own / name)
    line = f"is of run {configs[1].run_id}, not of {configs[0].run_id}"
    for read in (lambda: train(configs[0], tmp_path), lambda: narl.load(own)):
        with pytest.raises(InputError, match=line):
            read()
    assert storage.open_unfinished_run(own).problems[1] == f"step-000000030 {line}"


@slow
def test_saved_agent_does_not_learn_from_the_data_of_another(tmp_path, caplog, cache):
    folders = [
        quick_agent(seed=seed).learn(60).save(tmp_path / str(seed), data=True) for seed in (1, 2)
    ]
    shutil.rmtree(folders[0] / "checkpoints")
    shutil.copytree(folders[1] / "checkpoints", folders[0] / "checkpoints")
    agent = narl.load(folders[0])
    assert "the policy is loaded, but cannot learn" in caplog.text
    assert "is of run" in caplog.text
    with pytest.raises(InputError, match="learn: the data that were saved are damaged"):
        agent.learn(20)


# --- modules that a run names -----------------------------------------------------------------


def test_modules_that_are_imported_or_known_are_no_problem():
    for env_id in ("Pendulum-v1", "narl/SparsePendulum-v0", "toy_worlds:Toy-v0", "gymnasium:X-v0"):
        assert env_module_problem(env_id) == ""
    problem = env_module_problem("evil:X-v0")
    assert "would import the module 'evil'" in problem
    typed = as_typed(Eval, problem)
    assert typed.endswith("add --trust-env-module (in Python: trust_env_module=True)")


@slow
def test_module_is_imported_only_if_it_is_typed_or_trusted(write_env, tmp_path, cache):
    root = tmp_path / "runs"
    write_env("0.0")
    run = train(CONFIG, root)
    train_until(30, [other := quick_config(env=CONFIG.env, seeds=(5,))], root)
    part = root / f"{other.run_id}.part"
    write_env("0.0")
    agent = narl.load(run.path)
    with pytest.raises(
        InputError, match=r"would import the module 'my_envs'; .*--trust-env-module"
    ):
        agent.evaluate(1)
    with pytest.raises(InputError, match="would import the module"):
        narl.load(part)
    assert cli.main(["resume", part.name, "--runs", str(root)]) == 2
    assert cli.main(["eval", run.id, "--episodes=1", "--runs", str(root)]) == 2
    assert "my_envs" not in sys.modules
    assert narl.load(part, env=CONFIG.env).num_steps == 30
    write_env("0.0")
    assert narl.load(run.path, trust_env_module=True).evaluate(1).returns
    write_env("0.0")
    words = ["resume", part.name, "--runs", str(root), "--trust-env-module", "--json"]
    assert cli.main(words) == 0
