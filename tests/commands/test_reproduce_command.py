"""`narl reproduce` and `narl report` of experiments, with two experiments of two cells each."""

import json
from pathlib import Path

import numpy as np
import pytest

from narl import storage
from narl.commands import reproduce
from narl.experiments import experiment
from narl.report.contents import Chart, Claim, Outcome, Series
from narl.tabular.config import make_config

VERDICTS = ("holds", "fails", "undecided")


def tiny_experiment(id_: str) -> experiment.Experiment:
    """Return an experiment of two cells, one chart and one claim of each verdict."""

    def cells(scale):
        options = {"size": 2, "horizon": 2, "episodes": 5, "seeds": (0, 1)}
        return {agent: make_config(agent, "riverswim", **options) for agent in ("greedy", "psrl")}

    def analyse(scale, results):
        series = [
            Series(label, [1.0, 2.0], list(result.array("regret")[0, :2]))
            for label, result in results.items()
        ]
        claims = [
            Claim(f"{id_}-{verdict}", f"It {verdict}.", "§5", verdict, "1 < 2")
            for verdict in VERDICTS
        ]
        chart = Chart("regret", "Regret", "episode", "regret", series)
        return experiment.Findings("A test.", [chart], [], claims)

    return experiment.Experiment(id_, "A figure", cells, analyse)


@pytest.fixture(autouse=True)
def experiments(monkeypatch) -> None:
    """Put two experiments in the place of all, with made-up runs."""
    table = {id_: tiny_experiment(id_) for id_ in ("fig1a", "fig1b")}
    monkeypatch.setattr("narl.commands.reproduce.EXPERIMENTS", table)

    def run_config(config, root, *, progress, fresh):
        if run := storage.find_run_of_config(root, config.record()):
            return run, True
        progress(config.episodes)
        metrics = {"v_star": 1.0, "episodes": config.episodes}
        arrays = dict.fromkeys(("regret", "value"), np.ones((len(config.seeds), config.episodes)))
        return storage.save_run(root, config.record(), metrics, arrays), False

    monkeypatch.setattr(experiment, "run_config", run_config)


def test_every_cell_is_run_once_and_the_outcome_is_written(call, tmp_path):
    answer = call("reproduce", "all", "--scale", "small", "--json")
    assert answer.status == 0
    lines = answer.err.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("fig1a 1/2 greedy: ")
    assert lines[2:] == ["fig1b 1/2 greedy: found", "fig1b 2/2 psrl: found"]
    result = json.loads(answer.out)
    assert result["scale"] == "small"
    assert result["claims"] == {"holds": 2, "fails": 2, "undecided": 2}
    first = result["outcomes"][0]
    assert set(first) == {"id", "title", "claims", "runs", "seconds", "file"}
    assert first["claims"][0] == {
        "id": "fig1a-holds",
        "statement": "It holds.",
        "where": "§5",
        "verdict": "holds",
        "numbers": "1 < 2",
    }
    assert sorted(first["runs"]) == sorted(path.name for path in (tmp_path / "runs").iterdir())
    names = sorted(path.name for path in (tmp_path / "results").iterdir())
    assert names == ["fig1a-small.json", "fig1b-small.json"]
    outcome = json.loads((tmp_path / "results" / "fig1a-small.json").read_text())
    assert outcome["command"] == "narl reproduce fig1a --scale small"


def test_text_has_every_claim(call, tmp_path):
    answer = call("reproduce", "fig1b", "--results", "deep/inside", "--runs", "kept")
    assert answer.status == 0
    for text in ("fig1b: A figure (small scale)", *VERDICTS, "1 < 2"):
        assert text in answer.out
    assert [line for line in answer.out.splitlines() if line.endswith(" ")] == []
    assert (tmp_path / "deep" / "inside" / "fig1b-small.json").is_file()
    assert len(list((tmp_path / "kept").iterdir())) == 2


def test_interrupted_experiment_continues(call, monkeypatch, tmp_path):
    run_config = experiment.run_config

    def interrupted(config, root, **kwargs):
        if config.agent == "psrl":
            raise KeyboardInterrupt
        return run_config(config, root, **kwargs)

    monkeypatch.setattr(experiment, "run_config", interrupted)
    answer = call("reproduce", "fig1a", "--json")
    assert (answer.status, answer.out) == (3, "")
    assert answer.err.splitlines()[-1].startswith("narl: interrupted;")
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert not (tmp_path / "results").exists()

    monkeypatch.setattr(experiment, "run_config", run_config)
    answer = call("reproduce", "fig1a")
    assert answer.status == 0
    assert "fig1a 1/2 greedy: found" in answer.err
    assert "fig1a 2/2 psrl: found" not in answer.err


def test_each_experiment_is_chosen_once_in_the_given_order():
    known = ["fig1a", "fig1b", "table1"]
    assert reproduce.choose(["table1", "fig1a", "table1"], known) == ["table1", "fig1a"]
    assert reproduce.choose(["table1", "all"], known) == known


# --- narl report ------------------------------------------------------------------------------


@pytest.fixture
def shown(monkeypatch) -> list[Outcome]:
    """Record the sections of a report instead of drawing them."""
    sections = []

    def write_report(given, out):
        sections[:] = given
        return [out]

    monkeypatch.setattr("narl.report.write_report", write_report)
    return sections


@pytest.mark.usefixtures("shown")
def test_report_shows_the_largest_scale_of_each_experiment(call):
    for id_, scale in (("fig1b", "smoke"), ("fig1b", "small"), ("fig1a", "smoke")):
        call("reproduce", id_, "--scale", scale)
    result = json.loads(call("report", "--out", "made/r.html", "--json").out)
    assert result == {
        "report": str(Path("made/r.html")),
        "outcomes": [{"id": "fig1a", "scale": "smoke"}, {"id": "fig1b", "scale": "small"}],
        "files": [str(Path("made/r.html"))],
    }
    answer = call("report", "--scale", "smoke")
    assert "fig1a (smoke), fig1b (smoke)" in answer.out
    assert "open report.html" in answer.out
    answer = call("report", "--scale", "paper")
    assert answer.status == 2
    assert "results holds no outcomes at scale paper" in answer.err


def test_report_shows_both_folders_and_never_replaces_a_larger_scale(call, tmp_path, shown):
    call("reproduce", "all", "--scale", "small")
    call("reproduce", "fig1a", "--scale", "small", "--results", "demo")
    call("reproduce", "fig1b", "--scale", "smoke", "--results", "demo")
    for folder in ("results", "demo"):
        for path in (tmp_path / folder).iterdir():
            outcome = storage.without_checksum(json.loads(path.read_text()))
            path.write_text(json.dumps(outcome | {"title": f"of {folder}"}))

    def titles(*arguments):
        assert call("report", *arguments).status == 0
        return {(section.id, section.scale): section.title for section in shown}

    demo = {("fig1a", "small"): "of demo", ("fig1b", "smoke"): "of demo"}
    both = demo | {("fig1b", "small"): "of results"}
    assert titles("--also", "demo") == both
    assert [(section.id, section.scale) for section in shown][1:] == [
        ("fig1b", "small"),
        ("fig1b", "smoke"),
    ]
    assert titles() == {("fig1a", "small"): "of results", ("fig1b", "small"): "of results"}
    assert titles("--scale", "smoke", "--also", "demo") == {("fig1b", "smoke"): "of demo"}
    assert titles("--results", "nowhere", "--also", "demo") == demo


def test_report_refuses_a_damaged_outcome(call, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "fig1a-smoke.json").write_text("{}")
    answer = call("report")
    assert answer.status == 2
    assert "fig1a-smoke.json cannot be read" in answer.err
    assert not (tmp_path / "report.html").exists()
