"""Saved agents: with and without data, damaged, in foreign folders, with other spaces."""

import logging

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box
from quick_trainings import actions_of, quick_agent, quick_config, train, train_until

import narl
import toy_worlds
from narl.errors import InputError
from short_trainings import ENV, flip_bit

slow = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(untrained, tmp_path_factory):
    """The folder of an agent that has learned nothing; tests must not change it."""
    return untrained.save(tmp_path_factory.mktemp("saved") / "agent")


@slow
def test_loaded_agent_predicts_the_same_bits(learned, tmp_path):
    path = learned.save(tmp_path / "agent")
    assert sorted(file.name for file in path.iterdir()) == [
        *("arrays.npz", "config.json", "environment.json", "manifest.json", "metrics.json"),
        "progress.jsonl",
    ]
    agent = narl.load(path)
    assert type(agent) is narl.SAC
    assert (agent.seeds, agent.num_steps, agent.config) == ((3, 8), 60, learned.config)
    assert agent.history == learned.history
    for seed in (3, 8):
        assert actions_of(agent, seed) == actions_of(learned, seed)
    assert agent.evaluate(2) == learned.evaluate(2)
    again = agent.save(tmp_path / "again")
    assert actions_of(narl.load(again)) == actions_of(learned)
    arrays, expected = (narl.storage.load_run_at(each).arrays() for each in (again, path))
    assert sorted(arrays) == sorted(expected)
    with pytest.raises(InputError, match="learn: no data were saved; save with data=True, or make"):
        agent.learn(20)


def test_agent_that_learned_nothing_is_saved_without_data(tmp_path):
    agent = quick_agent(seed=6)
    again = narl.load(agent.save(tmp_path / "agent"))
    assert (actions_of(again), again.history) == (actions_of(agent), [])
    with pytest.raises(InputError, match="data: there is none; it comes with learning"):
        agent.save(tmp_path / "data", data=True)


@slow
def test_agent_with_data_learns_on_bit_for_bit(learned, tmp_path):
    path = learned.save(tmp_path / "agent", data=True)
    agent, stayed = narl.load(path).learn(40), quick_agent(seed=8).learn(60).learn(40)
    assert [row["step"] for row in agent.history] == [20, 40, 60, 80, 100]
    assert agent.history[:3] == learned.history
    assert actions_of(agent, 8) == actions_of(stayed) != actions_of(learned, 8)


def test_class_loads_its_own_agents_only(folder):
    assert narl.SAC.load(folder).algo == narl.Agent.load(folder).algo == "sac"
    with pytest.raises(InputError, match=r"holds an agent of sac; call narl.load, or narl.SAC"):
        narl.NARL.load(folder)


def test_saving_replaces_an_agent_and_nothing_else(untrained, tmp_path):
    quick_agent(seed=1).save(tmp_path / "agent")
    untrained.save(tmp_path / "agent")
    assert narl.load(tmp_path / "agent").seeds == (3, 8)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    for path in (tmp_path / "mine", tmp_path / "mine" / "thesis.txt"):
        with pytest.raises(InputError, match="choose another"):
            untrained.save(path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent", "mine"]


def test_folder_without_an_intact_agent_is_refused(untrained, tmp_path):
    path = untrained.save(tmp_path / "agent")
    (path / "metrics.json").write_text("{}")
    with pytest.raises(InputError, match=r"agent is damaged: metrics.json"):
        narl.load(path)
    (tmp_path / "thesis.txt").write_text("")
    with pytest.raises(InputError, match=r"folder: .*thesis.txt is a file; give the folder"):
        narl.load(tmp_path / "thesis.txt")
    with pytest.raises(InputError, match="holds no saved agent; give one"):
        narl.load(tmp_path)
    with pytest.raises(InputError, match=r"folder: .*nowhere"):
        narl.load(tmp_path / "nowhere")
    record = {"experiment": "tabular", "seeds": [0]}
    run = narl.storage.save_run(tmp_path, record, {}, {"regret": np.zeros(1)})
    with pytest.raises(InputError, match=r"run: .*`narl train`"):
        narl.load(run.path)


@slow
def test_damaged_data_do_not_keep_the_policy_from_being_loaded(learned, tmp_path, caplog):
    path = learned.save(tmp_path / "agent", data=True)
    (checkpoint,) = (path / "checkpoints").iterdir()
    flip_bit(checkpoint)
    with caplog.at_level(logging.WARNING, "narl"):
        agent = narl.load(path)
    assert "agent: its data are damaged; the policy is loaded, but cannot learn" in caplog.text
    assert actions_of(agent) == actions_of(learned)
    with pytest.raises(InputError, match="learn: the data that were saved are damaged; load"):
        agent.learn(20)


@slow
def test_user_environment_is_given_again(cache, tmp_path):
    agent = quick_agent(env=toy_worlds.Toy).learn(60, lambda row: False)
    path = agent.save(tmp_path / "agent", data=True)
    bare = narl.load(path)
    assert actions_of(bare) == actions_of(agent)
    for use in (bare.evaluate, bare.learn):
        with pytest.raises(InputError, match=r"env: it was the user's own; .* again, env="):
            use()
    again = narl.load(path, env=toy_worlds.Toy)
    assert again.evaluate(2) == agent.evaluate(2)
    assert actions_of(again.learn(40)) == actions_of(agent.learn(40))
    assert max(narl.load(path, env=ENV).evaluate(9).lengths) == 30  # its time limit


class Other(toy_worlds.Toy):
    """A toy with other spaces."""

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
        (lambda: Other(low=-7.0), r"env: the bounds of observation\[0\] of Other"),
        ("Hoper-v5", "env: unknown environment 'Hoper-v5'"),
    ],
)
def test_environment_with_other_spaces_is_refused(env, line, folder):
    with pytest.raises(InputError, match=line) as refused:
        narl.load(folder, env=env)
    assert "\n" not in str(refused.value)
    assert narl.load(folder, env=Other).evaluate(1).lengths[0] > 0


def test_environment_that_has_changed_since_is_named(folder, monkeypatch):
    agent = narl.load(folder)
    spec = gymnasium.spec("Toy-v0")
    monkeypatch.setattr(spec, "entry_point", lambda **kwargs: Other(size=4))
    with pytest.raises(InputError, match=r"env: .* has observations of shape \(4,\); the agent"):
        agent.evaluate(1)


def test_environment_that_nothing_registers_any_more_is_named(tmp_path, monkeypatch):
    """A module of the user registered it, and its id does not name that module."""
    spec = EnvSpec("Passing-v0", "toy_worlds:Toy", max_episode_steps=30)
    monkeypatch.setitem(gymnasium.registry, spec.id, spec)
    path = narl.SAC("Passing-v0").save(tmp_path / "agent")
    present = narl.load(path)
    assert len(present.evaluate(1).returns) == 1
    monkeypatch.delitem(gymnasium.registry, spec.id)
    for trusted in (False, True):
        bare = narl.load(path, trust_env_module=trusted)
        assert actions_of(bare) == actions_of(present)
        with pytest.raises(InputError, match="which no imported module registers; use it"):
            bare.evaluate(1)
    monkeypatch.setitem(gymnasium.registry, spec.id, spec)
    assert narl.load(path).evaluate(1) == present.evaluate(1)


@slow
def test_run_of_a_training_is_loaded_finished_or_not(cache, tmp_path):
    config = quick_config()
    train_until(40, [config], tmp_path)
    half = narl.load(tmp_path / f"{config.run_id}.part")
    assert (half.num_steps, [row["step"] for row in half.history]) == (40, [20, 40])
    whole = narl.load(train(config, tmp_path).path)
    assert whole.num_steps == 60
    assert actions_of(half) != actions_of(whole)
    assert actions_of(half.learn(20)) == actions_of(whole) == actions_of(quick_agent().learn(60))
