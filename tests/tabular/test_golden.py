"""Every agent on RiverSwim: Eq. 1 adds up, and the numbers are the stored ones.

`tests/golden/riverswim.json` keeps the numbers, so that no algorithm changes unnoticed. After an
intended change write them again, look at the difference and commit it:

    python tests/tabular/test_golden.py --write
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from variants import LABELS, NUM_EPISODES, SEEDS, VARIANTS, trace_of

from narl.tabular import Trace, riverswim

GOLDEN = Path(__file__).parents[1] / "golden" / "riverswim.json"
EVERY = 10
"""Cumulative regret is kept after every tenth episode."""


def figures(label: str) -> dict[str, list[list[float]]]:
    """Return cumulative regret and Ṽ_k of a variant after every tenth episode, per seed."""
    trace = trace_of(label)
    kept = {"regret": trace.regret.cumsum(axis=1), "value": trace.value}
    return {
        name: [[float(f"{x:.6g}") for x in row] for row in array[:, EVERY - 1 :: EVERY]]
        for name, array in kept.items()
    }


def assert_terms_add_up_to_regret(trace: Trace) -> None:
    """Check Eq. 1 in every episode."""
    terms = trace.decomposition
    total = terms.optimism + terms.estimation_error
    # Ṽ_k may be 1e14 (signed noise without a clip): accurate to the last bits of the larger term.
    scale = np.maximum(1.0, np.abs(trace.value))
    assert (np.abs(total - terms.regret) <= 4 * np.finfo(np.float64).eps * scale).all()
    np.testing.assert_allclose(terms.regret, trace.regret, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(terms.optimism, trace.optimism)
    np.testing.assert_array_equal(terms.estimation_error, trace.estimation_error)
    np.testing.assert_array_equal(trace.optimism, trace.v_star - trace.value)


def assert_finite_and_in_range(trace: Trace) -> None:
    """Check the ranges of all scores; no reward is negative, so no policy is worth less than 0."""
    for name in ("regret", "value", "trajectory_gap", "realised_return"):
        array = getattr(trace, name)
        assert (array.shape, array.dtype) == ((len(SEEDS), NUM_EPISODES), np.float64)
        assert np.isfinite(array).all()
        assert name == "value" or (array >= 0).all()
    assert (trace.regret <= trace.v_star + 1e-5).all()
    assert (trace.realised_return <= riverswim().horizon).all()


@pytest.mark.parametrize("label", LABELS)
def test_numbers_are_the_stored_ones_finite_and_add_up(label):
    kept = json.loads(GOLDEN.read_text(encoding="utf-8"))[label]
    for name, rows in figures(label).items():
        # Rounding may differ between processors; another draw or policy differs by far more.
        np.testing.assert_allclose(rows, kept[name], rtol=1e-4, atol=1e-5, err_msg=name)
    trace = trace_of(label)
    assert_terms_add_up_to_regret(trace)
    assert_finite_and_in_range(trace)


def test_file_has_exactly_the_variants():
    assert set(json.loads(GOLDEN.read_text(encoding="utf-8"))) == set(VARIANTS)


def write() -> None:
    """Write the file again."""
    entries = [f"  {json.dumps(label)}: {json.dumps(figures(label))}" for label in VARIANTS]
    GOLDEN.write_text("{\n" + ",\n".join(entries) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/tabular/test_golden.py --write")
    write()
