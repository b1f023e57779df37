"""`narl runs` with trainings, finished and not."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from narl import storage
from narl.commands.trainings import settings_that_differ
from narl.deep.training_run import Stopped, train
from narl.storage.folder import lock_folder
from narl.storage.unfinished import PART
from short_courses import cache, call, course, programs, spoil  # noqa: F401

pytestmark = pytest.mark.slow

TABULAR = {"experiment": "tabular", "agent": "psrl", "env": "riverswim", "seeds": [0]}


@pytest.fixture(scope="module")
def made(tmp_path_factory, cache) -> tuple[Path, list[str]]:  # noqa: F811
    """A tabular run, a finished training and an unfinished one of another discount."""
    root = tmp_path_factory.mktemp("made")
    tabular = storage.save_run(root, TABULAR, {"episodes": 7}, {})
    done, _ = train(course(steps=100, initial_steps=50, solved_return=-1e6), root)
    with pytest.raises(Stopped):
        train(course(discount=0.9), root, on_epoch=lambda row: row["step"] < 200)
    return root, [tabular.id, done.id, f"{course(discount=0.9).id}{PART}"]


@pytest.fixture
def kept(made, tmp_path) -> list[str]:
    """Their names; each test has its own."""
    root, names = made
    shutil.copytree(root, tmp_path / "runs")
    return names


def test_they_are_listed_with_what_matters(call, kept):  # noqa: F811
    listed = {run["run"]: run for run in json.loads(call("runs", "--json").out)["runs"]}
    assert set(listed) == set(kept)
    tabular, done, half = (listed[name] for name in kept)
    assert "agent" in tabular
    assert "unfinished" not in tabular
    for one in (done, half):
        assert set(one) - {"process"} == {
            *("run", "path", "time", "algo", "env", "seeds", "steps", "settings", "unfinished"),
            *("step", "final_return", "solved_step", "problems"),
        }
        assert (one["algo"], one["env"], one["seeds"]) == ("sac", "toy_worlds:Toy-v0", [0])
    assert (done["unfinished"], done["step"], done["solved_step"]) == (False, 100, [100])
    assert (half["unfinished"], half["step"], half["steps"]) == (True, 200, 300)
    assert (half["process"], half["solved_step"]) == (None, [None])
    assert half["path"] == str(Path("runs") / kept[2])


def test_for_people_they_have_a_table_of_their_own(call, kept):  # noqa: F811
    lines = call("runs").out.splitlines()
    assert lines[0].split()[0] == "run"
    assert lines[1].split()[0] == kept[0]
    assert lines[2] == ""
    assert lines[3].split()[:5] == ["training", "step", "seeds", "return", "solved"]
    half, done = lines[4].split(), lines[5].split()
    assert (half[:3], half[4]) == ([kept[2], "200/300", "1"], "0/1")
    assert (done[:3], done[4]) == ([kept[1], "100", "1"], "1/1")
    assert "unfinished" in half
    assert "discount=0.9" in half
    assert "discount=0.99" in done
    assert "hidden" not in lines[4]


def test_one_that_is_being_trained_says_so(call, kept):  # noqa: F811
    with lock_folder(Path("runs") / kept[2]):
        listed = json.loads(call("runs", "--json").out)["runs"]
        (process,) = [run["process"] for run in listed if run["run"] == kept[2]]
        assert process == os.getpid()
        assert f"in process {process}" in call("runs").out
        said = call("runs", "remove", kept[2], "--yes")
    assert said.status == 2
    assert f"process {process} is writing to" in said.err
    assert (Path("runs") / kept[2]).is_dir()


def test_in_a_narrow_terminal_each_has_a_few_lines(call, kept, monkeypatch):  # noqa: F811
    def narrow():
        return Console(file=sys.stdout, width=60, highlight=False)

    monkeypatch.setattr("narl.console.stdout", narrow)
    said = call("runs")
    assert said.status == 0, said.err
    lines = said.out.splitlines()
    start = lines.index(kept[2])
    assert lines[start + 1].startswith("  step 200/300, 1 seed, return ")
    assert lines[start + 3] == "  unfinished"


def test_an_unfinished_one_is_shown(call, kept):  # noqa: F811
    id_ = kept[2].removesuffix(PART)
    shown = json.loads(call("runs", "show", id_, "--json").out)
    assert (shown["run"], shown["step"], shown["unfinished"]) == (kept[2], 200, True)
    assert shown["config"]["settings"]["discount"] == 0.9
    assert shown["last_epoch"]["step"] == 200
    rows = [line.split() for line in call("runs", "show", kept[2]).out.splitlines()]
    assert rows[0] == [kept[2]]
    for row in (["step", "200"], ["steps", "300"], ["settings.discount", "0.9"]):
        assert row in rows


def test_a_finished_one_is_shown_with_its_arrays(call, kept):  # noqa: F811
    shown = json.loads(call("runs", "show", kept[1], "--json").out)
    assert shown["config"]["algo"] == "sac"
    assert shown["metrics"]["steps"] == 100
    assert shown["arrays"]["sac.actor.0.w"] == {"shape": [1, 2, 16], "dtype": "float32"}


def test_they_are_removed(call, kept):  # noqa: F811
    said = call("runs", "remove", kept[2][:-7], kept[1], "--yes", "--json")
    assert said.status == 0, said.err
    assert json.loads(said.out) == {"removed": [kept[2], kept[1]]}
    assert [path.name for path in Path("runs").iterdir()] == [kept[0]]
    said = call("runs", "remove", "train", "--yes")
    assert said.status == 2
    assert "run: unknown value 'train'" in said.err


def test_a_finished_and_an_unfinished_one_of_the_same_id_are_told_apart(call, kept):  # noqa: F811
    done = kept[1]
    with pytest.raises(Stopped):
        train(
            course(steps=100, initial_steps=50, solved_return=-1e6),
            Path("runs"),
            fresh=True,
            should_stop=lambda: True,
        )
    assert json.loads(call("runs", "show", done, "--json").out)["metrics"]["steps"] == 100
    assert json.loads(call("runs", "show", f"{done}{PART}", "--json").out)["step"] == 0
    assert call("runs", "remove", f"{done}{PART}", "--yes").out == f"removed {done}{PART}\n"
    assert (Path("runs") / done).is_dir()
    assert call("runs", "remove", done, "--yes").out == f"removed {done}\n"


def test_damage_is_shown(call, kept):  # noqa: F811
    (Path("runs") / kept[2] / "training.json").write_text("{")
    (Path("runs") / kept[1] / "metrics.json").write_text("{}")
    listed = {run["run"]: run for run in json.loads(call("runs", "--json").out)["runs"]}
    assert listed[kept[2]]["problems"] == ["training.json cannot be read"]
    assert listed[kept[1]]["problems"] == ["metrics.json differs from its checksum"]
    text = call("runs").out
    assert "training.json cannot be read" in text
    assert "damaged" in text
    assert call("runs", "remove", kept[2], kept[1], "--yes").status == 0


def test_one_without_an_intact_checkpoint_is_damaged_too(call, kept):  # noqa: F811
    newest, before = sorted((Path("runs") / kept[2] / "checkpoints").iterdir(), reverse=True)
    for path, problems in ((newest, 0), (before, 3)):
        spoil(path)
        listed = {run["run"]: run for run in json.loads(call("runs", "--json").out)["runs"]}
        assert len(listed[kept[2]]["problems"]) == problems
    assert listed[kept[2]]["problems"][0] == "no checkpoint is intact"
    (line,) = [line for line in call("runs").out.splitlines() if kept[2] in line]
    assert "no checkpoint is intact" in line
    assert "checksum" not in line
    assert "differs from its checksum" in call("runs", "show", kept[2]).out


def test_settings_that_differ_do_so_among_trainings_of_one_kind():
    lines = [
        {"algo": "narl", "env": "A", "settings": {"radius": 0.1, "hidden": [8, 8]}},
        {"algo": "narl", "env": "A", "settings": {"radius": None, "hidden": [8, 4]}},
        {"algo": "narl", "env": "B", "settings": {"radius": 5.0, "hidden": [8, 8]}},
    ]
    assert settings_that_differ(lines) == ["radius=0.1 hidden=8,8", "radius=none hidden=8,4", ""]


def test_the_list_does_not_load_jax(call, kept):  # noqa: F811
    program = "import sys; from narl.cli import main; main(['runs']); print('jax' in sys.modules)"
    source = str(Path(store.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "False"
    assert kept[2] in done.stdout
