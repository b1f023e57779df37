"""Experiments: valid cells, verdicts by their rules, outcomes that round-trip."""

import dataclasses
import json
import math

import numpy as np
import pytest

from narl import cli, storage
from narl.errors import InputError
from narl.experiments import (
    EXPERIMENTS,
    SCALES,
    ablation,
    fig1a,
    fig1b,
    fig1c,
    reproduce,
    table1,
)
from narl.experiments.analysis import band, below, decomposition_table, thin, worst
from narl.experiments.experiment import SILENT, Result, is_training
from narl.report import document as outcomes
from narl.stats import Growth
from narl.tabular.config import study


def made_up(regret, value, v_star=2.0, solved=None):
    """A result with given arrays, as if it had been run."""
    arrays = {"regret": np.asarray(regret), "value": np.asarray(value)}
    arrays["trajectory_gap"] = arrays["regret"]

    class Kept(storage.Run):
        def arrays(self):
            return arrays

    metrics = {"v_star": v_star, "episodes": arrays["regret"].shape[1], "solved_episode": solved}
    return Result(
        study("greedy"), Kept(path=None, id="x", config={}, metrics=metrics, environment={})
    )


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_cell_has_a_valid_configuration(name, scale):
    cells = EXPERIMENTS[name].cells(scale)
    ids = {}
    for label, item in cells.items():
        # The configuration of a study hashes its tables: keep it quick.
        if is_training(item) or item.size is None or item.size <= 14:
            ids.setdefault(storage.run_id(item.config()), []).append(label)
    assert ids
    assert len({len(item.seeds) for item in cells.values()}) == 1


def test_the_ablation_chooses_on_seeds_that_no_figure_uses():
    tuned = {s for item in ablation.cells("paper").values() for s in item.seeds}
    for name in ("fig1a", "fig1b", "fig1c", "table1"):
        reported = {s for item in EXPERIMENTS[name].cells("paper").values() for s in item.seeds}
        assert not tuned & reported


def test_the_paper_scale_is_the_papers():
    cells = fig1a.cells("paper")
    assert {item.episodes for item in cells.values()} == {1000}
    assert all(item.seeds == tuple(range(20)) for item in cells.values())
    assert sorted({item.size for item in fig1c.cells("paper").values()}) == list(range(10, 30, 2))


def test_below_needs_the_quartile_ranges_apart():
    assert below([1, 2, 3], [10, 11, 12]) == "holds"
    assert below([10, 11, 12], [1, 2, 3]) == "fails"
    assert below([1, 2, 30], [2, 3, 4]) == "undecided"
    assert below([1, 2, 3], [math.inf] * 3) == "holds"


def test_worst_is_a_conjunction():
    assert worst(["holds", "holds"]) == "holds"
    assert worst(["holds", "undecided"]) == "undecided"
    assert worst(["holds", "undecided", "fails"]) == "fails"


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("length", [1, 7, 200, 201, 20000])
def test_thinned_curves_keep_both_ends(length, log):
    keep = thin(length, log=log)
    assert keep[0] == 0
    assert keep[-1] == length - 1
    assert len(keep) <= 200
    assert (np.diff(keep) > 0).all()


def test_band_is_median_and_quartiles_by_hand():
    series = band("x", np.array([[0.0, 4.0], [2.0, 8.0], [4.0, 12.0]]))
    assert series.x == [1, 2]
    assert series.y == [2.0, 8.0]
    assert series.low == [1.0, 6.0]
    assert series.high == [3.0, 10.0]


def test_decomposition_table_by_hand():
    # V* = 2; regrets 1, 0; Ṽ = 3, 2: optimism −1, 0 and estimation error 2, 0.
    table = decomposition_table("t", "t", {"a": made_up([[1.0, 0.0]], [[3.0, 2.0]])})
    row = table.rows[0]
    assert len(row) == len(table.columns)
    assert row[table.columns.index("regret")] == 1.0
    assert row[table.columns.index("optimism")] == -1.0
    assert row[table.columns.index("estimation error")] == 2.0
    assert row[table.columns.index("share of episodes with Ṽ ≥ V*")] == 1.0


def test_convergence_counts_from_the_last_episode_that_was_off():
    result = made_up([[0.0] * 4] * 3, [[2, 2, 2, 2], [9, 2, 9, 2], [2, 2, 2, 9]])
    assert fig1b.converged(result).tolist() == [1, 4, 5]


def test_slower_is_open_where_the_run_was_too_short():
    never, soon = np.full(3, 101.0), np.full(3, 10.0)
    assert fig1b.slower(never, soon, 100) == "holds"
    assert fig1b.slower(soon, soon, 100) == "fails"
    assert fig1b.slower(never, never, 100) == "undecided"
    assert fig1b.slower(soon, never, 100) == "fails"


def test_growth_confirms_a_bound_but_never_refutes_it():
    assert table1.verdict(Growth(0.5, 0.4, 0.55)) == "holds"
    assert table1.verdict(Growth(1.0, 0.9, 1.1)) == "undecided"
    assert table1.verdict(Growth(math.nan, math.nan, math.nan)) == "undecided"


def test_printed_bounds_by_hand():
    ucbvi = table1.bound_at(table1.ROWS["UCBVI (Hoeffding)"], 100.0)
    assert ucbvi == pytest.approx(math.sqrt(20 * 6 * 2 * 100))
    narl = table1.bound_at(table1.ROWS["Noise Augmented UCRL"], 100.0)
    assert narl == pytest.approx(6 * 20 * math.sqrt(6 * 2 * 100))


def _ablation_results(best: float) -> dict[str, Result]:
    """Constants up to ``best`` fit both findings; larger ones do not solve Deep Sea."""
    one = [[1.0]]
    results = {
        "OPSRL · RiverSwim": made_up([[100.0]], one),
        "UCRL2 · RiverSwim": made_up([[1000.0]], one),
        "bootstrap · Deep Sea 28": made_up(one, one, solved=[400]),
    }
    for c in ablation.CONSTANTS:
        results[f"c={c:g} · RiverSwim"] = made_up([[10.0]], one)
        results[f"c={c:g} · Deep Sea 28"] = made_up(one, one, solved=[200 if c <= best else None])
    return results


def test_the_default_constant_is_claimed_only_if_it_is_the_largest_that_fits():
    default, printed = ablation._claims(_ablation_results(0.005))
    assert (default.verdict, printed.verdict) == ("holds", "fails")
    default, printed = ablation._claims(_ablation_results(1.0))
    assert (default.verdict, printed.verdict) == ("fails", "holds")


@pytest.mark.slow
def test_reproduce_runs_finds_again_and_round_trips(tmp_path):
    seen: list[tuple[str, bool]] = []
    watch = SILENT._replace(end=lambda *end: seen.append(end))
    few = EXPERIMENTS["fig1a"]._replace(
        cells=lambda scale: {
            label: dataclasses.replace(item, episodes=6, seeds=(0, 1))
            for label, item in fig1a.cells(scale).items()
        }
    )
    first = reproduce(few, "smoke", tmp_path / "runs", watch=watch)
    assert [found for _, found in seen] == [False] * len(seen)
    seen.clear()
    again = reproduce(few, "smoke", tmp_path / "runs", watch=watch)
    assert [found for _, found in seen] == [True] * len(seen)
    assert again.claims == first.claims
    assert {claim.verdict for claim in first.claims} == {"undecided"}  # smoke decides nothing
    assert first.command == "narl reproduce fig1a --scale smoke"
    path = outcomes.save(first, tmp_path / "results")
    assert path.name == "fig1a-smoke.json"
    loaded = outcomes.load(path)
    assert loaded.claims == first.claims
    assert [chart.id for chart in loaded.charts] == [chart.id for chart in first.charts]
    assert "NaN" not in path.read_text()


def test_the_help_of_reproduce_names_every_experiment(capsys):
    assert cli.main(["reproduce", "--help"]) == 0
    listed = capsys.readouterr().out
    assert [name for name in EXPERIMENTS if name not in listed] == []


def test_a_damaged_outcome_is_refused_in_one_line(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"charts": []}))
    with pytest.raises(InputError, match="outcome") as caught:
        outcomes.load(path)
    assert "\n" not in str(caught.value)
