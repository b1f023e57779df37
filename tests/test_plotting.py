"""Plots of traces, agents and stored runs, and tables for pandas."""

import sys
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest

import narl
from narl.errors import InputError
from narl.palette import ALGORITHM_COLOURS, COLOURS, assign_looks
from narl.plotting import epoch_columns, label_curves, training_curve

EPISODES, SEEDS = 12, 3


@pytest.fixture(autouse=True)
def no_window(monkeypatch):
    """Draw without a screen, and forget the figures."""
    mpl.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def traces() -> dict[str, narl.tabular.Trace]:
    run = lambda name, **options: narl.run(name, "riverswim", EPISODES, "0:3", **options)  # noqa: E731
    return {"psrl": run("psrl"), "greedy": run("greedy"), "psrl, tau=3": run("psrl", tau=3.0)}


@pytest.fixture
def fake_pandas(monkeypatch):
    """A stand-in for pandas, which is an extra: a data frame is the dict of its columns."""
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))


ROWS = [
    {
        "epoch": epoch,
        "step": 10 * epoch,
        "eval_return": [float(epoch), None],
        "eval_returns": [[1.0, 2.0], [3.0, 4.0]],
        "seconds": {"env": 0.5},
        **({"holdout_error": [[0.1, 0.2], [0.3, 0.4]]} if epoch > 1 else {}),
    }
    for epoch in (1, 2, 3)
]


def labels_of(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


# --- traces ---------------------------------------------------------------------------------


def test_trace_plots_regret_and_its_terms(traces):
    trace = traces["psrl"]
    axes = trace.plot()
    assert labels_of(axes) == ["regret", "optimism", "estimation error"]
    assert axes.get_title(loc="left") == "psrl on riverswim"
    expected = np.median(trace.regret.cumsum(axis=1), axis=0)
    np.testing.assert_allclose(axes.lines[0].get_ydata(), expected)
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), np.arange(1, EPISODES + 1))
    assert len(axes.collections) == 3  # the bands over the seeds
    axes.figure.draw_without_rendering()
    legend, below = axes.get_legend().get_window_extent(), axes.xaxis.get_tightbbox()
    assert 0 <= legend.y0 < legend.y1 <= below.y0
    assert labels_of(trace.plot("value")) == ["value"]
    with pytest.raises(InputError, match="metric: unknown value 'regrets'; did you mean 'regret'"):
        trace.plot("regrets")


def test_trace_becomes_a_table_of_seeds_and_episodes(traces, fake_pandas):
    trace = traces["psrl"]
    table = trace.to_pandas()
    assert {len(column) for column in table.values()} == {SEEDS * EPISODES}
    assert list(table["seed"][:EPISODES]) == [0] * EPISODES
    assert list(table["episode"][-2:]) == [EPISODES - 1, EPISODES]
    np.testing.assert_array_equal(table["regret"].reshape(SEEDS, EPISODES), trace.regret)
    np.testing.assert_allclose(table["regret"], table["optimism"] + table["estimation_error"])
    assert "bad" not in table


def test_trace_becomes_a_data_frame_of_pandas(traces):
    trace = traces["psrl"]
    table = trace.to_pandas()
    assert len(table) == SEEDS * EPISODES
    by_seed = table.pivot(index="seed", columns="episode", values="regret")
    np.testing.assert_array_equal(by_seed.to_numpy(), trace.regret)
    assert by_seed.columns.tolist() == list(range(1, EPISODES + 1))


def test_missing_pandas_is_one_line(traces, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    line = (
        r'^pandas: pandas is not installed; pip install -c constraints\.txt "\.\[pandas\]" in the'
    )
    with pytest.raises(InputError, match=line):
        traces["psrl"].to_pandas()


def test_trace_says_what_it_is(traces):
    lines = repr(traces["psrl"]).splitlines()
    assert lines[0] == "Trace of psrl on riverswim: 12 episodes, 3 seeds"
    assert len(lines) < 10
    regret, optimism = (x.sum(axis=1) for x in (traces["psrl"].regret, traces["psrl"].optimism))
    figures = f"{np.median(regret):.2f} median, {regret.mean():.2f} mean, {regret.max():.2f} worst"
    assert lines[2].split(maxsplit=1) == ["regret", f"{figures} seed (sum over the episodes)"]
    # The worst seed is that with the largest regret.
    assert lines[3].endswith(f", {optimism[regret.argmax()]:.2f} worst seed")
    assert "<table>" in traces["psrl"]._repr_html_()
    sea = narl.run("psrl", narl.tabular.deep_sea(3), 30, [0])
    assert "of 1 seed" in repr(sea)
    assert repr(narl.tabular.riverswim()).splitlines()[0].startswith("MDP riverswim: 6 states, 2")


# --- several at once ------------------------------------------------------------------------


def test_algorithms_keep_their_colours_and_labels_tell_runs_apart(traces):
    axes = narl.plot(*traces.values())
    assert labels_of(axes) == ["psrl, tau=1", "greedy", "psrl, tau=3"]
    colours = [line.get_color() for line in axes.lines]
    psrl, greedy = (COLOURS[ALGORITHM_COLOURS[name]].light for name in ("psrl", "greedy"))
    assert colours == [psrl, greedy, psrl]
    assert [line.is_dashed() for line in axes.lines] == [False, False, True]
    alone = narl.plot(traces["greedy"])
    assert alone.lines[0].get_color() == colours[1]
    again = narl.plot(traces["greedy"], labels=["mine"], ax=alone)
    assert again is alone
    assert labels_of(alone) == ["greedy", "mine"]


def test_more_curves_of_an_algorithm_than_dashes_have_other_colours(traces):
    names = [str(number) for number in range(9)]
    axes = narl.plot(*[traces["psrl"]] * 9, labels=names)
    looks = [(line.get_color(), line._unscaled_dash_pattern) for line in axes.lines]
    psrl = COLOURS[ALGORITHM_COLOURS["psrl"]].light
    assert [colour for colour, _ in looks].count(psrl) == 6
    assert len({str(look) for look in looks}) == 9


def test_stored_runs_are_drawn_as_the_traces_were(traces, tmp_path):
    config = narl.tabular.make_config("psrl", "riverswim", episodes=EPISODES, seeds="0:3")
    run, _ = narl.tabular.run_config(config, tmp_path)
    for name in (run, run.id, run.id[:14], run.path):
        axes = narl.plot(name, metric="optimism", root=tmp_path)
        expected = np.median(traces["psrl"].optimism.cumsum(axis=1), axis=0)
        np.testing.assert_allclose(axes.lines[0].get_ydata(), expected, rtol=1e-4)
    twice = narl.plot(run, traces["psrl"])
    assert labels_of(twice) == ["psrl #1", "psrl #2"]


@pytest.mark.parametrize(
    ("arguments", "options", "line"),
    [
        ((), {}, "runs: there are none"),
        ((3,), {}, "runs: a int given; it must be a trace"),
        (("psrl",), {"labels": ["a", "b"]}, "labels: 2 given for 1 runs"),
    ],
)
def test_wrong_input_is_one_line(traces, arguments, options, line):
    runs = [traces.get(run, run) if isinstance(run, str) else run for run in arguments]
    with pytest.raises(InputError, match=line):
        narl.plot(*runs, **options)


# --- trainings ------------------------------------------------------------------------------


def curve(metric=None, algorithm="narl", env="X", **settings):
    return training_curve(ROWS, metric, algorithm=algorithm, env=env, settings=settings)


def test_metric_of_a_training_is_drawn_where_it_is_known():
    returns = curve()
    assert (returns.x.tolist(), returns.values[0].tolist()) == ([10, 20, 30], [1, 2, 3])
    assert np.isnan(returns.values[1]).all()
    with pytest.raises(InputError, match=r"metric: unknown value 'loss'; it must be one of"):
        curve("loss")
    with pytest.raises(InputError, match="has no finished epoch yet"):
        training_curve([], None, algorithm="narl", env="X", settings={})


def test_band_of_a_training_ends_at_the_lowest_and_the_highest_seed():
    rows = [{"step": 10, "eval_return": [0.0, 0.0, 0.0, 8.0]}]
    returns = training_curve(rows, None, algorithm="narl", env="X", settings={})
    # Mean 2 and standard deviation √12: 2 − 3.46 is below the lowest seed.
    assert [float(x[0]) for x in returns.band()] == pytest.approx([10, 2, 0, 2 + 12**0.5])


def test_kinds_of_runs_are_not_mixed(traces):
    training = SimpleNamespace(curve=lambda metric: curve(metric))
    with pytest.raises(InputError, match="tabular runs and trainings given"):
        narl.plot(traces["psrl"], training)


def test_labels_name_environment_and_settings_that_differ():
    curves = [curve(radius=0.1), curve(radius=None), curve(env="Y", algorithm="sac", radius=3)]
    assert label_curves(curves) == ["narl on X, radius=0.1", "narl on X, radius=none", "sac on Y"]


def test_history_becomes_a_table_of_epochs_and_seeds():
    table = epoch_columns(ROWS, seeds=(4, 6))
    assert table["step"] == [10, 10, 20, 20, 30, 30]
    assert table["seed"] == [4, 6] * 3
    assert table["eval_return"] == [1.0, None, 2.0, None, 3.0, None]
    assert table["eval_returns_1"] == [2.0, 4.0] * 3
    assert table["seconds_env"] == [0.5] * 6
    assert table["holdout_error_0"] == [None, None, 0.1, 0.3, 0.1, 0.3]


def test_fixed_colours_come_first_and_looks_stay_apart():
    looks = assign_looks([["a", "b", "c", "d"]], {"c": 0, "d": 0})
    assert looks["c"] == (0, 0)
    assert looks["d"] == (0, 1)  # the same colour with a dash
    assert len(set(looks.values())) == 4
