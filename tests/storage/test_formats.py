"""Folders of the format before there were numbers of formats, and of formats of the future.

The fixtures were written by narl 0.1.0 before run folders had a "schema": a finished training of
12 steps, and one that was stopped at step 8.
"""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import narl
from narl import cli, storage
from narl.errors import InputError
from narl.storage import checkpoints, provenance, runs, unfinished

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A copy of the fixtures, read as by the version that wrote them."""
    for module in (provenance, runs, unfinished):
        monkeypatch.setattr(module, "__version__", "0.1.0")
    return Path(shutil.copytree(FIXTURES, tmp_path / "runs"))


def finished_of(root):
    (run,) = storage.list_runs(root)
    return run


def unfinished_of(root):
    (run,) = storage.list_unfinished_runs(root)
    return run


def newer(file: Path) -> None:
    content = storage.without_checksum(json.loads(file.read_bytes()))
    file.write_bytes(storage.json_bytes(storage.with_checksum({**content, "schema": 2})))


def test_finished_run_of_the_first_format_is_loaded(root):
    run = finished_of(root)
    assert (run.problems, run.metrics["steps"]) == ((), 12)
    assert "schema" not in json.loads((run.path / storage.MANIFEST).read_bytes())
    agent = narl.load(run.path)
    assert [row["step"] for row in agent.history] == [4, 8, 12]
    assert np.isfinite(agent.predict(np.zeros(3))[0]).all()


def test_unfinished_run_of_the_first_format_is_loaded(root):
    run = unfinished_of(root)
    assert (run.problems, run.step, run.checkpoint_every) == ((), 8, 1)
    checkpoint = checkpoints.load_checkpoint(run.path / storage.CHECKPOINTS, run=run.id)
    assert (checkpoint.run, checkpoint.notes["counters"]["step"]) == (None, 8)
    assert [row["step"] for row in run.rows()] == [4, 8]
    assert narl.load(run.path).num_steps == 8


def test_unfinished_run_of_another_version_is_loaded_but_not_continued(root, monkeypatch):
    monkeypatch.setattr(unfinished, "__version__", "99.0")
    run = unfinished_of(root)
    assert run.problems == ("narl 0.1.0 began it and this is 99.0",)
    agent = narl.load(run.path)
    assert (agent.num_steps, [row["step"] for row in agent.history]) == (8, [4, 8])


def test_finished_run_of_another_version_is_loaded_under_its_id_but_not_extended(
    root, monkeypatch, capsys
):
    run = finished_of(root)
    monkeypatch.setattr(runs, "__version__", "99.0")
    assert storage.run_id(run.config) != run.id  # so the same command trains it again
    assert storage.find_run_of_config(root, run.config) is None
    assert storage.load_run(root, run.id).problems == ()
    assert narl.load(run.path).num_steps == 12
    monkeypatch.setattr("narl.deep.extended_run.__version__", "99.0")
    words = ["train", "--extend", run.id, "--steps", "16", "--runs", str(root)]
    assert cli.main(words) == 2
    assert f"narl 0.1.0 made {run.id} and this is 99.0" in capsys.readouterr().err


def test_policy_of_the_first_format_is_saved_in_the_newest(root, tmp_path):
    agent = narl.load(finished_of(root).path)
    folder = agent.save(tmp_path / "again")
    assert json.loads((folder / storage.MANIFEST).read_bytes())["schema"] == 1
    again = narl.load(folder)
    assert (again.predict(np.ones(3))[0] == agent.predict(np.ones(3))[0]).all()


@pytest.mark.slow
def test_unfinished_run_of_the_first_format_is_continued_to_its_end(root, cache):
    run = unfinished_of(root)
    assert cli.main(["resume", run.id, "--runs", str(root), "--json"]) == 0
    assert storage.load_run(root, run.id).metrics["steps"] == 12
    assert not run.path.exists()
    manifest = json.loads((root / run.id / storage.MANIFEST).read_bytes())
    assert manifest["schema"] == 1


def refused(part: Path, cause: str) -> None:
    """Check that the unfinished run is listed with this cause, and that nothing loads it."""
    run = unfinished.open_unfinished_run(part)
    assert run.problems == ("no checkpoint is intact", f"step-000000008 {cause}")
    with pytest.raises(InputError, match=re.escape(f"{cause}; remove it, or train again")):
        checkpoints.load_checkpoint(part / storage.CHECKPOINTS, run=run.id)
    with pytest.raises(InputError, match=re.escape(cause)):
        narl.load(part)


def change_log(part: Path, *numbers: int) -> None:
    """Change the returns in these rows of the metrics log of a run."""
    log = part / storage.METRICS_LOG
    rows = storage.rows_from_bytes(log.read_bytes())
    for number in numbers:
        rows[number]["eval_return"] = [-1.0]
    log.write_bytes(storage.rows_to_bytes(rows))


def test_checkpoint_of_the_first_format_of_another_run_is_refused(root):
    part = unfinished_of(root).path
    change_log(part, 0, 1)
    refused(part, "is of another run: its metrics are not those in progress.jsonl")


@pytest.mark.parametrize("changed", [(0,), (1,), None])
def test_checkpoint_of_the_first_format_beside_a_damaged_log_is_loaded(root, changed):
    part = unfinished_of(root).path
    if changed is None:
        (part / storage.METRICS_LOG).unlink()
    else:
        change_log(part, *changed)
    assert unfinished_of(root).problems == ()
    assert [row["eval_return"][0] < -1000 for row in narl.load(part).history] == [True, True]


def test_checkpoint_of_the_first_format_in_a_run_of_a_later_version_is_refused(
    root, tmp_path, monkeypatch
):
    old = unfinished_of(root)
    for module in (provenance, runs, unfinished):
        monkeypatch.setattr(module, "__version__", "0.2.0")
    part = tmp_path / "later" / f"{storage.run_id(old.config)}{storage.PART_SUFFIX}"
    shutil.copytree(old.path / storage.CHECKPOINTS, part / storage.CHECKPOINTS)
    storage.record_config(part, old.config, 1)
    cause = "is of a format that only narl 0.1.0 wrote, and narl 0.2.0 began the run"
    refused(part, cause)


def test_newer_format_is_refused_and_nothing_is_replaced(root, capsys):
    run, part = finished_of(root), unfinished_of(root)
    newer(run.path / storage.MANIFEST)
    newer(part.path / storage.TRAINING_FILE)
    line = "it has format 2, and this narl reads formats up to 1; install a newer"
    assert (finished_of(root).problems, unfinished_of(root).problems) == ((line,), (line,))
    for read in (storage.load_run_at, storage.load_run, narl.load):
        with pytest.raises(InputError, match=rf"^run {run.id}: {line}$"):
            read(run.path)
    with pytest.raises(InputError, match=line):
        storage.find_run_of_config(root, run.config)
    assert cli.main(["resume", part.path.name, "--runs", str(root)]) == 2
    assert line in capsys.readouterr().err


def test_checkpoint_of_a_newer_format_is_not_used(root):
    part = unfinished_of(root)
    newer(part.path / storage.CHECKPOINTS / "step-000000008" / storage.MANIFEST)
    assert unfinished_of(root).problems[0] == "no checkpoint is intact"
    with pytest.raises(InputError, match="it has format 2"):
        checkpoints.load_checkpoint(part.path / storage.CHECKPOINTS)
