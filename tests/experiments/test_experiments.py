"""Experiments: valid cells, verdicts by their rules, and outcomes that can be stored."""

import dataclasses
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fake_results import FakeResult, fake_run, tabular_result

from narl import cli
from narl.experiments import (
    EXPERIMENTS,
    SCALES,
    Experiment,
    ExperimentHooks,
    Findings,
    ablation,
    fig1a,
    fig1b,
    fig1c,
    reproduce,
    table1,
)
from narl.experiments.analysis import capped, decomposition_table, median_mean_worst
from narl.experiments.experiment import _outcome as outcome_of
from narl.experiments.experiment import batches, is_training
from narl.experiments.judgement import judge_lower
from narl.report.contents import load_outcome, save_outcome
from narl.stats import Growth
from narl.tabular.config import make_config
from short_trainings import short_config

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
STORED = [
    path for path in sorted((ROOT / "results").glob("*.json")) if load_outcome(path).trainings
]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_cells_have_valid_configurations_and_equally_many_seeds(name, scale):
    cells = EXPERIMENTS[name].cells(scale).values()
    # The id of a tabular run hashes its MDP: large ones take long.
    quick = [cell for cell in cells if is_training(cell) or cell.size is None or cell.size <= 14]
    assert quick
    assert all(cell.run_id for cell in quick)
    assert len({len(cell.seeds) for cell in cells}) == 1


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_trainings_are_cells_of_their_experiment(path):
    outcome = load_outcome(path)
    cells = EXPERIMENTS[outcome.id].cells(outcome.scale)
    stored = {training.label: training.run for training in outcome.trainings}
    assert {label: cells[label].run_id for label in stored} == stored
    assert len(stored) == len(cells)


def test_ablation_uses_seeds_that_no_figure_uses():
    tuned = {seed for cell in ablation.cells("paper").values() for seed in cell.seeds}
    for name in ("fig1a", "fig1b", "fig1c", "table1"):
        cells = EXPERIMENTS[name].cells("paper").values()
        assert not tuned & {seed for cell in cells for seed in cell.seeds}


def test_paper_scale_is_that_of_the_paper():
    cells = fig1a.cells("paper").values()
    assert {(cell.episodes, cell.seeds) for cell in cells} == {(1000, tuple(range(20)))}
    assert sorted({cell.size for cell in fig1c.cells("paper").values()}) == list(range(10, 30, 2))


def test_list_of_experiments_imports_neither_the_deep_half_nor_plotting():
    slow = ["narl.deep.training_run", "matplotlib", "altair"]
    program = f"import sys, narl.experiments; print([m for m in {slow} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_experiments_are_in_the_order_of_the_paper_then_ours():
    assert list(EXPERIMENTS) == [
        *("fig1a", "fig1b", "fig1c", "table1", "fig2", "table2", "fig3a", "fig3b", "fig3c", "fig4"),
        *("ablation", "fair", "exploration-tuning", "exploration"),
        *("choice", "acrobot", "fewer-steps", "fading", "discrete", "lander"),
    ]


def test_outcome_has_every_training_with_command_and_returns():
    cell = short_config(algo="narl", seeds=(3, 4))
    run = dataclasses.replace(
        fake_run({"seconds": {"total": 12.34}, "replicas": 2}), environment={"device": "cpu"}
    )
    arrays = {"step": np.array([100.0, 200.0]), "eval_return": np.array([[1, np.nan], [1 / 3, 9]])}
    experiment = Experiment("mine", "Mine", lambda scale: {}, lambda scale, results: None)
    results = {"NARL": FakeResult(cell, run, arrays), "greedy": tabular_result([[1.0]], [[1.0]])}
    found = outcome_of(experiment, "small", results, Findings("About.", [], [], []))
    (training,) = found.trainings
    assert (training.label, training.run, training.seeds) == ("NARL", "x", [3, 4])
    assert training.command.startswith("narl train toy_worlds:Toy-v0 --algo narl ")
    assert training.command.endswith("--seeds 3:5")
    assert (training.steps, training.returns) == ([100, 200], [[1.0, 0.3333333], [None, 9.0]])
    assert (training.seconds, training.replicas, training.device) == (12.3, 2, "cpu")
    assert found.runs == ["x", "x"]
    assert [run.label for run in found.tabular_runs] == ["greedy"]


def test_outcome_has_the_scores_of_every_seed_of_a_tabular_run():
    # V* = 2. Seed 0: V(π) = 1.5, 2 and Ṽ = 3, 2.5; seed 1: V(π) = 0, 1 and Ṽ = 1, 1.
    result = tabular_result([[0.5, 0.0], [2.0, 1.0]], [[3.0, 2.5], [1.0, 1.0]], solved=[7, None])
    cell = dataclasses.replace(result.cell, seeds=(4, 6), swept="c")
    results = {"greedy": dataclasses.replace(result, cell=cell)}
    experiment = EXPERIMENTS["fig1a"]._replace(
        seed_scores=lambda result: {"first": result.array("value")[:, 0].tolist()}
    )
    found = outcome_of(experiment, "small", results, Findings("About.", [], [], []))
    (run,) = found.tabular_runs
    assert (run.label, run.run, run.seeds, run.episodes) == ("greedy", "x", [4, 6], 2)
    assert run.swept == "c"
    assert run.command == "narl tabular greedy riverswim --seeds 4,6 --episodes 1000"
    assert run.seed_scores == {
        "regret": [0.5, 3.0],
        "optimism": [-1.5, 2.0],
        "estimation_error": [2.0, 1.0],
        "solved_episode": [7, None],
        "first": [3.0, 1.0],
    }


def test_scores_that_claims_quote_are_stored_by_hand():
    result = tabular_result([[1.0, 2.0, 4.0, 8.0]], [[9.0, 2.1, 2.5, 2.4]])
    assert table1.seed_scores(result) == {"half_way_regret": [3.0]}
    assert fig1b.seed_scores(result) == {"close_from_episode": [2.0]}  # |Ṽ − 2| ≤ 0.5


def test_trainings_of_one_shape_form_a_batch_and_tabular_runs_stand_alone():
    cells = {
        "tabular": make_config("greedy", "riverswim"),
        "wide": short_config(algo="narl", radius=None),
        "three": short_config(algo="narl", members=3),
        "narrow": short_config(algo="narl", seeds=(0, 4), radius=0.1),
        "mbpo": short_config(algo="mbpo", seeds=(4,)),
        "same": make_config("greedy", "riverswim"),
    }
    together = ("wide", "narrow", "mbpo")
    assert batches(cells) == [("tabular",), together, ("three",), ("same",)]


def test_seeds_that_never_solve_count_as_the_budget():
    times = np.array([3.0, 9.0, math.inf])
    assert capped(times, 10).tolist() == [3.0, 9.0, 10.0]
    assert median_mean_worst(times) == "9 / never / never"
    assert median_mean_worst(np.array([1.0, 2.0, 4.5])) == "2 / 2.5 / 4.5"


def test_decomposition_table_by_hand():
    # V* = 2; regrets 1, 0; Ṽ = 3, 2: optimism −1, 0 and estimation error 2, 0.
    table = decomposition_table("t", "t", {"a": tabular_result([[1.0, 0.0]], [[3.0, 2.0]])})
    (row,) = table.rows
    assert len(row) == len(table.columns)
    values = dict(zip(table.columns, row, strict=True))
    medians = [values[f"median {name}"] for name in ("regret", "optimism", "estimation error")]
    assert medians == [1.0, -1.0, 2.0]
    assert values["share of episodes with Ṽ ≥ V*"] == 1.0


def test_decomposition_table_has_means_and_the_seed_with_the_largest_regret():
    # Regrets 1, 2 and 9; Ṽ − V* = 5, 1 and 0, so optimism −5, −1 and 0.
    result = tabular_result([[1.0], [2.0], [9.0]], [[7.0], [3.0], [2.0]])
    (row,) = decomposition_table("t", "t", {"a": result}).rows
    regret, optimism, error = row[1:4], row[4:7], row[7:10]
    assert (regret, optimism, error) == ([2.0, 4.0, 9.0], [-1.0, -2.0, 0.0], [6.0, 6.0, 9.0])


def test_table1_shows_median_mean_and_worst_seed():
    curves = np.linspace(0.1, 1.0, 60) * np.array([[1.0], [2.0], [9.0]])
    results = {label: tabular_result(curves, np.ones((3, 60))) for label in table1.ROWS}
    table = table1.analyse("smoke", results).tables[0]
    values = dict(zip(table.columns, table.rows[0], strict=True))
    total = np.linspace(0.1, 1.0, 60).sum()
    figures = [values[name] for name in ("median regret", "mean regret", "worst seed's regret")]
    assert figures == pytest.approx([2 * total, 4 * total, 9 * total])


def fig1c_results(gaussian, bootstrap):
    """Return results at smoke scale with these episodes to solve, for both sizes."""
    solved = {fig1c.GAUSSIAN: gaussian, fig1c.BOOTSTRAP: bootstrap}
    return {
        label: tabular_result([[1.0]] * 2, [[1.0]] * 2, solved.get(label.split(" · ")[0], [5, 6]))
        for label in fig1c.cells("smoke")
    }


def test_fig1c_counts_a_seed_that_never_solves_as_the_budget():
    findings = fig1c.analyse("smoke", fig1c_results([10, 11], [30, None]))
    rows = {(row[0], row[1]): row[2:] for row in findings.tables[0].rows}
    assert rows[fig1c.BOOTSTRAP, 4] == ["1/2", None, 45.0, None]
    assert rows[fig1c.GAUSSIAN, 4] == ["2/2", 10.5, 10.5, 11.0]
    best = fig1c.analyse("smoke", fig1c_results([10, 11], [30, 31])).claims[1]
    assert (best.id, best.verdict) == ("fig1c-gaussian-best", "holds")


def test_convergence_counts_from_the_last_episode_that_was_off():
    result = tabular_result([[0.0] * 4] * 3, [[2, 2, 2, 2], [9, 2, 9, 2], [2, 2, 2, 9]])
    assert fig1b.converged(result).tolist() == [1, 4, 5]


NEVER, SOON = np.full(3, 101.0), np.full(3, 10.0)


@pytest.mark.parametrize(
    ("slow", "quick", "verdict"),
    [
        (NEVER, SOON, "holds"),
        (SOON, SOON, "fails"),
        (NEVER, NEVER, "undecided"),
        (SOON, NEVER, "fails"),
    ],
)
def test_takes_twice_as_long_is_undecided_if_the_run_was_too_short(slow, quick, verdict):
    part = fig1b.takes_twice_as_long("slow", slow, "quick", quick, 100)
    assert judge_lower([part], "episode").verdict == verdict


def test_growth_confirms_a_bound_but_never_refutes_it():
    assert table1.grows_no_faster(Growth(0.5, 0.4, 0.55)) == "holds"
    assert table1.grows_no_faster(Growth(1.0, 0.9, 1.1)) == "undecided"
    assert table1.grows_no_faster(Growth(math.nan, math.nan, math.nan)) == "undecided"


def test_printed_bounds_by_hand():
    ucbvi = table1.bound_at(table1.ROWS["UCBVI (Hoeffding)"], 100.0)
    assert ucbvi == pytest.approx(math.sqrt(20 * 6 * 2 * 100))
    narl = table1.bound_at(table1.ROWS["Noise Augmented UCRL"], 100.0)
    assert narl == pytest.approx(6 * 20 * math.sqrt(6 * 2 * 100))


@pytest.mark.parametrize(
    ("best", "verdicts"), [(0.005, ["holds", "fails"]), (1.0, ["fails", "holds"])]
)
def test_default_constant_is_claimed_only_if_it_is_the_largest_that_fits(best, verdicts):
    two = [[1.0], [1.0]]
    results = {
        "OPSRL · RiverSwim": tabular_result([[100.0], [101.0]], two),
        "UCRL2 · RiverSwim": tabular_result([[1000.0], [1010.0]], two),
        "bootstrap · Deep Sea 28": tabular_result(two, two, solved=[400, 401]),
    }
    for c in ablation.CONSTANTS:  # those above ``best`` do not solve Deep Sea
        solved = [200 if c <= best else None, 201]
        results[f"c={c:g} · RiverSwim"] = tabular_result([[10.0], [11.0]], two)
        results[f"c={c:g} · Deep Sea 28"] = tabular_result(two, two, solved=solved)
    claims = ablation._claims(ablation._judgements(results, 1000), results)
    assert [claim.verdict for claim in claims] == verdicts


def test_default_constant_is_undecided_while_a_larger_one_may_fit():
    assert ablation.largest_that_fits({0.1: "undecided", 0.01: "holds"}, 0.01) == "undecided"
    assert ablation.largest_that_fits({0.1: "fails", 0.01: "undecided"}, 0.01) == "undecided"
    assert ablation.largest_that_fits({0.1: "holds", 0.01: "undecided"}, 0.01) == "fails"


def test_reproduce_finds_runs_again_and_its_outcome_can_be_stored(tmp_path):
    found: list[bool] = []
    hooks = ExperimentHooks(on_end=lambda label, in_store: found.append(in_store))
    tiny = {"size": 2, "horizon": 2, "episodes": 6}
    cells = {  # one agent with other seeds for each label, which compiles once
        label: make_config("greedy", "riverswim", seeds=(place, place + 100), **tiny)
        for place, label in enumerate(fig1a.cells("smoke"))
    }
    short = EXPERIMENTS["fig1a"]._replace(cells=lambda scale: cells)
    first = reproduce(short, "smoke", tmp_path / "runs", hooks=hooks)
    again = reproduce(short, "smoke", tmp_path / "runs", hooks=hooks)
    assert found == [False] * 7 + [True] * 7
    assert again == first
    assert {claim.verdict for claim in first.claims} == {"undecided"}  # smoke decides nothing
    assert first.command == "narl reproduce fig1a --scale smoke"
    path = save_outcome(first, tmp_path / "results")
    assert path.name == "fig1a-smoke.json"
    assert "NaN" not in path.read_text()
    loaded = load_outcome(path)
    assert loaded.claims == first.claims
    assert [chart.id for chart in loaded.charts] == [chart.id for chart in first.charts]
    assert save_outcome(loaded, tmp_path / "copy").read_bytes() == path.read_bytes()


def test_parts_run_their_own_cells_and_the_last_one_judges(tmp_path):
    tiny = {"size": 2, "horizon": 2, "episodes": 6}
    cells = {
        label: make_config("greedy", "riverswim", seeds=(place, place + 100), **tiny)
        for place, label in enumerate(fig1a.cells("smoke"))
    }
    short = EXPERIMENTS["fig1a"]._replace(cells=lambda scale: cells)
    ran: list[str] = []
    hooks = ExperimentHooks(on_end=lambda label, in_store: ran.append(label))
    assert reproduce(short, "smoke", tmp_path / "parts", hooks=hooks, part=(1, 2)) is None
    assert ran == list(cells)[::2]
    outcome = reproduce(short, "smoke", tmp_path / "parts", hooks=hooks, part=(2, 2))
    assert ran == [*list(cells)[::2], *list(cells)[1::2]]
    assert outcome == reproduce(short, "smoke", tmp_path / "whole")


@pytest.mark.parametrize("text", ["2", "0/2", "3/2", "1/x", "1/2/3"])
def test_wrong_part_and_minutes_are_refused(capsys, text):
    assert cli.main(["reproduce", "fig1a", "--part", text]) == 2
    assert f"--part: '{text}' is not I/N" in capsys.readouterr().err
    assert cli.main(["reproduce", "fig1a", "--minutes", "0"]) == 2
    assert "--minutes: 0 is not more than 0" in capsys.readouterr().err


def test_help_of_reproduce_names_every_experiment(capsys):
    assert cli.main(["reproduce", "--help"]) == 0
    text = capsys.readouterr().out
    assert [name for name in EXPERIMENTS if name not in text] == []
