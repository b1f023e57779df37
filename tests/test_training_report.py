"""Trainings as outcomes: what they are called, charts, tables, and the page of them."""

from typing import Any

import pytest

from narl.commands.trainings import command_of
from narl.deep.config import make_settings
from narl.deep.plan import Course
from narl.report.document import Chart, Outcome, Table
from narl.report.page import compose
from narl.report.training_report import Told, labels, outcomes_of
from test_report import Reader, small

POLE, TOY = "InvertedPendulum-v5", "toy_worlds:Toy-v0"
SECONDS = {"env": 1.04, "model": 2.0, "rollout": 3.0, "sac": 4.0, "eval": 5.0, "checkpoint": 6.0}
TOTAL = {"compile": 7.0, **SECONDS, "total": 30.0}
OF_THE_MODEL = ["promise", "selected", "distance"]


def plan(algo: str = "sac", seeds: tuple[int, ...] = (0,), env: str = POLE, **given: Any) -> Course:
    return Course(make_settings(env, algo, **given), seeds)


def journal(of: Course, *returns: list[float | None], **changes: Any) -> list[dict[str, Any]]:
    """An epoch for each list of returns; there is a model from the second one on."""
    seeds, rows = len(of.seeds), []
    for epoch, these in enumerate(returns, start=1):
        row = {"epoch": epoch, "step": 250 * epoch, "eval_return": these, "seconds": SECONDS}
        row["solved_step"] = [None] * seeds
        if of.settings.uses_model and epoch > 1:
            row |= {
                "model_return": [x if x is None else x + 10 for x in these],
                "holdout_error": [[0.1, 0.3, 0.2]] * seeds,
                "selected": [[0.5, 0.2, 0.3]] * seeds,
                "distance": [[5.0, 2.0, 3.0]] * seeds,
                "fallback": [0.25] * seeds,
            }
        rows.append(row)
    rows[-1] |= changes
    return rows


def told(of: Course, *returns: list[float | None], id_: str = "", **more: Any) -> Told:
    """A finished training, unless `seconds` are None."""
    some = returns or tuple([float(10 * k)] * len(of.seeds) for k in (1, 2, 3))
    return Told(id_ or of.id, of, journal(of, *some), command_of(of), **{"seconds": TOTAL, **more})


def outcome_of(*trainings: Told) -> Outcome:
    (outcome,) = outcomes_of(trainings)
    return outcome


def chart_of(outcome: Outcome, id_: str) -> Chart:
    (chart,) = [chart for chart in outcome.charts if chart.id == id_]
    return chart


def table_of(outcome: Outcome, id_: str) -> list[dict[str, Any]]:
    (table,) = [table for table in outcome.tables if table.id == id_]
    assert isinstance(table, Table)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


# --- what they are called ---------------------------------------------------------------------


def test_one_of_each_algorithm_is_called_by_it() -> None:
    assert labels([told(plan(algo)) for algo in ("narl", "mbpo", "sac")]) == ["NARL", "MBPO", "SAC"]


def test_settings_that_differ_are_named_among_those_of_one_algorithm() -> None:
    trainings = [
        told(plan("narl", radius=0.5, hidden=(8, 4))),
        told(plan("narl", radius=None, joint=True)),
        told(plan("mbpo", hidden=(8, 8))),
    ]
    assert labels(trainings) == [
        "NARL, hidden 8,4, radius 0.5, joint off",
        "NARL, hidden 256,256, radius none, joint on",
        "MBPO",
    ]


def test_a_default_number_of_members_is_that_number() -> None:
    both = [told(plan("mbpo")), told(plan("mbpo", members=3))]
    assert labels(both) == ["MBPO, members 7, elites 5", "MBPO, members 3, elites 3"]
    named = [told(plan("narl", radius=r, members=m)) for r, m in ((0.1, None), (0.2, 3))]
    assert labels(named) == ["NARL, radius 0.1", "NARL, radius 0.2"]


def test_steps_and_seeds_are_named_where_nothing_else_differs() -> None:
    assert labels([told(plan(steps=500)), told(plan(steps=600))]) == [
        "SAC, 500 steps",
        "SAC, 600 steps",
    ]
    assert labels([told(plan(steps=500)), told(plan(steps=600, batch=8))]) == [
        "SAC, batch 256",
        "SAC, batch 8",
    ]
    assert labels([told(plan(seeds=(0, 1))), told(plan(seeds=(2, 5)))]) == [
        "SAC, seeds 0:2",
        "SAC, seeds 2,5",
    ]


def test_where_all_is_the_same_the_end_of_the_id_is_named() -> None:
    same = plan()
    ids = ["train-sac-x-0123456789", "train-sac-x-abcdefabcd"]
    assert labels([told(same, id_=id_) for id_ in ids]) == ["SAC (0123456789)", "SAC (abcdefabcd)"]
    both = [told(same, id_=ids[0]), told(same, id_=f"{ids[0]}.part", seconds=None)]
    assert labels(both) == ["SAC (0123456789)", "SAC (0123456789, unfinished)"]
    assert labels([told(same), told(same)]) == ["SAC #1", "SAC #2"]


# --- charts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("training", "wanted"),
    [
        (plan("sac"), []),
        (plan("mbpo"), OF_THE_MODEL),
        (plan("narl"), [*OF_THE_MODEL, "fallback"]),
        (plan("narl", radius=None), OF_THE_MODEL),
    ],
)
def test_which_charts_there_are(training: Course, wanted: list[str]) -> None:
    assert [chart.id for chart in outcome_of(told(training)).charts] == ["returns", *wanted]


def test_before_there_is_a_model_there_are_no_charts_of_it() -> None:
    outcome = outcome_of(told(plan("narl"), [1.0], seconds=None))
    assert [chart.id for chart in outcome.charts] == ["returns"]


def test_several_of_one_environment_share_their_charts() -> None:
    trainings = [told(plan("narl")), told(plan("narl", radius=None)), told(plan("sac"))]
    outcome = outcome_of(*trainings)
    names = ["NARL, radius 0.1", "NARL, radius none", "SAC"]
    labelled = {chart.id: [series.label for series in chart.series] for chart in outcome.charts}
    both = ["inside the model", "in the environment"]
    assert labelled == {
        "returns": names,
        "promise-1": both,
        "promise-2": both,
        "selected": names[:2],
        "distance": names[:2],
        "fallback": names[:1],
    }
    assert chart_of(outcome, "promise-2").title == "NARL, radius none: what the model promises"


@pytest.mark.parametrize(("num", "shown"), [(1, False), (2, True), (10, True), (11, False)])
def test_few_seeds_have_a_line_each(num: int, shown: bool) -> None:
    outcome = outcome_of(told(plan(seeds=tuple(range(3, 3 + num)))))
    assert ("seeds" in [chart.id for chart in outcome.charts]) == shown
    if shown:
        lines = chart_of(outcome, "seeds").series
        assert [line.label for line in lines] == [f"seed {3 + i}" for i in range(num)]


def test_beside_another_training_seeds_have_no_lines() -> None:
    both = (told(plan(seeds=(0, 1))), told(plan("mbpo", seeds=(0, 1))))
    assert "seeds" not in [chart.id for chart in outcome_of(*both).charts]


def test_what_is_drawn() -> None:
    outcome = outcome_of(told(plan("narl", seeds=(0, 1)), [1.0, 3.0], [2.0, 6.0]))
    (returns,) = chart_of(outcome, "returns").series
    assert (returns.x, returns.y) == ([250.0, 500.0], [2.0, 4.0])
    assert (returns.low, returns.high) == ([1.0, 2.0], [3.0, 6.0])
    assert [line.y for line in chart_of(outcome, "seeds").series] == [[1.0, 2.0], [3.0, 6.0]]
    inside, outside = chart_of(outcome, "promise").series
    assert (inside.x, inside.y, outside.y) == ([500.0], [14.0], [4.0])
    # From the least accurate member on: the second, the third, the first.
    (selected,) = chart_of(outcome, "selected").series
    assert (selected.x, selected.y) == ([1.0, 2.0, 3.0], [0.2, 0.3, 0.5])
    assert chart_of(outcome, "distance").series[0].y == [2.0, 3.0, 5.0]
    assert chart_of(outcome, "fallback").series[0].y == [0.25]


def test_what_is_missing_is_a_gap() -> None:
    nan = float("nan")
    outcome = outcome_of(told(plan(seeds=(0, 1)), [1.0, 3.0], [None, 6.0], [nan, 2.0], [4.0, 4.0]))
    (returns,) = chart_of(outcome, "returns").series
    assert returns.y == [2.0, None, None, 4.0]
    assert (returns.low, returns.high) == ([1.0, None, None, 4.0], [3.0, None, None, 4.0])
    first, second = chart_of(outcome, "seeds").series
    assert (first.y, second.y) == ([1.0, None, None, 4.0], [3.0, 6.0, 2.0, 4.0])
    both = outcome_of(told(plan(seeds=(0, 1)), [None, 6.0]), told(plan("mbpo"), [5.0]))
    assert [row["return"] for row in table_of(both, "results")] == [None, 5.0]


def test_the_level_that_counts_as_solved_is_drawn_where_it_is_near() -> None:
    near = chart_of(outcome_of(told(plan(), [100.0], [600.0])), "returns")
    assert (near.reference, near.reference_label) == (1000.0, "solved: 1000")
    for returns in ([100.0], [500.0]), ([2000.0], [2900.0]), ([None], [None]):
        far = chart_of(outcome_of(told(plan(), *returns)), "returns")
        assert far.reference is None
        assert "Solved is a return of 1000, far outside this chart." in far.caption
    two = outcome_of(told(plan(), [999.0]), told(plan(solved_return=900.0), [999.0]))
    assert chart_of(two, "returns").reference is None
    assert "olved" not in chart_of(two, "returns").caption


def test_captions_say_what_was_averaged() -> None:
    def caption(*trainings: Told) -> str:
        return chart_of(outcome_of(*trainings), "returns").caption

    assert caption(told(plan())).startswith("The return of one deterministic episode after")
    assert caption(told(plan())).endswith(" One seed.")
    assert caption(told(plan()), told(plan("mbpo"))).endswith(" One seed each.")
    both = caption(told(plan(seeds=(0, 1), eval_episodes=3)))
    assert both.startswith("The mean return of 3 deterministic episodes after every epoch")
    assert both.endswith(" Mean ± one standard deviation over seeds.")
    assert caption(told(plan()), told(plan("mbpo", eval_episodes=3))).startswith(
        "The mean return of deterministic episodes after every epoch"
    )


# --- tables and words -------------------------------------------------------------------------


def test_the_table_of_results() -> None:
    three = plan("narl", seeds=(0, 1, 2))
    rows = journal(three, [1.0, 2.0, 6.0], solved_step=[500, None, 1000])
    first = Told("a", three, rows, "", TOTAL)
    second = told(plan("sac"), [5.0])
    assert table_of(outcome_of(first, second), "results") == [
        {
            "training": "NARL",
            "seeds": 3,
            "steps": 250,
            "return": 3.0,
            "± std": pytest.approx((14 / 3) ** 0.5),
            "lowest seed": 1.0,
            "highest seed": 6.0,
            "solved by": "2 of 3",
            "steps to solve": 750.0,
        },
        {
            "training": "SAC",
            "seeds": 1,
            "steps": 250,
            "return": 5.0,
            **dict.fromkeys(["± std", "lowest seed", "highest seed", "steps to solve"]),
            "solved by": "0 of 1",
        },
    ]


def test_columns_without_anything_in_them_are_left_out() -> None:
    outcome = outcome_of(told(plan(env=TOY)))
    assert table_of(outcome, "results") == [
        {"training": "SAC", "seeds": 1, "steps": 750, "return": 30.0}
    ]
    assert outcome.tables[0].caption == ""
    (spent,) = table_of(outcome, "seconds")
    assert "models" not in spent
    assert "rollouts" not in spent


def test_the_table_of_seconds() -> None:
    outcome = outcome_of(told(plan("mbpo")), told(plan("sac")), told(plan("narl"), seconds=None))
    names = ["in all", "compiling", "environment", "models", "rollouts", "SAC"]
    rows = [[row[name] for name in names] for row in table_of(outcome, "seconds")]
    assert rows == [
        [30.0, 7.0, 1.0, 2.0, 3.0, 4.0],
        [30.0, 7.0, 1.0, None, None, 4.0],
        [None, None, 1.0, 2.0, 3.0, 4.0],
    ]


def test_seconds_that_were_shared_with_others_are_said_to_be() -> None:
    alone, shared = (told(plan(seeds=(0, 1)), lanes=lanes) for lanes in (2, 30))
    note = "SAC was trained together with others, 30 seeds in all: the seconds are those of all "
    assert outcome_of(shared).notes[0].startswith(note)
    assert len(outcome_of(shared).notes) == 2
    (settings,) = outcome_of(alone).notes
    assert settings == f"All settings of a training: `narl runs show {alone.id}`."


def test_what_was_trained_and_what_with() -> None:
    one = told(plan("narl", steps=2000), environment={"jax": "1", "device": "cpu", "time": "now"})
    two = told(plan("sac", seeds=(0, 1)), environment={"jax": "1", "device": "gpu"}, seconds=None)
    outcome = outcome_of(one, two)
    assert outcome.about == (
        "NARL: one seed, 750 steps.\n\nSAC: 2 seeds, 750 of 5,000 steps, not finished."
    )
    assert outcome.command.splitlines() == [one.command, two.command]
    assert outcome.runs == [one.id, two.id]
    assert outcome.environment == {"jax": "1", "device": "cpu / gpu"}


def test_every_environment_has_its_own_outcome() -> None:
    trainings = [told(plan(env=TOY)), told(plan()), told(plan("mbpo", env=TOY))]
    toy, pole = outcomes_of(trainings)
    assert (toy.title, pole.title) == (TOY, POLE)
    assert toy.runs == [trainings[0].id, trainings[2].id]
    assert (toy.scale, toy.claims, toy.id) == ("", [], f"train-{TOY}")


# --- the page ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reader() -> Reader:
    trainings = [
        told(plan("narl", seeds=(0, 1)), environment={"jax": "1"}),
        told(plan("sac", seeds=(0, 1)), environment={"jax": "1"}),
        told(plan("mbpo", env=TOY), seconds=None),
    ]
    return Reader(compose(outcomes_of(trainings)))


def test_links_of_the_page_lead_somewhere_and_none_to_claims(reader: Reader) -> None:
    ids = [attributes["id"] for _, attributes, _ in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for attributes, _ in reader.find("a")]
    sections = ["#train-invertedpendulum-v5", "#train-toy-worlds-toy-v0"]
    assert links == [sections[0], *sections]  # to skip the header, and in it
    assert {link[1:] for link in links} <= set(ids)
    assert reader.find("section", id="claims") == []
    assert reader.of_class("span", "scale") == []


def test_the_page_says_what_it_shows(reader: Reader) -> None:
    assert [text for _, text in reader.find("title")] == [f"narl report: {POLE}, {TOY}"]
    assert [text for _, text in reader.find("h1")] == [f"{POLE}, {TOY}"]
    assert [text for _, text in reader.find("h2")] == [POLE, TOY]
    ((_, header),) = reader.find("header")
    assert "report of trainings" in header
    assert "3 trainings, 9 charts" in header
    ((_, footer),) = reader.find("footer")
    assert footer.startswith("Of a line with more than 200 points")
    words = " ".join(text for tag in ("p", "li", "h3") for _, text in reader.find(tag))
    assert "laim" not in words


def test_each_training_stands_above_its_command(reader: Reader) -> None:
    words = [text for _, text in reader.find("p")]
    commands = [text for _, text in reader.of_class("code", "command")]
    assert commands == [
        f"narl train {POLE} --algo narl --seeds 0:2",
        f"narl train {POLE} --algo sac --seeds 0:2",
        f"narl train {TOY} --algo mbpo",
    ]
    above = [words[words.index(command) - 1] for command in commands]
    assert above == [
        "NARL: 2 seeds, 750 steps.",
        "SAC: 2 seeds, 750 steps.",
        "MBPO: one seed, 750 of 10,000 steps, not finished.",
    ]


def test_a_page_of_one_environment_names_it_without_a_link() -> None:
    reader = Reader(compose(outcomes_of([told(plan())])))
    assert [text for _, text in reader.of_class("p", "lead")] == ["1 training, 1 chart"]
    assert len(reader.find("a")) == 1


def test_an_experiment_keeps_its_claims_and_its_paragraphs() -> None:
    reader = Reader(compose([small(about="One.\n\nTwo.")]))
    assert len(reader.find("section", id="claims")) == 1
    words = [text for _, text in reader.find("p")]
    start = words.index("One.")
    assert words[start : start + 3] == ["One.", "Two.", "narl reproduce exp"]
    assert reader.find("footer")[0][1].startswith("Lines are medians over seeds")
