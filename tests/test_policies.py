"""The policies of the repository: each is small and acts as its card says; how one is made."""

import importlib.util
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import narl
from narl import storage
from narl.deep.agent import Agent
from narl.deep.metrics import CURVES
from short_trainings import flip_bit

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = sorted(path.parent for path in (ROOT / "policies").glob("*/README.md"))
RUN = ROOT / "tests" / "storage" / "fixtures" / "train-sac-pendulum-v1-f773e86ad6"
MOST_BYTES = 500_000
TOLERANCE = 0.05
"""Share of the mean return by which one episode, on another processor, may be lower."""

every_policy = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def table_below(card: str, sentence: str) -> dict[str, str]:
    """Return the first table after a sentence of a card: its head, and the row below."""
    lines = card.partition(sentence)[2].splitlines()
    head, _, row = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")][:3]
    return dict(zip(head, row, strict=True))


def test_repository_has_policies():
    names = {folder.name for folder in FOLDERS}
    wanted = {"hopper", "inverted-pendulum", "mountain-car-continuous", "sparse-pendulum"}
    assert wanted <= names


@every_policy
def test_policy_is_small_and_holds_only_what_acting_needs(folder):
    assert sum(path.stat().st_size for path in folder.iterdir()) <= MOST_BYTES
    arrays = storage.load_run_at(folder).arrays()
    kept = ("sac.actor.", "interface.", "step", *CURVES)
    assert [name for name in arrays if not name.startswith(kept)] == []
    actor = [array for name, array in arrays.items() if name.startswith("sac.actor.")]
    assert {array.dtype for array in actor} == {np.dtype(np.float32)}
    assert {len(array) for array in actor} == {1}


@every_policy
def test_policy_reaches_the_return_of_its_card_and_of_the_index(folder):
    card = (folder / "README.md").read_text(encoding="utf-8")
    mean = float(table_below(card, "in `narl eval`")["mean"])
    (episode,) = narl.load(folder).evaluate(1).returns
    assert episode >= mean - TOLERANCE * abs(mean)
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    (listed,) = re.findall(rf"^\| \[{folder.name}\]\(.* \| (\S+) \|$", index, re.MULTILINE)
    assert float(listed) == mean


@every_policy
def test_card_names_the_first_seed_and_the_returns_of_all(folder):
    card = (folder / "README.md").read_text(encoding="utf-8")
    run = storage.load_run_at(folder)
    finals = table_below(card, "Every seed of the training")
    (seed,), returns = run.config["seeds"], run.arrays()["eval_return"][:, 0]
    shown = max(returns) if "at its best evaluation" in card else returns[-1]
    assert [name for name, value in finals.items() if "**" in value] == [str(seed)]
    assert list(finals)[1] == str(seed)
    assert len(finals) > 5
    assert float(finals[str(seed)].strip("*")) == pytest.approx(shown, abs=0.051)
    assert f"| seed | {seed}, the first of the training |" in card
    (command,) = re.findall(r"^narl train .+$", card, re.MULTILINE)
    assert command.startswith(f"narl train {run.config['env']} --algo {run.config['algo']} ")
    assert f"narl eval {folder.relative_to(ROOT).as_posix()}\n" in card


@every_policy
def test_eval_takes_the_path_from_any_working_folder(folder, call):
    answer = call("eval", str(folder), "--episodes", "1", "--json")
    assert answer.status == 0, answer.err
    result = json.loads(answer.out)
    assert (result["run"], result["finished"]) == (folder.name, True)


def test_play_shows_the_first_episode_of_the_evaluation(call, monkeypatch):
    """The window itself is left out: tests have no screen."""
    open_env = Agent._open_env
    monkeypatch.setattr("narl.deep.window.is_headless", lambda: False)
    monkeypatch.setattr(Agent, "_open_env", lambda agent, seed, mode=None: open_env(agent, seed))
    folder = ROOT / "policies" / "mountain-car-continuous"
    answer = call("play", str(folder), "--episodes", "1", "--json")
    assert answer.status == 0, answer.err
    shown, evaluated = json.loads(answer.out)["returns"], narl.load(folder).evaluate(1).returns
    assert shown == pytest.approx(evaluated, rel=1e-9)  # last bits may depend on JAX's version


@pytest.mark.parametrize("command", ["eval", "play"])
def test_bad_folder_is_one_line(command, call, tmp_path):
    damaged, empty = tmp_path / "damaged", tmp_path / "empty"
    shutil.copytree(FOLDERS[0], damaged)
    flip_bit(damaged)
    empty.mkdir()
    (empty / "README.md").touch()
    wrong = {
        damaged: "damaged is damaged: arrays.npz differs from its checksum",
        empty: f"the folder {empty} holds no policy (no manifest.json); give the id of a run, or",
        tmp_path / "missing": f"RUN: no such folder: {tmp_path / 'missing'}; `narl runs` lists",
    }
    for folder, message in wrong.items():
        answer = call(command, str(folder))
        assert (answer.status, answer.out) == (2, "")
        assert answer.err.count("\n") == 1
        assert message in answer.err


# --- making one -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def make_policy():
    """The script, as a function of its command line."""
    spec = importlib.util.spec_from_file_location(
        "make_policy", ROOT / "policies" / "make_policy.py"
    )
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return lambda *arguments: script.main([str(argument) for argument in arguments])


def test_policy_is_made_from_a_run(make_policy, tmp_path):
    folder = tmp_path / "pendulum"
    assert make_policy(RUN, folder, "--about", "Swings a pendulum.", "--limits", "Walking.") == 0
    agent, trained = narl.load(folder), narl.load(RUN)
    assert agent.seeds == trained.seeds[:1]
    assert agent.evaluate(2) == trained.evaluate(2)
    steps = [row["step"] for row in trained.history]
    assert [row["step"] for row in agent.history] == steps
    assert [row["eval_return"] for row in agent.history] == [
        row["eval_return"][:1] for row in trained.history
    ]
    recorded, original = (storage.load_run_at(path).environment for path in (folder, RUN))
    assert recorded == original | {"platform": "Linux"}
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "\nSwings a pendulum.\n" in card
    assert "\n## Not good for\n\nWalking.\n" in card
    mean = np.mean(trained.evaluate(10).returns)
    assert float(table_below(card, "in `narl eval`")["mean"]) == pytest.approx(mean, abs=0.051)


def test_policy_of_bad_input_is_not_made(make_policy, tmp_path, capsys):
    there = tmp_path / "there"
    there.mkdir()
    wrong = {
        (RUN, there): f"FOLDER: {there} exists already; choose another name, or remove it",
        (RUN, tmp_path / "new", "--seed", 99): "seed: 99 was not trained; it must be one of",
        (tmp_path / "none", tmp_path / "new"): f"{tmp_path / 'none'} is not there",
    }
    for arguments, message in wrong.items():
        assert make_policy(*arguments) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert message in error
    assert list(tmp_path.iterdir()) == [there]
    assert list(there.iterdir()) == []
