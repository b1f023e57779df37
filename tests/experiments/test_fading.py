"""Noise that fades: its cells, what counts as kept, and the claims, by hand."""

import numpy as np
import pytest
from fake_results import training_result

from narl.experiments import SCALES, fading
from narl.experiments.fading import ANNEALED, PLAIN, PRESET


@pytest.mark.parametrize("scale", SCALES)
def test_variants_differ_in_their_noise_only(scale):
    for variant, cell in fading.cells(scale).items():
        assert (cell.env, cell.algo, cell.noise) == ("MountainCarContinuous-v0", "narl", "reward")
        assert cell.seeds == tuple(range(500, 510)) if scale == "paper" else (500,)
        assert cell.anneal_steps == (cell.steps // 2 if variant == ANNEALED else None)
        assert cell.noise_scale == (0.003 if variant == PRESET else 0.01)


def findings(later, first=95.0):
    """Return the findings for ten seeds, the returns of a second half, and a first evaluation."""
    results = {}
    for variant, cell in fading.cells("paper").items():
        found = np.array(later[variant])
        log = [
            {"step": step, "holdout_error": [1.0], "bonus": [0.25, 0.75], "eval_return": [0.0]}
            for step in (5000, 10_000, 15_000, 20_000)
        ]
        result = training_result(cell, [None] * 10, found[:, -1].tolist(), log)
        early = np.stack(
            [np.full(10, 0.0) + first, np.full(10, 95.0)], axis=1
        )  # steps 5000 and 10 000
        result.arrays["eval_return"] = np.concatenate([early, found], axis=1).T
        results[variant] = result
    return fading.analyse("paper", results)


GOOD = [[95.0, 95.0]] * 10
LOST = [[95.0, 95.0]] * 8 + [[95.0, 10.0], [0.0, 0.0]]


def test_table_says_what_was_kept():
    """One of the ten seeds loses what it found, and one has not found it."""
    table, differences, comparisons = findings(
        {PLAIN: LOST, ANNEALED: [[100.0, 99.0]] * 10, PRESET: GOOD}
    ).tables
    rows = {row[0]: row[1:] for row in table.rows}
    total = 8 * 190 + 105 + 10 * 190
    assert rows[PLAIN][:3] == pytest.approx([total / 40, 47.5, (8 * 95 + 10) / 10])
    last = pytest.approx((8 * 95 + 10) / 10)
    assert rows[PLAIN][3:] == [10, 8, pytest.approx(17 / 20), 8, last, 0.5]
    assert rows[ANNEALED][3:7] == [10, 10, 1.0, 10]
    assert len(table.columns) == len(table.rows[0])
    (row,) = (row for row in differences.rows if ANNEALED in row[0])
    assert row[3] == "holds"
    assert [row[0] for row in comparisons.rows] == ["fading-annealed"]


@pytest.mark.parametrize(
    ("preset", "first", "solved", "kept"),
    [
        (GOOD, 95.0, "holds", "holds"),
        (GOOD, 89.0, "fails", "holds"),  # not by step 5000
        (GOOD, [95.0] * 9 + [0.0], "holds", "holds"),
        (GOOD, [95.0] * 8 + [0.0] * 2, "fails", "holds"),
        ([[95.0, 95.0]] * 9 + [[95.0, 89.0]], 95.0, "holds", "holds"),
        (LOST, 95.0, "fails", "fails"),  # eight seeds at the end, a mean of 77
        ([[95.0, 95.0]] * 9 + [[0.0, 95.0]], 95.0, "holds", "fails"),  # a mean of 85.5
    ],
)
def test_claims_on_the_presets_noise_count_seeds(preset, first, solved, kept):
    claims = findings({PLAIN: GOOD, ANNEALED: GOOD, PRESET: preset}, first).claims
    verdicts = {claim.id: claim.verdict for claim in claims}
    assert (verdicts["fading-solved"], verdicts["fading-never-lost"]) == (solved, kept)


def test_one_seed_decides_nothing():
    results = {}
    for variant, cell in fading.cells("small").items():
        log = [{"step": 5000, "holdout_error": [1.0], "bonus": [0.5], "eval_return": [0.0]}]
        results[variant] = training_result(cell, [None], [95.0], log)
        results[variant].arrays["eval_return"] = np.array([[95.0], [95.0]])[:1]
    verdicts = {claim.verdict for claim in fading.analyse("small", results).claims}
    assert verdicts == {"undecided"}


@pytest.mark.parametrize(("annealed", "verdict"), [(60.5, "undecided"), (30.0, "fails")])
def test_annealed_noise_that_does_not_keep_more_is_not_said_to(annealed, verdict):
    """The order of the seeds is another one, so that a small difference is undecided."""
    order = np.arange(10.0)
    plain, other = 60.0 + order, annealed + order[::-1]
    later = {PLAIN: np.stack([plain] * 2, axis=1), ANNEALED: np.stack([other] * 2, axis=1)}
    claims = findings(later | {PRESET: GOOD}).claims
    assert {claim.id: claim.verdict for claim in claims}["fading-annealed"] == verdict
