"""Fewer steps: the combinations of ideas, their effects and the claims, by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
from fake_results import training_result

from narl.experiments import SCALES, fewer_steps
from narl.experiments.fewer_steps import ALL_IDEAS, CHOSEN, MBPO, MEANS, NARL, NO_IDEA, UPDATE

BUDGET = 2500
OUTCOME = Path(__file__).parents[2] / "results" / "fewer-steps-paper.json"


def findings(steps_of):
    """Return the findings if a cell solves the task at ``steps_of(combination, way, is_fresh)``."""
    cells = fewer_steps.cells("paper")
    results = {}
    for is_fresh, keys in (
        (False, fewer_steps._tuned("paper")),
        (True, fewer_steps._fresh("paper")),
    ):
        for key in keys:
            label = fewer_steps.label_of(key, is_fresh)
            steps = steps_of(*key, is_fresh)
            log = [{"step": 250, "eval_return": [500.0] * len(steps)}]
            result = training_result(cells[label], steps, [1000.0] * len(steps), log=log)
            result.arrays["eval_return"] = np.full((2, len(steps)), 500.0)
            results[label] = result
    return fewer_steps.analyse("paper", results)


def around(centre):
    return [centre - 50, centre, centre + 50, centre]


def test_combinations_differ_in_the_ideas_only():
    cells = fewer_steps.cells("paper")
    assert len(cells) == 8 * 3 + 4 + 5
    plain = cells[fewer_steps.label_of((NO_IDEA, UPDATE), True)]
    full = cells[fewer_steps.label_of((ALL_IDEAS, UPDATE), True)]
    ideas = {option: (unused, used) for option, unused, used in fewer_steps.IDEAS.values()}
    for option, values in ideas.items():
        assert (getattr(plain, option), getattr(full, option)) == values
    assert {cell.members for cell in cells.values()} == {3}
    tuned = {cell.seeds for label, cell in cells.items() if label.startswith("tuning")}
    fresh = {cell.seeds for label, cell in cells.items() if label.startswith("fresh")}
    assert (tuned, fresh) == ({tuple(range(200, 210))}, {tuple(range(500, 510))})
    assert cells[fewer_steps.label_of((NO_IDEA, MEANS), True)].draw == "mean"


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_has_the_chosen_narl_and_its_control(scale):
    labels = list(fewer_steps.cells(scale))
    assert fewer_steps.label_of(CHOSEN, True) in labels
    assert fewer_steps.label_of((CHOSEN[0], MBPO), True) in labels


def test_effects_are_averages_over_everything_else():
    # Every idea saves 200, 100 and 50 steps; the algorithms differ by 10.
    savings, place = (200, 100, 50), {MBPO: 0, MEANS: 10, NARL: 20, UPDATE: 30}

    def steps_of(combination, way, is_fresh):
        saved = sum(s for s, used in zip(savings, combination, strict=True) if used)
        return around(2000 - saved + place[way])

    outcome = findings(steps_of)
    (effects,) = (table for table in outcome.tables if table.id == "fewer-steps-effects")
    assert [row[6] for row in effects.rows] == [-200.0, -100.0, -50.0]
    assert [row[0] for row in effects.rows] == list(fewer_steps.IDEAS)
    assert outcome.notes == [
        "The NARL of the fewest steps on the tuning seeds: NARL, "
        + ", ".join(fewer_steps.IDEAS)
        + "."
    ]


@pytest.mark.parametrize(
    ("ours", "mbpo", "verdicts"),
    [
        (1000, 1400, ["holds", "holds", "holds", "undecided"]),
        (1700, 1400, ["fails", "fails", "holds", "undecided"]),
        (1500, 1500, ["undecided", "undecided", "holds", "undecided"]),
    ],
)
def test_claims_are_about_fresh_seeds_only(ours, mbpo, verdicts):
    def steps_of(combination, way, is_fresh):
        if not is_fresh:
            return around(600)
        if combination == NO_IDEA:
            return around(2000)
        return around(ours if way == UPDATE else mbpo)

    assert [claim.verdict for claim in findings(steps_of).claims] == verdicts


def test_a_seed_that_never_solves_counts_as_the_budget():
    def steps_of(combination, way, is_fresh):
        return [None] * 4 if (combination, way) == (NO_IDEA, MEANS) else around(1000)

    outcome = findings(steps_of)
    rows = {(row[0], row[1]): row[4] for row in outcome.tables[0].rows}
    assert rows[MEANS, ""] == BUDGET
    assert rows[UPDATE, "yes"] == 1000.0


def test_the_reported_narl_is_the_best_of_the_stored_tuning():
    stored = json.loads(OUTCOME.read_text())
    (tuning,) = (table for table in stored["tables"] if table["id"] == "fewer-steps-tuning")
    narl = [row for row in tuning["rows"] if row[0] in (NARL, UPDATE)]
    best = min(narl, key=lambda row: row[4])
    assert (tuple(value == "yes" for value in best[1:4]), best[0]) == CHOSEN
