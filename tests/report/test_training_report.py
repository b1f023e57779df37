"""Trainings as sections of a report: labels, charts, tables, texts, and their page."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from fake_trainings import (
    ALL_SECONDS,
    POLE,
    TOY,
    as_older_run,
    metrics_rows,
    summary,
    training,
)
from html_reader import HtmlReader

from narl.report.contents import Chart, Section
from narl.report.page import compose_page
from narl.report.training_report import training_sections
from narl.report.training_summary import TrainingSummary, label_trainings
from narl.stats import difference

OF_THE_MODEL = ["promise", "radius", "selected", "distance", "disagreement"]
RETURNS = ["inside the model, draws", "inside the model, means", "in the environment"]
RADII = ["ε = 0.1", "ε = 5", "ε = none"]
NAN = float("nan")
CAR = "MountainCarContinuous-v0"


def section_of(*trainings: TrainingSummary) -> Section:
    (section,) = training_sections(trainings)
    return section


def chart_of(section: Section, id_: str) -> Chart:
    (chart,) = [chart for chart in section.charts if chart.id == id_]
    return chart


def chart_ids(*trainings: TrainingSummary) -> list[str]:
    return [chart.id for chart in section_of(*trainings).charts]


def table_of(section: Section, id_: str) -> list[dict[str, Any]]:
    (table,) = [table for table in section.all_tables if table.id == id_]
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


# --- labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trainings", "labels"),
    [
        ([training(algo) for algo in ("narl", "mbpo", "sac")], ["NARL", "MBPO", "SAC"]),
        (
            [
                training("narl", radius=0.5, hidden=(8, 4)),
                training("narl", radius=None, joint=True),
                training("mbpo", hidden=(8, 8)),
            ],
            [
                "NARL, hidden 8,4, radius 0.5, joint off",
                "NARL, hidden 256,256, radius none, joint on",
                "MBPO",
            ],
        ),
        (  # a default number of members is named by the number
            [training("mbpo"), training("mbpo", members=3)],
            ["MBPO, members 7, elites 5", "MBPO, members 3, elites 3"],
        ),
        (  # what has no effect for one of them is no difference
            [training("narl", CAR, noise="reward"), training("narl", CAR)],
            ["NARL, noise reward", "NARL, noise model"],
        ),
        ([training(steps=500), training(steps=600)], ["SAC, 500 steps", "SAC, 600 steps"]),
        (
            [training(steps=500), training(steps=600, batch=8)],
            ["SAC, batch 256", "SAC, batch 8"],
        ),
        (
            [training(seeds=(0, 1)), training(seeds=(2, 5))],
            ["SAC, seeds 0:2", "SAC, seeds 2,5"],
        ),
        ([training(), training()], ["SAC #1", "SAC #2"]),
    ],
    ids=lambda value: ";".join(value) if isinstance(value[0], str) else "",
)
def test_labels_name_what_differs(trainings: list, labels: list[str]) -> None:
    assert label_trainings([summary(config) for config in trainings]) == labels


def test_labels_of_equal_trainings_have_the_end_of_the_id() -> None:
    ids = ["train-sac-x-0123456789", "train-sac-x-abcdefabcd", "train-sac-x-0123456789.part"]
    trainings = [summary(training(), id_=id_) for id_ in ids[:2]]
    trainings.append(summary(training(), id_=ids[2], seconds=None))
    labels = ["SAC (0123456789)", "SAC (abcdefabcd)", "SAC (0123456789, unfinished)"]
    assert label_trainings(trainings) == labels


# --- charts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (training("sac"), []),
        (training("mbpo"), OF_THE_MODEL),
        (training("narl"), [*OF_THE_MODEL, "fallback"]),
        (training("narl", radius=None), OF_THE_MODEL),
        (training("narl", noise="reward"), [*OF_THE_MODEL, "bonus"]),
    ],
    ids=["sac", "mbpo", "narl", "narl without a radius", "narl with noise on rewards"],
)
def test_charts_depend_on_the_algorithm(config: Any, wanted: list[str]) -> None:
    assert chart_ids(summary(config)) == ["returns", *wanted]
    assert chart_ids(summary(config, [1.0], seconds=None)) == ["returns"]  # no model yet


def test_trainings_on_one_environment_share_their_charts() -> None:
    options = [{"algo": "narl"}, {"algo": "narl", "radius": None}, {"algo": "sac"}]
    section = section_of(*(summary(training(seeds=(0, 1), **given)) for given in options))
    names = ["NARL, radius 0.1", "NARL, radius none", "SAC"]
    assert {chart.id: [line.label for line in chart.series] for chart in section.charts} == {
        "returns": names,
        "iqm": names,
        "promise-1": RETURNS,
        "promise-2": RETURNS,
        "radius-1": RADII,
        "radius-2": RADII,
        "selected": names[:2],
        "distance": names[:2],
        "disagreement": names[:2],
        "fallback": names[:1],
    }
    titles = [chart_of(section, id_).title for id_ in ("promise-2", "radius-1")]
    assert titles == [
        "NARL, radius none: return inside the model",
        "NARL, radius 0.1: how often each member would be selected",
    ]


def test_charts_of_zeros_are_left_out() -> None:
    config = training("narl")
    zeros = {"fallback": [0.0], "disagreement": [0.0], "bonus": [0.0]}
    rows = metrics_rows(config, [1.0], [2.0], **zeros)
    assert chart_ids(TrainingSummary("a", config, rows, ALL_SECONDS)) == [
        "returns",
        *OF_THE_MODEL[:-1],
    ]


@pytest.mark.parametrize(("num", "shown"), [(1, False), (2, True), (10, True), (11, False)])
def test_two_to_ten_seeds_have_a_line_each(num: int, shown: bool) -> None:
    section = section_of(summary(training(seeds=tuple(range(3, 3 + num)))))
    labels = [line.label for chart in section.charts[1:] for line in chart.series]
    assert labels == ([f"seed {3 + place}" for place in range(num)] if shown else [])


def test_lines_by_hand() -> None:
    section = section_of(summary(training("narl", seeds=(0, 1)), [1.0, 3.0], [2.0, 6.0]))
    (returns,) = chart_of(section, "returns").series
    assert (returns.x, returns.y) == ([250.0, 500.0], [2.0, 4.0])
    assert (returns.low, returns.high) == ([1.0, 2.0], [3.0, 6.0])
    assert [line.y for line in chart_of(section, "seeds").series] == [[1.0, 2.0], [3.0, 6.0]]
    draws, means, outside = chart_of(section, "promise").series
    assert (draws.x, draws.y, means.y, outside.y) == ([500.0], [14.0], [24.0], [4.0])
    assert chart_of(section, "promise").title == "Return inside the model"
    assert chart_of(section, "fallback").series[0].y == [0.25]


def test_members_are_ranked_by_the_errors_of_each_fit() -> None:
    section = section_of(summary(training("narl", seeds=(0, 1))))
    # From the least accurate member on: 0, 1, 2 after the first fit, 1, 2, 0 after the second.
    at_radii = {line.label: line.y for line in chart_of(section, "radius").series}
    assert at_radii == {
        "ε = 0.1": pytest.approx([(0.4 + 0.3) / 2, (0.3 + 0.5) / 2, (0.3 + 0.2) / 2]),
        "ε = 5": pytest.approx([0.6, (0.2 + 0.3) / 2, (0.2 + 0.1) / 2]),
        "ε = none": [1.0, 0.0, 0.0],
    }
    (distance,) = chart_of(section, "distance").series
    assert (distance.x, distance.y) == ([1.0, 2.0, 3.0], [4.5, 1.5, 5.0])
    # The mean errors over both fits are 0.2, 0.25 and 0.15.
    assert chart_of(section, "selected").series[0].y == pytest.approx([0.2, 0.5, 0.3])


def test_older_runs_have_the_charts_of_what_they_recorded() -> None:
    older = as_older_run(summary(training("narl"), id_="older"))
    section = section_of(older)
    charts = [chart.id for chart in section.charts]
    assert charts == ["returns", "promise", "selected", "distance", "fallback"]
    assert [line.label for line in chart_of(section, "promise").series] == RETURNS[::2]
    # The errors of the last fit: from the least accurate member on 1, 2, 0.
    assert chart_of(section, "selected").series[0].y == pytest.approx([0.2, 0.3, 0.5])
    assert chart_of(section, "distance").series[0].y == [3.0, 2.0, 6.0]
    both = section_of(older, summary(training("mbpo")))
    assert [chart.id for chart in both.charts if chart.id.startswith("radius")] == ["radius-2"]
    assert [line.y for line in chart_of(both, "distance").series] == [
        [3.0, 2.0, 6.0],
        [4.5, 1.5, 5.0],
    ]


def test_missing_numbers_are_gaps() -> None:
    config = training(seeds=(0, 1))
    section = section_of(summary(config, [1.0, 3.0], [None, 6.0], [NAN, 2.0], [4.0, 4.0]))
    (returns,) = chart_of(section, "returns").series
    assert returns.y == [2.0, None, None, 4.0]
    assert (returns.low, returns.high) == ([1.0, None, None, 4.0], [3.0, None, None, 4.0])
    first, second = chart_of(section, "seeds").series
    assert (first.y, second.y) == ([1.0, None, None, 4.0], [3.0, 6.0, 2.0, 4.0])
    both = section_of(summary(config, [None, 6.0]), summary(training("mbpo"), [5.0]))
    assert [row["mean return"] for row in table_of(both, "results")] == [None, 5.0]


def test_level_of_solved_is_drawn_where_it_is_near() -> None:
    near = chart_of(section_of(summary(training(), [100.0], [600.0])), "returns")
    assert (near.reference, near.reference_label) == (1000.0, "solved: 1000")
    for returns in ([100.0], [500.0]), ([2000.0], [2900.0]), ([None], [None]):
        far = chart_of(section_of(summary(training(), *returns)), "returns")
        assert far.reference is None
        assert "Solved is a return of 1000" in far.caption
    two = section_of(summary(training(), [999.0]), summary(training(solved_return=900.0), [999.0]))
    assert chart_of(two, "returns").reference is None
    assert "olved" not in chart_of(two, "returns").caption


# --- tables and texts -------------------------------------------------------------------------


def test_table_of_results_by_hand() -> None:
    config = training("narl", seeds=(0, 1, 2))
    rows = metrics_rows(config, [1.0, 2.0, 6.0], solved_step=[500, None, 1000])
    first = TrainingSummary("a", config, rows, ALL_SECONDS)
    assert table_of(section_of(first, summary(training("sac"), [5.0])), "results") == [
        {
            "training": "NARL",
            "seeds": 3,
            "steps": 250,
            "mean return": 3.0,
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
            "mean return": 5.0,
            **dict.fromkeys(["± std", "lowest seed", "highest seed", "steps to solve"]),
            "solved by": "0 of 1",
        },
    ]


def test_table_of_differences_is_paired_where_the_seeds_are_the_same() -> None:
    first = summary(training("narl", seeds=(0, 1, 2)), [1.0, 2.0, 6.0])
    same = summary(training("mbpo", seeds=(0, 1, 2)), [0.0, 1.0, 5.0])
    others = summary(training("sac", seeds=(5, 6)), [1.0, 3.0])
    paired, unpaired, last = table_of(section_of(first, same, others), "differences")
    # Seed by seed the difference is 1, so that the interval has no width.
    assert paired == {
        "difference of": "NARL − MBPO",
        "better": "NARL",
        "return": "after the last epoch",
        "difference": 1.0,
        "low": 1.0,
        "high": 1.0,
        "seeds": "3, paired",
    }
    expected = difference([1.0, 2.0, 6.0], [1.0, 3.0])
    assert list(unpaired.values()) == [
        *("NARL − SAC", "undecided", "after the last epoch"),
        *(*expected, "3 and 2"),
    ]
    assert list(paired)[1] == "better"  # beside the names, so that a narrow screen shows it
    assert expected.low < 0 < expected.high
    assert last["difference of"] == "MBPO − SAC"
    (turned,) = table_of(section_of(same, first), "differences")
    assert (turned["difference of"], turned["better"]) == ("MBPO − NARL", "NARL")


def test_a_training_that_was_better_only_at_the_end_is_not_said_to_be_better() -> None:
    """NARL is ahead by 5 until the last epoch, at which MBPO is ahead by 9: means 1 and 2 apart."""
    early = summary(training("narl", seeds=(0, 1)), [5.0, 7.0], [5.0, 7.0], [0.0, 0.0])
    late = summary(training("mbpo", seeds=(0, 1)), [0.0, 2.0], [0.0, 2.0], [9.0, 9.0])
    last, mean = table_of(section_of(early, late), "differences")
    assert (last["return"], last["difference"], last["better"]) == (
        *("after the last epoch", -9.0),
        "MBPO",
    )
    assert (mean["return"], mean["better"]) == ("mean over the training", "NARL")
    assert mean["difference"] == pytest.approx((5 + 5 - 9) / 3)


def test_differences_end_at_the_last_step_that_both_reached() -> None:
    """What a longer training did later makes it no better than the shorter one."""
    short = summary(training("narl", seeds=(0, 1)), [5.0, 7.0], [7.0, 9.0])
    long = summary(training("mbpo", seeds=(0, 1)), [1.0, 2.0], [2.0, 3.0], [90.0, 90.0])
    section = section_of(short, long)
    rows = [(row["return"], row["difference"]) for row in table_of(section, "differences")]
    assert rows == [
        ("after the last epoch up to step 500", 8.0 - 2.5),
        ("mean up to step 500", 7.0 - 2.0),
    ]
    (warning,) = section.warnings
    assert warning.startswith("The trainings differ in their numbers of steps")
    assert [row["mean return"] for row in table_of(section, "results")] == [8.0, 90.0]
    assert section_of(short, summary(training("mbpo"), [0.0], [0.0])).warnings == []


def test_training_without_an_epoch_until_the_end_of_the_other_is_not_compared() -> None:
    short, late = (summary(training(algo, seeds=(0, 1)), [5.0, 7.0]) for algo in ("narl", "mbpo"))
    late.rows[0]["step"] = 1000
    section = section_of(short, late)
    assert section.comparison is None
    assert len(section.warnings) == 1


def test_what_else_the_trainings_differ_in_stands_below_the_table() -> None:
    unlike = summary(training("narl", seeds=(0, 1))), summary(training("mbpo", seeds=(0, 1)))
    table = section_of(*unlike).comparison
    assert table is not None
    assert "numbers of models (NARL: 3, MBPO: 7); give both the same --members" in table.caption
    alike = [summary(training(algo, seeds=(0, 1), members=4)) for algo in ("narl", "mbpo")]
    table = section_of(*alike).comparison
    assert table is not None
    assert "numbers of models" not in table.caption
    single = summary(training("sac"))
    table = section_of(*alike, single).comparison
    assert table is not None
    assert "one seed has no interval and is left out" in table.caption


@pytest.mark.parametrize(("codes", "is_warned"), [("ab", True), ("aa", False), ("a", False)])
def test_other_code_of_the_environment_is_a_warning_at_the_top(codes: str, is_warned: bool) -> None:
    """Also for trainings of one seed, which have no table of differences."""
    algorithms = zip(("narl", "mbpo"), [*codes, None], strict=False)
    trainings = [summary(training(x), environment={"env_code": code}) for x, code in algorithms]
    section = section_of(*trainings)
    assert len(section.warnings) == is_warned
    title, first, *_ = HtmlReader(compose_page([section])).texts("section")[0].split("\n")[1:]
    assert title == POLE
    assert first.startswith("The code of the environment was changed") == is_warned


def test_same_seeds_in_another_order_are_not_paired() -> None:
    first = summary(training("narl", seeds=(0, 1, 2)), [1.0, 2.0, 6.0])
    turned = summary(training("mbpo", seeds=(2, 1, 0)), [5.0, 1.0, 0.0])
    (row,) = table_of(section_of(first, turned), "differences")
    assert row["seeds"] == "3 and 3"
    assert row["low"] < 0 < row["high"]


@pytest.mark.parametrize(
    ("num", "pairs"),
    [
        (2, ["0 − 1"]),
        (4, ["0 − 1", "0 − 2", "0 − 3", "1 − 2", "1 − 3", "2 − 3"]),
        (5, ["0 − 1", "0 − 2", "0 − 3", "0 − 4"]),
    ],
)
def test_differences_are_of_all_pairs_of_up_to_four_trainings(num: int, pairs: list[str]) -> None:
    sizes = [8, 16, 32, 64, 128][:num]
    section = section_of(*(summary(training(batch=size, seeds=(0, 1))) for size in sizes))
    names = {f"SAC, batch {size}": str(place) for place, size in enumerate(sizes)}
    compared = [
        " − ".join(names[label] for label in row["difference of"].split(" − "))
        for row in table_of(section, "differences")
        if row["return"] == "after the last epoch"
    ]
    assert compared == pairs
    assert section.comparison is not None
    assert ("The first training is compared" in section.comparison.caption) == (num > 4)


def test_difference_without_an_interval_is_left_out() -> None:
    first = summary(training("narl", seeds=(0, 1)), [1.0, 2.0])
    gap = summary(training("mbpo", seeds=(0, 1)), [None, 2.0])
    single = summary(training("sac"), [5.0])
    for trainings in ([first], [first, gap], [first, single], [single, first]):
        section = section_of(*trainings)
        assert (section.comparison, len(section.tables)) == (None, 2)
    longer = summary(training("mbpo", seeds=(0, 1)), [0.0, 0.0], [1.0, 1.0])
    table = section_of(first, longer, gap).comparison
    assert table is not None
    assert [row[2] for row in table.rows] == ["after the last epoch up to step 250"]


def test_titles_name_the_statistic() -> None:
    section = section_of(*(summary(training(algo, seeds=(0, 1))) for algo in ("narl", "sac")))
    assert "interquartile mean" in chart_of(section, "iqm").title
    assert section.tables[0].title.endswith(": mean of the returns")


def test_captions_of_the_ensemble_have_no_riddles() -> None:
    section = section_of(summary(training("narl")))
    inside, distance = chart_of(section, "promise"), chart_of(section, "distance")
    assert "how much more the model promises than the environment gives" in inside.caption
    assert "estimation error" not in inside.caption
    assert distance.y_label == "distance from the members' mean"
    radius = chart_of(section, "radius").caption
    assert "a training without a radius is judged by `exclude above`" in radius
    assert "with `--preset paper` by `exclude ball`" in radius


def test_empty_columns_are_left_out() -> None:
    section = section_of(summary(training(env=TOY)))
    assert list(table_of(section, "results")[0]) == ["training", "seeds", "steps", "mean return"]
    assert {"models", "rollouts"}.isdisjoint(table_of(section, "seconds")[0])


def test_table_of_seconds_by_hand() -> None:
    finished = [summary(training(algo)) for algo in ("mbpo", "sac")]
    section = section_of(*finished, summary(training("narl"), seconds=None))
    names = ["in all", "compiling", "environment", "models", "rollouts", "SAC"]
    assert [[row[name] for name in names] for row in table_of(section, "seconds")] == [
        [30.0, 7.0, 1.0, 2.0, 3.0, 4.0],
        [30.0, 7.0, 1.0, None, None, 4.0],
        [None, None, 1.0, 2.0, 3.0, 4.0],
    ]


def test_notes_tell_of_seconds_that_were_shared() -> None:
    alone, shared = (summary(training(seeds=(0, 1)), num_replicas=num) for num in (2, 30))
    (settings,) = section_of(alone).notes
    assert f"`narl runs show {alone.id}`" in settings
    (elsewhere,) = section_of(dataclasses.replace(alone, runs=Path("kept"))).notes
    assert f"`narl runs show {alone.id} --runs kept`" in elsewhere
    note, *rest = section_of(shared).notes
    assert "30 seeds in all" in note
    assert rest == [settings]


def test_introduction_runs_and_environment() -> None:
    versions = {"jax": "1", "device": "cpu", "time": "now"}
    one = summary(training("narl", steps=2000), environment=versions)
    two = summary(
        training("sac", seeds=(0, 1)), environment={"jax": "1", "device": "gpu"}, seconds=None
    )
    section = section_of(one, two)
    assert [(part.text, part.command) for part in section.introduction] == [
        ("NARL: one seed, 750 steps.", one.command),
        ("SAC: 2 seeds, 750 of 5,000 steps, not finished.", two.command),
    ]
    assert section.runs == [one.id, two.id]
    assert section.environment == {"jax": "1", "device": "cpu / gpu"}


def test_every_environment_has_a_section() -> None:
    trainings = [
        summary(training(env=TOY)),
        summary(training()),
        summary(training("mbpo", env=TOY)),
    ]
    toy, pole = training_sections(trainings)
    assert (toy.title, pole.title) == (TOY, POLE)
    assert toy.runs == [trainings[0].id, trainings[2].id]
    assert (toy.scale, toy.claims, toy.id) == (None, [], f"train-{TOY}")


# --- the page ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_page_of_trainings_has_sections_and_no_claims() -> None:
    trainings = [
        summary(training("narl", seeds=(0, 1)), environment={"jax": "1"}),
        summary(training("sac", seeds=(0, 1)), environment={"jax": "1"}),
        summary(training("mbpo", env=TOY), seconds=None),
    ]
    reader = HtmlReader(compose_page(training_sections(trainings)))
    assert len(reader.ids()) == len(set(reader.ids()))
    skip, *contents = reader.links()
    tables = [link for link in contents if "-table-" in link]
    pole, toy = "train-invertedpendulum-v5", "train-toy-worlds-toy-v0"
    assert tables == [
        *(f"{pole}-table-{id_}" for id_ in ("differences", "results", "seconds")),
        *(f"{toy}-table-{id_}" for id_ in ("results", "seconds")),
    ]
    sections = [link for link in contents if not link.startswith("chart-") and link not in tables]
    assert sections == ["train-invertedpendulum-v5", "train-toy-worlds-toy-v0"]
    assert skip == sections[0]
    assert len(contents) == 2 + 14 + 5
    assert set(reader.links()) <= set(reader.ids())
    assert reader.texts("title") == [f"narl report: {POLE}, {TOY}"]
    assert reader.texts("h1") == [f"{POLE}, {TOY}"]
    assert reader.texts("h2") == [POLE, TOY]
    assert "3 trainings, 14 charts" in reader.texts("header")[0]
    assert "medians" not in reader.texts("footer")[0]
    assert "laim" not in " ".join(reader.texts("p") + reader.texts("li") + reader.texts("h3"))
    assert "claims" not in reader.ids()
    assert reader.find("span", "scale") == []
    assert reader.texts("code", "command") == [item.command for item in trainings]
    single = HtmlReader(compose_page(training_sections(trainings[2:])))
    assert single.texts("p", "lead") == ["1 training, 6 charts"]
    assert single.texts("p", "kicker") == ["narl · report of trainings"]


def test_differences_come_directly_after_the_chart_of_returns() -> None:
    trainings = [summary(training(algo, seeds=(0, 1))) for algo in ("narl", "mbpo")]
    reader = HtmlReader(compose_page(training_sections(trainings)))
    parts = [
        element.attributes["id"]
        for element in reader.elements
        if element.tag in ("figure", "details") and "id" in element.attributes
    ]
    section = "train-invertedpendulum-v5"
    assert parts[:3] == [
        f"chart-{section}-returns",
        f"{section}-table-differences",
        f"chart-{section}-iqm",
    ]
    assert reader.links()[1:5] == [section, *parts[:3]]
