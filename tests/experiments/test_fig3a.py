"""Fig. 3(a): the same options for both algorithms, numbers by hand, and real trainings."""

import dataclasses
import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from fake_results import training_result

from narl.experiments import EXPERIMENTS, SCALES, Experiment, Findings, fig3a, reproduce, table2
from narl.experiments.experiment import batches, is_training, length
from narl.report.contents import Chart, load_outcome
from narl.report.training_curves import by_accuracy, curve, rows_with_model
from short_trainings import short_config


@pytest.mark.parametrize("scale", SCALES)
def test_algorithms_share_all_options_but_their_ensemble(scale):
    narl, mbpo = list(fig3a.cells(scale).values())[:2]
    assert (narl.preset, narl.exclude, narl.fallback) == ("paper", "ball", "closest")
    assert (narl.num_members, narl.radius) == (3, 0.1)
    assert (mbpo.num_members, mbpo.num_elites) == (7, 5)
    reading = {"preset": "paper", "exclude": "ball"}
    assert dataclasses.replace(mbpo, algo="narl", members=3, radius=0.1, **reading) == narl
    assert is_training(narl)
    assert length(narl) == narl.steps


def test_controls_of_paper_scale_differ_in_one_thing():
    cells = fig3a.cells("paper")
    assert list(cells) == ["NARL", "MBPO", "NARL, exclude above", "MBPO, 3 members"]
    narl, mbpo, above, same = cells.values()
    assert dataclasses.replace(above, preset="paper", exclude="ball") == narl
    assert (above.preset, above.exclude) == ("narl", "above")
    assert dataclasses.replace(same, members=mbpo.members) == mbpo
    assert (same.num_members, same.num_elites) == (3, 3)
    assert batches(cells) == [("NARL", "NARL, exclude above", "MBPO, 3 members"), ("MBPO",)]


@pytest.mark.parametrize("scale", ["smoke", "small"])
def test_smaller_scales_have_no_controls(scale):
    assert list(fig3a.cells(scale)) == ["NARL", "MBPO"]


def test_paper_scale_is_that_of_the_paper():
    narl = fig3a.cells("paper")["NARL"]
    assert (narl.env, narl.algo, narl.seeds) == ("InvertedPendulum-v4", "narl", tuple(range(10)))
    assert (narl.steps, narl.until_solved) == (5000, False)
    assert (narl.epoch_length, narl.solved_return) == (250, 1000.0)


# --- curves -----------------------------------------------------------------------------------


def row(step, eval_return, members=3):
    """Return an epoch with a trained ensemble, of as many seeds as there are returns."""
    each, num_seeds = [1.0 / members] * members, len(eval_return)
    return {
        "step": step,
        "eval_return": eval_return,
        "model_return": [value + 1.0 for value in eval_return],
        "mean_model_return": [value + 2.0 for value in eval_return],
        "holdout_error": [list(range(members, 0, -1))] * num_seeds,
        "selected": [each] * num_seeds,
        "distance": [each] * num_seeds,
        "fit_holdout_error": [[list(range(members, 0, -1))]] * num_seeds,
        "fit_distance": [[each]] * num_seeds,
        **{f"fit_selected_{radius}": [[each]] * num_seeds for radius in ("0.1", "5", "none")},
        "fallback": [0.25] * num_seeds,
    }


def test_members_are_ranked_in_every_epoch():
    # Seed 0: the least accurate member is 1, then 2. Seed 1: it is always 0.
    rows = [
        {
            "holdout_error": [[0.1, 0.3, 0.2], [9.0, 1.0, 2.0]],
            "selected": [[0.1, 0.7, 0.2], [1.0, 0.0, 0.0]],
        },
        {
            "holdout_error": [[0.2, 0.1, 0.3], [5.0, 1.0, 2.0]],
            "selected": [[0.3, 0.2, 0.5], [0.0, 0.5, 0.5]],
        },
    ]
    np.testing.assert_allclose(
        by_accuracy(rows, "selected"),
        [[(0.7 + 0.5) / 2, (0.2 + 0.3) / 2, (0.1 + 0.2) / 2], [0.5, 0.25, 0.25]],
    )
    assert rows_with_model([{"step": 250}, rows[0]]) == rows[:1]


def test_fits_count_equally_and_have_ranks_of_their_own():
    rows = [
        {
            "fit_holdout_error": [[[1.0, 2.0], [2.0, 1.0]]],
            "fit_distance": [[[10.0, 20.0], [30.0, 40.0]]],
            "selected": [[0.9, 0.1]],
        },
        {
            "fit_holdout_error": [[[5.0, 3.0]]],
            "fit_distance": [[[50.0, 60.0]]],
            "selected": [[0.3, 0.7]],
        },
    ]
    ranked = [[(20.0 + 30.0 + 50.0) / 3, (10.0 + 40.0 + 60.0) / 3]]
    np.testing.assert_allclose(by_accuracy(rows, "distance"), ranked)
    # An epoch's metric: the mean errors are equal in the first epoch, which keeps the order.
    np.testing.assert_allclose(by_accuracy(rows, "selected"), [[0.6, 0.4]])


# --- findings ---------------------------------------------------------------------------------


def findings(narl_solved, mbpo_solved, above=None, same=None):
    """Return the findings of ten seeds: NARL comes to 1000, MBPO to 500 on average.

    The controls need as many steps as NARL and MBPO, or those that are given.
    """
    start = {"step": 250, "eval_return": [5.0] * 10, "model_return": [7.0] * 10}
    solved = (narl_solved, mbpo_solved, above or narl_solved, same or mbpo_solved)
    results = {}
    for (label, cell), steps in zip(fig3a.cells("paper").items(), solved, strict=True):
        final = [1000.0] * 10 if cell.algo == "narl" else [0.0, 1000.0] * 5
        log = [start, row(500, final, members=cell.num_members)]
        results[label] = training_result(cell, steps, final, log)
    return fig3a.analyse("paper", results)


@pytest.mark.parametrize(
    ("narl", "mbpo", "verdict"),
    [
        ([1750] * 10, [2500] * 10, "holds"),
        ([1750] * 10, [None] * 10, "holds"),
        ([None] * 10, [1750] * 10, "fails"),
        ([None] * 10, [None] * 10, "undecided"),
        ([1750] * 10, [1500, 2250] * 5, "undecided"),
    ],
)
def test_fewer_steps_is_decided_by_the_interval_of_the_difference(narl, mbpo, verdict):
    assert findings(narl, mbpo).claims[0].verdict == verdict


def test_table_by_hand():
    table, comparisons = findings([1500, 2000] * 5, [3000] * 4 + [None] * 6).tables
    assert [len(cells) for cells in table.rows] == [len(table.columns)] * 5
    narl, mbpo = table.rows[:2]
    assert narl == ["NARL", 10, 10, 1750.0, 250.0, 2000.0, 1000.0, 0.0, 1000.0, 47500, 12.3]
    assert mbpo == ["MBPO", 10, 4, 3000.0, 0.0, None, 500.0, 500.0, 0.0, 47500, 12.3]
    paper = table.rows[-1]
    assert tuple(paper[3:5]) == table2.PUBLISHED[3, 0.1]
    for row in comparisons.rows[:-1]:
        assert row[4:7] == [1750.0, 4200.0, pytest.approx(-2450.0)]  # never counts as 5000 steps
    assert [row[:3] for row in comparisons.rows] == [
        ["fig3a-fewer-steps", "NARL", "MBPO"],
        ["fig3a-same-members", "NARL", "MBPO, 3 members"],
        ["fig3a-exclude-above", "NARL, exclude above", "MBPO"],
        ["fig3a-exclude-above", "NARL, exclude above", "MBPO, 3 members"],
        ["fig3a-more-members", "MBPO", "MBPO, 3 members"],
    ]


@pytest.mark.parametrize(
    ("narl", "mbpo", "verdicts"),
    [
        ([1750] * 10, [2500] * 10, ["holds", "holds"]),
        ([2500] * 10, [1750] * 10, ["fails", "holds"]),
        ([1750] * 9 + [None], [None] * 10, ["holds", "fails"]),
    ],
)
def test_claims_of_ten_seeds(narl, mbpo, verdicts):
    claims = {claim.id: claim for claim in findings(narl, mbpo).claims}
    fewer, solves = claims["fig3a-fewer-steps"], claims["fig3a-solves"]
    assert [fewer.verdict, solves.verdict] == verdicts
    assert f"NARL {narl[0]}, {narl[1]}" in solves.numbers
    assert ("never" in solves.numbers) == (None in narl + mbpo)


@pytest.mark.parametrize(
    ("above", "same", "verdicts"),
    [
        (1750, 2500, ["holds", "holds", "holds"]),
        (1750, 1500, ["fails", "fails", "fails"]),
        (2250, 2500, ["holds", "fails", "holds"]),
    ],
)
def test_controls_are_compared_with_both_algorithms(above, same, verdicts):
    found = findings([1750] * 10, [2000] * 10, [above] * 10, [same] * 10)
    claims = {claim.id.removeprefix("fig3a-"): claim for claim in found.claims}
    controls = ["same-members", "exclude-above", "more-members"]
    assert list(claims) == ["fewer-steps", *controls, "solves"]
    assert [claims[id_].verdict for id_ in controls] == verdicts
    assert [claim.is_ours for claim in claims.values()] == [False, True, True, False, False]
    assert claims["fewer-steps"].verdict == "holds"
    assert "MBPO with the same 3 members" in found.about


@pytest.mark.parametrize(("solved", "verdict"), [(500, "undecided"), (None, "fails")])
def test_one_seed_decides_nothing_but_a_failure(solved, verdict):
    rows = [row(250, [10.0]), row(500, [1000.0])]
    results = {
        label: training_result(cell, [solved], [1000.0], rows)
        for label, cell in fig3a.cells("small").items()
    }
    found = fig3a.analyse("small", results)
    assert [claim.verdict for claim in found.claims] == ["undecided", verdict]
    assert "controls" not in found.about


def test_charts_show_all_algorithms_and_their_models():
    charts = {chart.id: chart for chart in findings([1750] * 10, [2500] * 10).charts}
    names = ["narl", "mbpo", "narl-exclude-above", "mbpo-3-members"]
    assert list(charts) == [
        *("fig3a", "fig3a-iqm", "fig3a-profile"),
        *(f"fig3a-{kind}-{name}" for kind in ("inside", "radius") for name in names),
        *("fig3a-selected", "fig3a-distance", "fig3a-fallback"),
    ]
    narl, mbpo = charts["fig3a"].series[:2]
    assert (narl.label, narl.x, narl.y) == ("NARL", [250.0, 500.0], [5.0, 1000.0])
    assert (mbpo.low[1], mbpo.high[1]) == (0.0, 1000.0)
    draws, means, outside = charts["fig3a-inside-mbpo"].series
    assert (draws.x, draws.y) == ([500.0], [501.0])  # no untrained model
    assert (means.y, outside.y) == ([502.0], [500.0])
    at_radii = charts["fig3a-radius-mbpo-3-members"].series
    assert [line.label for line in at_radii] == ["ε = 0.1", "ε = 5", "ε = none"]
    assert [line.y for line in at_radii] == [pytest.approx([1 / 3] * 3)] * 3
    for name in ("fig3a-selected", "fig3a-distance"):
        assert [len(line.x) for line in charts[name].series] == [3, 7, 3, 3]
    assert [line.label for line in charts["fig3a-fallback"].series] == ["NARL"]


# --- trainings --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
def test_short_trainings_are_run_found_again_and_reported(call):
    configs = {
        "NARL": short_config(algo="narl", radius=0.1),
        "MBPO": short_config(algo="mbpo", elites=1),
    }
    experiment = EXPERIMENTS["fig3a"]._replace(cells=lambda scale: configs)
    outcome = reproduce(experiment, "smoke", Path("runs"))
    assert len(outcome.charts) == 8
    assert all(series.y for chart in outcome.charts for series in chart.series)
    assert outcome.charts[0].series[0].x == [100, 200, 300]
    assert {claim.verdict for claim in outcome.claims} == {"undecided"}
    assert {"mujoco", "gymnasium", "optax", "device"} <= set(outcome.environment)
    shares = next(chart for chart in outcome.charts if chart.id == "fig3a-selected")
    assert [sum(series.y) for series in shares.series] == pytest.approx([1.0, 1.0])
    assert shares.series[1].y == [0.0, 1.0]  # MBPO draws from its elites: here the better of two
    assert reproduce(experiment, "smoke", Path("runs")) == outcome

    answer = call("report", *outcome.runs, "--json")
    assert answer.status == 0
    names = ["returns", "promise-1", "promise-2", "radius-1", "radius-2"]
    names += ["selected", "distance", "disagreement"]  # with `above` there is no fallback
    figures = [file for file in json.loads(answer.out)["files"] if file.endswith(".png")]
    prefix = "report-figures/train-toy-worlds-toy-v0"
    assert figures == [f"{prefix}-{name}.png" for name in names]
    assert 'class="empty"' not in Path("report.html").read_text()


def tiny_experiment() -> Experiment:
    """Return an experiment of one short training."""

    def analyse(scale, results):
        series = [curve(label, result.rows(), "eval_return") for label, result in results.items()]
        return Findings("A test.", [Chart("tiny", "Return", "steps", "return", series)], [], [])

    return Experiment("tiny", "A training", lambda scale: {"SAC": short_config()}, analyse)


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
def test_interrupted_experiment_continues_from_its_checkpoint(call, monkeypatch):
    monkeypatch.setattr("narl.commands.reproduce.EXPERIMENTS", {"tiny": tiny_experiment()})
    steps: list[int] = []

    def advance(bars, label, done):
        steps.append(done)
        if done == 150 and len(steps) == 150:
            os.kill(os.getpid(), signal.SIGTERM)  # like Ctrl-C, which a shell may ignore
            time.sleep(0.5)  # until the main thread has answered the signal

    monkeypatch.setattr("narl.console.Bars.advance", advance)
    command = ["reproduce", "tiny", "--scale", "small", "--json"]
    answer = call(*command)
    assert (answer.status, answer.out) == (3, ""), answer.err
    last = answer.err.splitlines()[-1]
    assert last.startswith("narl: stopped at step 15")
    assert last.endswith("the same command continues from there")
    stopped = steps[-1]
    assert stopped < 160
    (part,) = Path("runs").iterdir()
    assert part.name.endswith(".part")
    assert not Path("results").exists()

    steps.clear()
    answer = call(*command)
    assert answer.status == 0
    assert steps == list(range(stopped, 301))
    (run,) = Path("runs").iterdir()
    assert json.loads(answer.out)["outcomes"][0]["runs"] == [run.name]
    outcome = load_outcome(Path("results") / "tiny-small.json")
    assert outcome.charts[0].series[0].x == [100, 200, 300]
