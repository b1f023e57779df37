"""Objects and numbers as text and as tables of notebooks."""

import numpy as np
import pytest

from narl import storage
from narl.display import (
    Described,
    Description,
    counted,
    figure,
    figures_over_seeds,
    in_words,
    mean_figure,
    seeds_as_text,
)


@pytest.mark.parametrize(
    ("names", "text"), [("", ""), ("a", "a"), ("ab", "a and b"), ("abc", "a, b and c")]
)
def test_names_are_a_list_in_a_sentence(names, text):
    assert in_words([*names]) == text


class Thing(Described):
    def _describe(self) -> Description:
        return Description("Thing <1>", {"size": "3", "empty": "", "a long name": "x & y"})


def test_object_is_a_few_lines_and_a_table_in_a_notebook():
    assert repr(Thing()) == "Thing <1>\n  size         3\n  a long name  x & y"
    html = Thing()._repr_html_()
    assert html.startswith("<table><caption>Thing &lt;1&gt;</caption>")
    assert html.count("<tr>") == 2
    assert "x &amp; y" in html


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12.34, "12.3"),
        (-0.0, "0.0"),
        (-0.04, "0.0"),
        (-868017791806796.0, "-8.7e14"),
        (999_999.9, "999999.9"),
        (1e6, "1.0e6"),
        (None, "-"),
        (float("nan"), "-"),
        (float("-inf"), "-"),
    ],
)
def test_absurd_numbers_have_an_exponent(value, text):
    assert figure(value) == text


def test_texts_of_means_counts_and_seeds():
    assert mean_figure([1.0, 2.0]) == "1.5"
    assert mean_figure([np.float32(1.0), 2]) == "1.5"
    assert figures_over_seeds(1.0, 2e6, -0.5) == "1.00 median, 2.0e6 mean, -0.50 worst seed"
    assert mean_figure([1.0, None]) == mean_figure([]) == mean_figure(["a", 1.0]) == "-"
    assert [counted(n, "seed") for n in (0, 1, 2)] == ["0 seeds", "1 seed", "2 seeds"]
    assert [seeds_as_text(seeds) for seeds in ((3,), (0, 1, 2), (0, 2))] == ["3", "0:3", "0,2"]


def test_run_says_what_it_is(tmp_path):
    config = {"experiment": "train", "algo": "sac", "env": "Hopper-v5", "seeds": [0, 1]}
    run = storage.save_run(tmp_path, config, {"steps": 70, "final_return": [1.0, 2.0]}, {})
    lines = repr(run).splitlines()
    assert lines[0] == f"Run {run.id}"
    facts = [line.split(maxsplit=1) for line in lines[1:]]
    for fact in (["algorithm", "sac"], ["seeds", "0:2"], ["steps", "70"]):
        assert fact in facts
    assert ["return", "1.5 mean, 1.0 worst seed"] in facts
    assert "Hopper-v5" in run._repr_html_()
    assert repr(storage.Run(run.path, run.id, {}, {}, {}, ("damaged",))).endswith("damaged")


@pytest.mark.parametrize(
    ("regret", "text"),
    [
        ({"median": 7.0, "mean": 9.5, "worst": 21.0}, "7.00 median, 9.50 mean, 21.00 worst seed"),
        ({"median": 7.0, "mean": 7.0, "worst": 7.0}, "7.00"),
        ({"median": 7.0}, "7.00 median"),  # a run of an earlier version
    ],
)
def test_run_of_a_tabular_agent_shows_median_mean_and_worst_seed(tmp_path, regret, text):
    config = {"experiment": "tabular", "agent": "psrl", "env": "riverswim", "seeds": [0]}
    run = storage.save_run(tmp_path, config, {"regret": regret, "episodes": 9}, {})
    assert f"  regret       {text}\n" in repr(run)


@pytest.mark.parametrize(
    ("returns", "text"), [([3.0], "3.0"), ([3.0, 3.0], "3.0"), ([3.0, None], "-")]
)
def test_run_shows_one_return_where_seeds_agree_or_one_is_missing(tmp_path, returns, text):
    config = {"experiment": "train", "algo": "sac", "env": "Hopper-v5", "seeds": [0, 1]}
    run = storage.save_run(tmp_path, config, {"final_return": returns}, {})
    assert f"  return       {text}\n" in repr(run)
