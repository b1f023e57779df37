"""The list of runs: every training with its command and returns, and the stored results."""

import dataclasses
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_outcomes import fig1a, small_section
from html_reader import HtmlReader
from test_page import HOSTILE

from narl.commands.train import COMMAND
from narl.deep.checked_config import make_config
from narl.report.contents import Claim, Section, TabularRun, Training, load_outcome, save_outcome
from narl.report.page import compose_page
from narl.storage.files import CHECKSUM

RESULTS = Path(__file__).resolve().parents[2] / "results"
TRAINING = Training(
    label="NARL",
    run="train-narl-0123",
    command="narl train Toy-v0 --algo narl --seeds 4:6",
    seeds=[4, 5],
    steps=[250, 1500],
    returns=[[1.5, None], [-20.0, 12345.6]],
    seconds=105.04,
    replicas=30,
    device="NVIDIA H200",
)
TABULAR_RUN = TabularRun(
    label="UCRL2",
    run="tabular-ucrl2-0123",
    command="narl tabular ucrl2 riverswim --seeds 4,6 --episodes 1000",
    seeds=[4, 6],
    episodes=1000,
    seed_scores={"regret": [1.5, -20.0], "solved_episode": [7, None]},
)


def training_section(**changes: object) -> Section:
    claim = Claim("exp-better", "It is better.", "ours", "holds", "1 < 2.")
    training = dataclasses.replace(TRAINING, **changes)
    return small_section(runs=[training.run], trainings=[training], claims=[claim])


def test_list_has_command_duration_and_the_returns_of_every_seed() -> None:
    reader = HtmlReader(compose_page([training_section()]))
    (listed,) = reader.find("details", "runs")
    assert "open" not in listed.attributes
    assert TRAINING.command in reader.texts("code", "command")
    facts = "runtrain-narl-0123duration105 s for 30 replicas in one programdeviceNVIDIA H200"
    assert facts in listed.text
    assert "results/exp-smoke.json" in listed.text
    rows = ["stepsseed 4seed 5", "2501.5−20", "1,500–12,346"]
    assert [row for row in reader.texts("tr") if row in rows] == rows


def test_duration_of_a_training_that_had_a_program_of_its_own() -> None:
    page = compose_page([training_section(replicas=2)])
    assert "<dd>105 s</dd>" in page
    assert "<dt>duration</dt>" not in compose_page([training_section(seconds=None)])


def test_claims_lead_to_the_list_of_runs() -> None:
    reader = HtmlReader(compose_page([training_section()]))
    assert "exp-smoke-runs" in reader.links()
    assert "exp-smoke-runs" in reader.ids()
    without = dataclasses.replace(training_section(), runs=[], trainings=[])
    assert "exp-smoke-runs" not in HtmlReader(compose_page([without])).links()


def tabular_section(**changes: object) -> Section:
    run = dataclasses.replace(TABULAR_RUN, **changes)
    return small_section(runs=[run.run, "another-45"], tabular_runs=[run])


def test_list_has_the_scores_of_every_seed_of_a_tabular_run() -> None:
    reader = HtmlReader(compose_page([tabular_section()]))
    (listed,) = reader.find("details", "runs")
    assert TABULAR_RUN.command in reader.texts("code", "command")
    assert "runtabular-ucrl2-0123episodes1,000" in listed.text
    rows = ["seedregretsolved episode", "41.57", "6−20–"]
    assert [row for row in reader.texts("tr") if row in rows] == rows
    assert "another-45" in reader.texts("li")
    assert reader.texts("li").count(TABULAR_RUN.run) == 0


@pytest.mark.parametrize(
    ("section", "names"),
    [
        (training_section, ("label", "run", "command", "device")),
        (tabular_section, ("label", "run", "command")),
    ],
)
def test_hostile_text_in_a_run_stays_text(
    section: Callable[..., Section], names: tuple[str, ...]
) -> None:
    pages = [
        HtmlReader(compose_page([section(**dict.fromkeys(names, text))]))
        for text in (HOSTILE, "harmless")
    ]
    assert [e.tag for e in pages[0].elements] == [e.tag for e in pages[1].elements]


def test_trainings_are_stored_with_a_row_of_numbers_per_line(tmp_path: Path) -> None:
    about = "Not a list: [\n 1,\n 2]"
    outcome = dataclasses.replace(fig1a(), trainings=[TRAINING], about=about)
    path = save_outcome(outcome, tmp_path)
    lines = [line.strip() for line in path.read_text().splitlines()]
    assert '"steps": [250,1500],' in lines
    assert "[1.5,null],\n[-20.0,12345.6]\n" in "\n".join(lines)
    loaded = load_outcome(path)
    assert (loaded.trainings, loaded.about) == ([TRAINING], about)


def test_tabular_runs_are_stored_with_a_row_of_numbers_per_score(tmp_path: Path) -> None:
    path = save_outcome(dataclasses.replace(fig1a(), tabular_runs=[TABULAR_RUN]), tmp_path)
    assert '"solved_episode": [7,null]' in path.read_text()
    assert load_outcome(path).tabular_runs == [TABULAR_RUN]


def test_outcomes_without_lists_of_runs_still_load(tmp_path: Path) -> None:
    path = save_outcome(fig1a(), tmp_path)
    values = json.loads(path.read_text())
    del values["trainings"], values["tabular_runs"], values[CHECKSUM]
    path.write_text(json.dumps(values))
    loaded = load_outcome(path)
    assert (loaded.trainings, loaded.tabular_runs) == ([], [])


STORED = [path for path in sorted(RESULTS.glob("*-paper.json")) if load_outcome(path).trainings]


@pytest.mark.slow  # hundreds of command lines
@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_commands_of_stored_trainings_give_their_runs(path: Path) -> None:
    for training in load_outcome(path).trainings:
        options, _ = COMMAND.parse(shlex.split(training.command)[2:])
        assert make_config(**options).run_id == training.run
        assert len(training.returns) == len(training.seeds) == len(options["seeds"])
        assert {len(row) for row in training.returns} == {len(training.steps)}


def test_stored_results_are_small() -> None:
    assert STORED
    assert max(path.stat().st_size for path in RESULTS.glob("*.json")) < 1_100_000
