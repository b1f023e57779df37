"""`narl report RUN...`: what it writes and refuses, and the commands that train again."""

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from test_report_trainings import POLE, TOTAL, TOY, journal, plan

from narl import storage
from narl.commands import train
from narl.commands.arguments import parse
from narl.commands.trainings import command_of
from narl.deep.config import Settings, make_settings
from narl.deep.owners import owners_of
from narl.deep.plan import Course, Group
from narl.deep.training_run import Stopped
from narl.deep.training_run import train as train_course
from narl.report.training_report import seeds_as_typed
from narl.storage.metrics_log import NAME, MetricsLog, rows_to_bytes
from narl.storage.unfinished import record_config
from short_courses import cache, call, course, programs  # noqa: F401
from test_report import Reader

# --- the command that trains again -------------------------------------------------------------


def trained_by(command: str) -> Course:
    """What it trains."""
    words = shlex.split(command)
    assert words[:2] == ["narl", "train"]
    return train.make_course(parse(train.Train, "narl train", words[2:], train.EXAMPLE))


OTHERWISE: dict[str, Any] = {
    "steps": 7777, "epoch_length": 123, "initial_steps": 99, "learn_after": 5500,
    "updates_per_step": 3, "batch": 17, "real_share": 0.25, "buffer": 5000,
    "target_entropy": -0.125, "hidden": (64, 32, 16), "discount": 0.9, "polyak": 1e-5,
    "learning_rate": 1e-05, "initial_temperature": 0.3, "members": 6, "elites": 2,
    "model_every": 100, "model_width": 32, "model_depth": 2, "scale_targets": None,
    "model_learning_rate": 0.002, "model_batch": 32, "holdout_share": 0.0, "holdout_most": 10,
    "patience": 0, "most_model_epochs": 9, "rollout_batch": 50, "rollout_schedule": (1, 2, 3, 4),
    "retain_epochs": 3, "radius": None, "joint": True, "fallback": "random", "draw": "mean",
    "value_samples": 2, "termination": "never", "obs_scaling": None, "eval_episodes": 4,
    "eval_horizon": 77, "solved_return": -150.5,
}  # fmt: skip
"""Something else than the default for every setting; for two of them it depends on the preset."""


@pytest.mark.parametrize("env", [POLE, "Hopper-v4", "Humanoid-v5", TOY])
@pytest.mark.parametrize("algo", ["narl", "mbpo", "sac"])
def test_the_command_of_a_default_course_says_no_more_than_it_must(env: str, algo: str) -> None:
    assert command_of(plan(algo, env=env)) == f"narl train {env} --algo {algo}"
    assert trained_by(command_of(plan(algo, env=env))).config() == plan(algo, env=env).config()


def otherwise(algo: str, env: str) -> dict[str, Any]:
    """Another value than usual for every setting of the algorithm."""
    names = {field.name for field in dataclasses.fields(Settings)}
    assert set(OTHERWISE) == names - {"env", "algo"}
    usual = make_settings(env, algo)
    values = OTHERWISE | {
        "scale_targets": not usual.scale_targets,
        "obs_scaling": "bounds" if usual.obs_scaling == "none" else "none",
    }
    used = {name: value for name, value in values.items() if algo in owners_of(name)}
    assert all(getattr(usual, name) != value for name, value in used.items())
    return used


@pytest.mark.parametrize("env", ["Hopper-v5", TOY])
@pytest.mark.parametrize("algo", ["narl", "mbpo", "sac"])
def test_the_command_gives_all_settings_again(env: str, algo: str) -> None:
    of = plan(algo, env=env, **otherwise(algo, env))
    assert trained_by(command_of(of)).config() == of.config()


@pytest.mark.slow
def test_the_command_gives_each_setting_again_by_itself() -> None:
    for name, value in otherwise("narl", "Hopper-v5").items():
        of = plan("narl", env="Hopper-v5", **{name: value})
        assert trained_by(command_of(of)).config() == of.config(), name
        assert command_of(of).count(" --") == 2


@pytest.mark.parametrize(
    "given",
    [
        {"initial_steps": 100},
        {"initial_steps": 100, "learn_after": 250},
        {"learn_after": 400},
        {"initial_steps": 300, "learn_after": 301},
    ],
)
def test_the_command_tells_when_updates_begin(given: dict[str, int]) -> None:
    assert trained_by(command_of(plan(**given))).config() == plan(**given).config()
    assert ("--learn-after" in command_of(plan(**given))) == ("learn_after" in given)


@pytest.mark.parametrize(
    ("seeds", "typed"),
    [
        ((0,), ""),
        ((3,), " --seeds 3"),
        ((0, 1), " --seeds 0:2"),
        ((4, 5, 6), " --seeds 4:7"),
        ((0, 2, 4), " --seeds 0,2,4"),
        ((1, 0), " --seeds 1,0"),
    ],
)
@pytest.mark.parametrize("until_solved", [False, True])
def test_the_command_gives_the_seeds_again(
    seeds: tuple[int, ...], typed: str, until_solved: bool
) -> None:
    of = Course(make_settings(POLE, "sac"), seeds, until_solved)
    assert trained_by(command_of(of)).config() == of.config()
    stop = " --until-solved" if until_solved else ""
    assert command_of(of) == f"narl train {POLE} --algo sac{typed}{stop}"


def test_seeds_as_they_are_typed() -> None:
    assert [seeds_as_typed(x) for x in ([7], [7, 8], [7, 9])] == ["7", "7:9", "7,9"]


# --- the command `narl report` ----------------------------------------------------------------


def keep(of: Course, root: str = "runs", **metrics: Any) -> storage.Run:
    """A finished run of it, without networks."""
    rows = journal(of, *([float(k)] * len(of.seeds) for k in (1, 2, 3)))
    return storage.save_run(
        Path(root),
        of.config(),
        {"seconds": TOTAL, **metrics},
        {},
        extras={NAME: rows_to_bytes(rows)},
    )


def begin(config: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """An unfinished one, without checkpoints."""
    part = Path("runs") / f"{storage.run_id(config)}.part"
    part.mkdir(parents=True)
    record_config(part, config, 1)
    for row in rows:
        MetricsLog(part / NAME).append(row)
    return part.name


def test_it_writes_a_page_and_figures(call, tmp_path) -> None:  # noqa: F811
    run = keep(plan(seeds=(0, 1)), lanes=2)
    said = call("report", run.id[:15], "--out", "new/page.html")
    assert (said.status, said.err) == (0, "")
    assert said.out == f"{POLE}: 5 files\nopen {Path('new/page.html')}\n"
    names = [f"train-invertedpendulum-v5-{name}" for name in ("returns", "seeds")]
    files = {f"page-figures/{name}.{kind}" for name in names for kind in ("png", "pdf")}
    made = {str(path.relative_to(tmp_path / "new")) for path in (tmp_path / "new").rglob("*.*")}
    assert made == {"page.html", *files}
    page = Path("new/page.html").read_text(encoding="utf-8")
    assert f"<title>narl report: {POLE}</title>" in page
    assert run.environment["jax"] in page


def test_json_lists_outcomes_and_files(call) -> None:  # noqa: F811
    run = keep(plan(), "kept")
    part = begin((toy := plan(env=TOY)).config(), journal(toy, [1.0]))
    said = call("report", str(run.path), f"runs/{part}", str(run.path), "--json")
    assert (said.status, said.err) == (0, "")
    result = json.loads(said.out)
    ids = [f"train-{POLE}", f"train-{TOY}"]
    assert result["outcomes"] == [{"id": id_, "scale": None} for id_ in ids]
    assert result["report"] == "report.html"
    assert len(result["files"]) == 5
    assert all(Path(file).is_file() for file in result["files"])


def test_runs_are_looked_for_where_it_is_said(call, monkeypatch) -> None:  # noqa: F811
    run = keep(plan(), "kept")
    assert call("report", run.id, "--runs", "kept").status == 0
    assert call("report", run.id).status == 2
    monkeypatch.setenv("NARL_RUNS", "kept")
    assert call("report", run.id).status == 0


def test_of_a_finished_and_an_unfinished_one_each_can_be_named(call) -> None:  # noqa: F811
    run = keep(plan())
    begin(plan().config(), journal(plan(), [5.0]))
    digits = run.id[-10:]
    assert call("report", run.id, f"{run.id}.part", "--out", "both.html").status == 0
    page = Path("both.html").read_text(encoding="utf-8")
    assert f"SAC ({digits}): one seed, 750 steps." in page
    assert f"SAC ({digits}, unfinished): one seed, 250 of 5,000 steps, not finished." in page
    assert call("report", run.id, "--out", "one.html").status == 0
    assert "SAC: one seed, 750 steps." in Path("one.html").read_text(encoding="utf-8")


def test_the_same_training_from_two_folders_is_shown_twice(call) -> None:  # noqa: F811
    paths = [str(keep(plan(), root).path) for root in ("here", "there")]
    assert call("report", *paths).status == 0
    page = Path("report.html").read_text(encoding="utf-8")
    assert "SAC #1: one seed" in page
    assert "SAC #2: one seed" in page


def refused(call, *given: str) -> str:  # noqa: F811
    """The one line that says why; nothing is written."""
    said = call("report", *given)
    assert (said.status, said.out) == (2, "")
    assert said.err.count("\n") == 1
    assert not Path("report.html").exists()
    return str(said.err.removeprefix("narl: ").removesuffix("\n"))


def test_runs_that_have_no_report(call) -> None:  # noqa: F811
    tabular = storage.save_run(
        "runs", {"experiment": "tabular", "agent": "psrl", "seeds": [0]}, {}, {}
    )
    assert refused(call, tabular.id) == (
        f"run: {tabular.id} is no training; `narl runs show {tabular.id}` shows it"
    )
    parts = (plan("narl", radius=0.5), plan("narl", radius=None))
    group = begin(Group(parts).config(), [])
    assert refused(call, group) == (
        f"run: {group} is 2 trainings together; each can be shown when all are finished (the "
        "command that began them continues them)"
    )
    empty = begin(plan().config(), [])
    assert refused(call, empty) == f"run: {empty} has no finished epoch yet; wait for its first"
    (Path("runs") / empty / "course.json").write_text("{")
    assert refused(call, empty) == (
        f"run: {empty}: course.json cannot be read; remove it (`narl runs remove {empty}`)"
    )


def test_runs_that_are_not_there(call) -> None:  # noqa: F811
    assert refused(call, "train") == "run: 'train' is not there; runs holds no runs"
    run = keep(plan())
    assert refused(call, "train-sac-wrong") == (
        f"run: unknown value 'train-sac-wrong'; did you mean {run.id!r}? (one of {run.id})"
    )
    keep(plan(seeds=(1,)))
    assert "give more of the id" in refused(call, "train-sac")


def test_damaged_runs_and_those_of_another_version(call) -> None:  # noqa: F811
    run = keep(plan())
    (run.path / NAME).write_text("{}\n")
    assert f"run {run.id} is damaged: {NAME} differs" in refused(call, run.id)
    strange = plan().config()
    strange["settings"]["unheard_of"] = 1
    other = storage.save_run("runs", strange, {"seconds": TOTAL}, {})
    assert refused(call, other.id).startswith("run: its configuration is not one of this version")


@pytest.mark.parametrize(
    "given", [["--scale", "paper"], ["--also", "more"], ["--results", "elsewhere"]]
)
def test_options_of_experiments_are_refused_with_trainings(call, given) -> None:  # noqa: F811
    assert refused(call, "train-sac", *given) == (
        f"{given[0]}: it is for experiments, not for trainings; leave it out, or RUN"
    )


def test_the_folder_of_runs_is_refused_without_a_training(call) -> None:  # noqa: F811
    assert refused(call, "--runs", "kept") == (
        "--runs: it is for trainings; name some, such as "
        "`narl report train-narl-hopper-v5 --out report.html`"
    )


def test_the_help_tells_of_both(call) -> None:  # noqa: F811
    said = call("report", "--help")
    assert said.status == 0
    assert "[RUN ...]" in said.out
    assert "what `narl reproduce` has left" in said.out
    assert "trainings of `narl train`" in said.out


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
def test_a_training_is_reported_while_it_lasts_and_when_it_is_done(call) -> None:  # noqa: F811
    of = course(seeds=(0, 1), algo="narl")
    with pytest.raises(Stopped):
        train_course(of, Path("runs"), on_epoch=lambda row: row["step"] < 200)
    assert call("report", of.id, "--out", "half.html").status == 0
    half = Reader(Path("half.html").read_text(encoding="utf-8"))
    run, _ = train_course(of, Path("runs"))
    assert call("report", of.id, "--out", "whole.html").status == 0
    whole = Reader(Path("whole.html").read_text(encoding="utf-8"))
    for reader, words in ((half, "200 of 300 steps, not finished"), (whole, "300 steps")):
        figures = [attributes["id"] for attributes, _ in reader.of_class("figure", "chart")]
        ids = ["returns", "seeds", "promise", "selected", "distance", "fallback"]
        assert figures == [f"chart-train-toy-worlds-toy-v0-{id_}" for id_ in ids]
        assert reader.of_class("p", "empty") == []
        assert f"NARL: 2 seeds, {words}." in [text for _, text in reader.find("p")]
        ((_, command),) = reader.of_class("code", "command")
        assert trained_by(command).id == of.id
    packed = [json.loads(text) for _, text in whole.find("script", type="application/json")]
    assert packed[0]["series"][0]["x"] == [100, 200, 300]
    final = run.metrics["final_return"]
    assert [line["y"][-1] for line in packed[1]["series"]] == pytest.approx(final)
