"""`narl report RUN...`: the files it writes, and the runs and options it refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_trainings import ALL_SECONDS, POLE, TOY, metrics_rows, training
from html_reader import HtmlReader

from narl import storage
from narl.commands.report import difference_lines
from narl.deep.config import Config
from narl.report.contents import Section, Table
from narl.storage import METRICS_LOG, TRAINING_FILE, MetricsLog, record_config, rows_to_bytes
from narl.sweeps.run_notes import record_sweep


def save_finished(
    config: Config, root: str = "runs", *returns: list[float | None], **metrics: Any
) -> storage.Run:
    """Save a finished run without networks."""
    rows = rows_to_bytes(metrics_rows(config, *returns))
    metrics = {"seconds": ALL_SECONDS, **metrics}
    return storage.save_run(Path(root), config.record(), metrics, {}, extras={METRICS_LOG: rows})


def save_unfinished(record: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """Save an unfinished run without checkpoints and return the name of its folder."""
    part = Path("runs") / f"{storage.run_id(record)}.part"
    part.mkdir(parents=True)
    record_config(part, record, 1)
    for row in rows:
        MetricsLog(part / METRICS_LOG).append(row)
    return part.name


def read(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


def test_report_writes_a_page_and_figures(call, tmp_path) -> None:
    run = save_finished(training(seeds=(0, 1)), "kept", replicas=2)
    answer = call("report", run.id[:15], "--runs", "kept", "--out", "new/page.html")
    lines = [f"{run.id}: SAC: 2 seeds, 750 steps.", f"{POLE}: 5 files", "open new/page.html"]
    assert answer == (0, "".join(f"{line}\n" for line in lines), "")
    names = [f"train-invertedpendulum-v5-{name}" for name in ("returns", "seeds")]
    files = {f"page-figures/{name}.{kind}" for name in names for kind in ("png", "pdf")}
    made = {str(path.relative_to(tmp_path / "new")) for path in (tmp_path / "new").rglob("*.*")}
    assert made == {"page.html", *files}
    assert f"<title>narl report: {POLE}</title>" in read("new/page.html")
    assert run.environment["jax"] in read("new/page.html")


def test_json_lists_outcomes_and_files(call) -> None:
    run = save_finished(training(), "kept")
    toy = training(env=TOY)
    part = save_unfinished(toy.record(), metrics_rows(toy))
    answer = call("report", str(run.path), f"runs/{part}", str(run.path), "--json")
    assert (answer.status, answer.err) == (0, "")
    result = json.loads(answer.out)
    ids = [f"train-{POLE}", f"train-{TOY}"]
    assert result["outcomes"] == [
        {"id": id_, "scale": None, "runs": [name], "differences": []}
        for id_, name in zip(ids, (run.id, part), strict=True)
    ]
    assert result["report"] == "report.html"
    assert len(result["files"]) == 5
    assert all(Path(file).is_file() for file in result["files"])


def test_differences_are_printed_with_their_verdict(call) -> None:
    runs = [save_finished(training(algo, seeds=(0, 1))).id for algo in ("narl", "mbpo")]
    lines = call("report", *runs).out.splitlines()
    assert [line.split(": ")[0] for line in lines[:2]] == runs
    assert lines[2:4] == [
        f"NARL − MBPO, {what}: 0 [0, 0], undecided"
        for what in ("after the last epoch", "mean over the training")
    ]
    (outcome,) = json.loads(call("report", *runs, "--json").out)["outcomes"]
    last, _ = outcome["differences"]
    assert (last["better"], last["low"], last["high"]) == ("undecided", 0, 0)


def test_trainings_of_unequal_length_are_said_to_be_so(call) -> None:
    short = save_finished(training("narl", seeds=(0, 1)), "runs", [1.0, 2.0])
    long = save_finished(training("mbpo", seeds=(0, 1)), "runs", [0.0, 1.0], [9.0, 9.0])
    answer = call("report", short.id, long.id)
    expected = "NARL − MBPO, after the last epoch up to step 250: +1 [1, 1], NARL is better"
    assert answer.out.splitlines()[2] == expected
    assert answer.err.startswith(f"{POLE}: The trainings differ in their numbers of steps: ")
    assert answer.err.count("\n") == 1


def test_line_of_a_difference_has_a_sign_an_interval_and_the_better_one() -> None:
    columns = ["difference of", "better", "return", "difference", "low", "high", "seeds"]
    rows: list[list[Any]] = [
        ["NARL − MBPO", "undecided", "mean over the training", 0.3812, -0.9749, 2.351, "2, paired"],
        ["NARL − SAC", "SAC", "after the last epoch", -12.0, -15.25, -9.5, "2 and 3"],
    ]
    table = Table("differences", "Differences", columns, rows)
    assert difference_lines(Section("train-x", "x", [], [], [], comparison=table)) == [
        "NARL − MBPO, mean over the training: +0.38 [−0.97, 2.35], undecided",
        "NARL − SAC, after the last epoch: −12.0 [−15.2, −9.5], SAC is better",
    ]


def test_latest_names_the_run_that_is_drawn(call) -> None:
    save_finished(training())
    later = save_finished(training("mbpo"))
    assert call("report", "latest").out.splitlines()[0] == f"{later.id}: MBPO: one seed, 750 steps."


def test_trainings_of_different_code_are_said_to_be_so(call) -> None:
    made = []
    for algo, code in (("narl", "a"), ("mbpo", "b")):
        config, rows = training(algo), rows_to_bytes(metrics_rows(training(algo)))
        metrics, extras = {"seconds": ALL_SECONDS}, {METRICS_LOG: rows}
        run = storage.save_run(
            "runs", config.record(), metrics, {}, extras=extras, provenance={"env_code": code}
        )
        made.append(run.id)
    answer = call("report", *made)
    assert answer.err.startswith(f"{POLE}: The code of the environment was changed between the ")
    assert answer.err.count("\n") == 1
    assert call("report", made[0]).err == ""


def test_folder_of_a_sweep_is_no_run(call) -> None:
    """`narl report runs/*` names the notes of a sweep, too."""
    run = save_finished(training())
    record_sweep(Path("runs"), [])
    everything = sorted(map(str, Path("runs").glob("*")))
    assert everything == ["runs/sweeps", str(run.path)]
    assert call("report", *everything).out.startswith(f"{run.id}: SAC: ")
    assert "'runs/sweeps'" in call("report", "runs/sweeps").err


def test_report_without_outcomes_names_the_report_of_runs(call) -> None:
    line = "--results: results holds no outcomes; first run `narl reproduce all --scale small`"
    assert refusal(call) == line
    save_finished(training())
    assert refusal(call) == f"{line}; `narl report latest` draws the latest run of runs"


def refusal(call, *arguments: str) -> str:
    """Return the one line of a call that is refused and writes nothing."""
    answer = call("report", *arguments)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    assert not Path("report.html").exists()
    return str(answer.err.removeprefix("narl: ").removesuffix("\n"))


def test_runs_that_are_no_single_training_are_refused(call) -> None:
    record = {"experiment": "tabular", "agent": "psrl", "seeds": [0]}
    tabular = storage.save_run("runs", record, {}, {})
    assert f"{tabular.id} does not hold the regret of its episodes" in refusal(call, tabular.id)
    other = storage.save_run("runs", {"experiment": "other"}, {}, {})
    assert f"{other.id} is no training" in refusal(call, other.id)
    kept = storage.save_run("kept", {"experiment": "other"}, {}, {})
    assert f"`narl runs show {kept.id} --runs kept` shows it" in refusal(call, str(kept.path))
    group = save_unfinished(training().record() | {"configs": [{}, {}], "algo": "group"}, [])
    assert f"{group} is 2 trainings together" in refusal(call, group)


def test_unfinished_runs_without_an_epoch_or_configuration_are_refused(call) -> None:
    part = save_unfinished(training().record(), [])
    assert f"{part} has no finished epoch yet" in refusal(call, part)
    (Path("runs") / part / TRAINING_FILE).write_text("{")
    assert refusal(call, part).startswith(f"run: {part}: {TRAINING_FILE} cannot be read")


def test_damaged_runs_and_those_of_another_version_are_refused(call) -> None:
    run = save_finished(training())
    (run.path / METRICS_LOG).write_text("{}\n")
    assert f"run {run.id} is damaged: {METRICS_LOG} differs" in refusal(call, run.id)
    record = training().record()
    record["settings"]["unknown_option"] = 1
    other = storage.save_run("runs", record, {"seconds": ALL_SECONDS}, {})
    assert "not one of this version of narl" in refusal(call, other.id)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train-sac", "--scale", "paper"], "--scale: it is for experiments"),
        (["train-sac", "--results", "elsewhere"], "--results: it is for experiments"),
        (["--runs", "kept"], "--runs: it is for trainings"),
    ],
)
def test_options_for_the_other_kind_of_report_are_refused(call, arguments, message) -> None:
    assert refusal(call, *arguments).startswith(message)


@pytest.mark.slow
def test_real_trainings_are_reported_finished_or_not(call, shared_trainings) -> None:
    root, finished, unfinished, _ = shared_trainings
    assert call("report", finished, unfinished, "--runs", str(root)).status == 0
    reader = HtmlReader(read("report.html"))
    texts = [text for text in reader.texts("p") if text.startswith("SAC")]
    assert [text.split(": ")[1] for text in texts] == [
        "2 seeds, 300 steps.",
        "one seed, 200 of 300 steps, not finished.",
    ]
    (chart,) = reader.find("script", type="application/json")
    series = json.loads(chart.text)["series"]
    assert [line["x"] for line in series] == [[100, 200, 300], [100, 200]]
    run = storage.load_run(root, finished)
    assert series[0]["y"][-1] == pytest.approx(np.mean(run.metrics["final_return"]))
    assert run.environment["mujoco"] in reader.texts("header")[0]
