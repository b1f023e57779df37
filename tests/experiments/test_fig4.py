"""Figs. 2 and 4: nine configurations, correlations and verdicts by hand."""

import numpy as np
import pytest
from fake_results import training_result

from narl.experiments import EXPERIMENTS, fig4, table2
from narl.experiments.fig4 import FEW, MANY


def log_row(returns, inside, shares=None):
    """Return a row of a metrics log; ``shares`` are those of members, the least accurate first."""
    num = len(returns)
    shares = shares or {"none": [0.5, 0.3, 0.2], "5": [0.4, 0.3, 0.3], "0.1": [0.34, 0.33, 0.33]}
    members = len(shares["none"])
    errors = [[[float(members - i) for i in range(members)]]] * num
    row = {
        "step": 3000,
        "eval_return": returns,
        "model_return": inside,
        "mean_model_return": inside,
        "model_epochs": [1] * num,
        "fit_holdout_error": errors,
        "fit_distance": [[[3.0, 2.0, 1.0]]] * num,
        "selected": [[0.4, 0.3, 0.3]] * num,
        "distance": [[3.0, 2.0, 1.0]] * num,
        "holdout_error": [each[0] for each in errors],
    }
    return row | {f"fit_selected_{name}": [[values]] * num for name, values in shares.items()}


def results(returns):
    """Return results with these (return, return inside the model) per seed, by label."""
    cells = fig4.cells("paper")
    return {
        label: training_result(
            cells[label], [None] * len(real), real, [log_row(list(real), list(inside))]
        )
        for label, (real, inside) in returns.items()
    }


def test_configurations_are_those_of_table_2_for_3000_steps():
    cells = EXPERIMENTS["fig4"].cells("paper")
    assert list(cells) == list(table2.cells("paper"))
    assert {(cell.steps, cell.until_solved, cell.preset) for cell in cells.values()} == {
        (3000, False, "paper")
    }
    assert EXPERIMENTS["fig2"].cells("paper") == {MANY: cells[MANY]}


def test_delusion_and_slow_learning_are_judged_from_the_last_returns():
    real, inside = [100.0, 110.0, 90.0, 105.0], [900.0, 950.0, 850.0, 910.0]
    found = fig4.analyse("paper", results({MANY: (real, inside), FEW: (inside, inside)}))
    assert [claim.verdict for claim in found.claims] == ["holds", "holds"]
    assert found.tables[0].rows[0] == [MANY, 101.25, 902.5, 902.5, 801.25, 90.0, 840.0]
    turned = fig4.analyse("paper", results({MANY: (inside, real), FEW: (real, real)}))
    assert [claim.verdict for claim in turned.claims] == ["fails", "fails"]


def test_selection_follows_distance_and_a_radius_makes_it_even():
    real = [100.0, 110.0, 90.0, 105.0]
    found = fig4.analyse_selection("paper", results({MANY: (real, real)}))
    assert {claim.id: claim.verdict for claim in found.claims} == {
        "fig2-correlated": "holds",
        "fig2-worst-member": "holds",
        "fig2-wide-radius": "holds",
        "fig2-radius": "holds",
    }
    assert found.tables[0].rows[0] == [1, 0.5, 0.4, 0.34, 3.0]


def test_correlation_and_unevenness_by_hand():
    shares = np.array([[0.5, 0.5, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]])
    distance = np.array([[2.0, 2.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0]])
    np.testing.assert_allclose(fig4.correlations(shares, distance), [1.0, 0.0])
    np.testing.assert_allclose(fig4.correlations(shares, -distance), [-1.0, 0.0])
    np.testing.assert_allclose(fig4.unevenness(shares), [0.5, 0.0])
    assert fig4.unevenness(np.array([[1.0, 0.0]])) == pytest.approx(0.5)
