"""Fig. 3(a): the same settings for both, figures read rightly, trainings that go on."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from narl import cli, storage
from narl.experiments import EXPERIMENTS, SCALES, Experiment, fig3a, reproduce
from narl.experiments.experiment import Result, is_training, length
from narl.report import document as outcomes
from narl.report import write_report
from narl.report.document import Chart, Outcome
from narl.report.page import compose
from narl.report.training_curves import around_mean, by_accuracy, curve, fewer, modelled
from narl.storage.metrics_log import PROGRESS

ROOT = Path(__file__).resolve().parents[1]


# --- what is run ------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
def test_both_algorithms_share_all_settings_but_their_ensemble(scale):
    narl, mbpo = fig3a.cells(scale).values()
    assert (narl.settings.num_members, narl.settings.radius) == (3, 0.1)
    assert (mbpo.settings.num_members, mbpo.settings.num_elites) == (7, 5)
    assert dataclasses.replace(mbpo.settings, algo="narl", members=3, radius=0.1) == narl.settings
    assert (narl.seeds, narl.until_solved) == (mbpo.seeds, mbpo.until_solved)
    assert is_training(narl)
    assert length(narl) == narl.settings.steps


def test_the_paper_scale_is_the_papers():
    narl = fig3a.cells("paper")["NARL"]
    assert (narl.settings.env, narl.settings.algo) == ("InvertedPendulum-v4", "narl")
    assert narl.seeds == tuple(range(10))
    assert (narl.settings.steps, narl.until_solved) == (5000, False)
    assert (narl.settings.epoch_length, narl.settings.solved_return) == (250, 1000.0)


def test_experiments_are_listed_without_the_deep_half():
    program = "import sys, narl.experiments; print('narl.deep.training_run' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


# --- what is read in the journals -------------------------------------------------------------


def row(step, eval_return, members=3, **more):
    """An epoch with a trained ensemble, of as many seeds as there are returns."""
    each = [1.0 / members] * members
    seeds = len(eval_return)
    return {
        "step": step,
        "eval_return": eval_return,
        "model_return": [value + 1.0 for value in eval_return],
        "holdout_error": [list(range(members, 0, -1))] * seeds,
        "selected": [each] * seeds,
        "distance": [each] * seeds,
        "fallback": [0.25] * seeds,
        **more,
    }


def made_up(label, solved, rows):
    """A result with a given journal, as if it had been trained."""

    class Kept(storage.Run):
        def extra(self, name):
            assert name == PROGRESS
            return "".join(json.dumps(each) + "\n" for each in rows).encode()

    metrics = {
        "solved_step": solved,
        "final_return": rows[-1]["eval_return"],
        "updates": 47500,
        "seconds": {"compile": 1.0, "total": 12.34},
    }
    kept = Kept(path=None, id=label, config={}, metrics=metrics, environment={})
    return Result(fig3a.cells("paper")[label], kept)


def ten(narl_solved, mbpo_solved):
    """Results of ten seeds: NARL comes to 1000, MBPO to 500 on the average."""
    start = {"step": 250, "eval_return": [5.0] * 10, "model_return": [7.0] * 10}
    return {
        "NARL": made_up("NARL", narl_solved, [start, row(500, [1000.0] * 10)]),
        "MBPO": made_up("MBPO", mbpo_solved, [start, row(500, [0.0, 1000.0] * 5, members=7)]),
    }


def test_curves_are_mean_and_population_std_by_hand():
    rows = [row(250, [1.0, 3.0]), row(500, [2.0, 10.0])]
    series = curve("x", rows, "eval_return")
    assert series.x == [250.0, 500.0]
    assert series.y == [2.0, 6.0]
    assert series.low == [1.0, 2.0]
    assert series.high == [3.0, 10.0]


def test_a_single_seed_has_no_band_and_what_is_missing_is_a_gap():
    rows = [row(250, [3.0], train_return=[None]), row(500, [3.0], train_return=[4.0])]
    series = curve("x", rows, "train_return")
    assert np.isnan(series.y[0])
    assert series.y[1] == 4.0
    assert (series.low, series.high) == (None, None)
    assert around_mean("x", [1.0], np.array([[2.0]])).low is None


def test_members_are_ranked_anew_in_every_epoch():
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


def test_epochs_before_the_first_model_tell_nothing_of_it():
    before, after = {"step": 250}, row(500, [1.0])
    assert modelled([before, after]) == [after]


def test_fewer_steps_needs_seeds_and_quartiles_apart():
    few, many, never = np.full(4, 1750.0), np.full(4, 2500.0), np.full(4, np.inf)
    assert fewer(few, many) == "holds"
    assert fewer(many, few) == "fails"
    assert fewer(few, never) == "holds"
    assert fewer(never, few) == "fails"
    assert fewer(never, never) == "undecided"
    assert fewer(few, np.array([1500.0, 1750.0, 2000.0, 2250.0])) == "undecided"
    assert fewer(few[:1], many[:1]) == "undecided"


# --- what comes out ---------------------------------------------------------------------------


def test_the_table_by_hand():
    found = fig3a.analyse("paper", ten([1500, 2000] * 5, [3000] * 4 + [None] * 6))
    (table,) = found.tables
    assert [len(cells) for cells in table.rows] == [len(table.columns)] * 2
    assert table.rows[0] == ["NARL", 10, 10, 1750.0, 250.0, 1000.0, 0.0, 47500, 12.3]
    assert table.rows[1] == ["MBPO", 10, 4, 3000.0, 0.0, 500.0, 500.0, 47500, 12.3]


def test_claims_by_their_rules():
    def verdicts(narl, mbpo):
        return [claim.verdict for claim in fig3a.analyse("paper", ten(narl, mbpo)).claims]

    assert verdicts([1750] * 10, [2500] * 10) == ["holds", "holds"]
    assert verdicts([2500] * 10, [1750] * 10) == ["fails", "holds"]
    assert verdicts([1750] * 9 + [None], [None] * 10) == ["holds", "fails"]
    (fewer_steps, _) = fig3a.analyse("paper", ten([1750] * 9 + [None], [2000] * 10)).claims
    assert "NARL 1750, 1750" in fewer_steps.numbers
    assert "never; MBPO 2000" in fewer_steps.numbers


def test_one_seed_decides_nothing_but_a_failure():
    def verdicts(solved):
        rows = [row(250, [10.0]), row(500, [1000.0])]
        results = {label: made_up(label, [solved], rows) for label in ("NARL", "MBPO")}
        return [claim.verdict for claim in fig3a.analyse("small", results).claims]

    assert verdicts(500) == ["undecided", "undecided"]
    assert verdicts(None) == ["undecided", "fails"]


def test_charts_say_what_they_show():
    found = fig3a.analyse("paper", ten([1750] * 10, [2500] * 10))
    charts = {chart.id: chart for chart in found.charts}
    assert len(charts) == len(found.charts) == 6
    narl, mbpo = charts["fig3a"].series
    assert (narl.label, narl.x, narl.y) == ("NARL", [250.0, 500.0], [5.0, 1000.0])
    assert (mbpo.low[1], mbpo.high[1]) == (0.0, 1000.0)
    promised, real = charts["fig3a-inside-mbpo"].series
    assert (promised.x, promised.y, real.y) == ([500.0], [501.0], [500.0])  # no untrained model
    assert [len(each.x) for each in charts["fig3a-selected"].series] == [3, 7]
    assert charts["fig3a-distance"].series[1].y == pytest.approx([1 / 7] * 7)
    (fallback,) = charts["fig3a-fallback"].series
    assert fallback.y == [0.25]
    assert "standard deviation over 10 seeds" in charts["fig3a"].caption


@pytest.mark.slow
def test_the_report_shows_it(tmp_path):
    found = fig3a.analyse("paper", ten([1750] * 10, [None] * 10))
    kept = outcomes.load(outcomes.save(found, tmp_path))
    page = compose([kept])
    assert page.count('<figure class="chart"') == page.count("data-filled>") == 6
    assert "NARL solves InvertedPendulum in fewer steps than MBPO." in page


# --- trainings --------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_smoke_scale_runs_and_is_found_again(tmp_path):
    found = reproduce(EXPERIMENTS["fig3a"], "smoke", tmp_path / "runs")
    assert len(found.charts) == 6
    assert all(series.y for chart in found.charts for series in chart.series)
    assert found.charts[0].series[0].x == [250, 500, 600]
    assert {claim.verdict for claim in found.claims} == {"undecided"}
    assert {"mujoco", "gymnasium", "optax", "device"} <= set(found.environment)
    shares = next(chart for chart in found.charts if chart.id == "fig3a-selected")
    assert [sum(series.y) for series in shares.series] == pytest.approx([1.0, 1.0])
    assert shares.series[1].y[:2] == [0.0, 0.0]  # MBPO draws from its elite five of seven
    again = reproduce(EXPERIMENTS["fig3a"], "smoke", tmp_path / "runs")
    assert again == found
    files = write_report([found], tmp_path / "report.html")
    assert [path.suffix for path in files] == [".html", *(".png", ".pdf") * 6]


def tiny_experiment() -> Experiment:
    """One training that takes a second once it is compiled."""

    def cells(scale):
        from narl.deep.config import make_settings
        from narl.deep.training_run import Course

        settings = make_settings(
            "InvertedPendulum-v4",
            "sac",
            steps=400,
            epoch_length=100,
            initial_steps=50,
            updates_per_step=1,
            batch=8,
            hidden=(8,),
        )
        return {"SAC": Course(settings)}

    def analyse(scale, results):
        series = [curve(label, each.rows(), "eval_return") for label, each in results.items()]
        chart = Chart("tiny", "Return", "steps", "return", series)
        return Outcome("tiny", "A training", scale, "", "A test.", [chart], [], [])

    return Experiment("tiny", "A training", cells, analyse)


@pytest.mark.slow
def test_an_interrupted_training_goes_on(tmp_path, monkeypatch, capsys):
    """An interrupt leaves a checkpoint and ends with 3; the same command continues from there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("narl.compilation.enable_cache", lambda: None)
    monkeypatch.delenv("NARL_RUNS", raising=False)
    monkeypatch.setattr("narl.experiments.EXPERIMENTS", {"tiny": tiny_experiment()})
    steps: list[int] = []

    def advance(bars, label, done):
        steps.append(done)
        if done == 150 and len(steps) == 150:
            os.kill(os.getpid(), signal.SIGTERM)  # as Ctrl-C, which a shell may ignore
            time.sleep(0.5)  # until the thread that waits has heard it

    monkeypatch.setattr("narl.console.Bars.advance", advance)
    command = ["reproduce", "tiny", "--scale", "small", "--json"]
    assert cli.main(command) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1].startswith("narl: stopped at step 15")
    assert said.err.splitlines()[-1].endswith("the same command continues from there")
    stopped = steps[-1]
    assert stopped < 160
    (part,) = (tmp_path / "runs").iterdir()
    assert part.name.endswith(".part")
    assert not (tmp_path / "results").exists()

    steps.clear()
    assert cli.main(command) == 0
    assert steps == list(range(stopped, 401))
    told = json.loads(capsys.readouterr().out)
    (kept,) = (tmp_path / "runs").iterdir()
    assert told["outcomes"][0]["runs"] == [kept.name]

    outcome = outcomes.load(tmp_path / "results" / "tiny-small.json")
    whole = reproduce(tiny_experiment(), "small", tmp_path / "uninterrupted")
    assert outcome.charts[0].series[0].y == whole.charts[0].series[0].y
