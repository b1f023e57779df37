"""The drawings of README and site: bands within what is possible, whole lines, no empty margins."""

import dataclasses
import importlib
import sys
from pathlib import Path
from types import ModuleType

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex

from narl.report.contents import Outcome

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    """The script that makes the drawings."""
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module("make_pictures")
    finally:
        sys.path.remove(str(DOCS))


def test_bands_of_returns_stay_within_the_possible(pictures: ModuleType) -> None:
    panels = pictures.results.draw_pays().axes
    (car,) = [axes for axes in panels if axes.get_title().startswith("Mountain car")]
    tops = [path.vertices[:, 1].max() for band in car.collections for path in band.get_paths()]
    assert len(tops) == 4
    assert 90 < max(tops) <= 100  # 100 is the reward at the goal


def test_one_legend_covers_no_panel(pictures: ModuleType) -> None:
    with matplotlib.rc_context(pictures.STYLE):
        figure = pictures.results.draw_pays()
        figure.draw_without_rendering()
    *panels, key_panel = figure.axes
    legend = key_panel.get_legend()
    assert all(axes.get_legend() is None for axes in panels)
    place = legend.get_window_extent()
    assert not any(place.overlaps(axes.get_tightbbox()) for axes in panels)
    looks = [(line.get_color(), line.get_linestyle()) for line in legend.get_lines()]
    assert len(set(looks)) == len(looks) == 6


def test_line_of_what_narl_assumes_is_whole(pictures: ModuleType) -> None:
    first = pictures.ideas.draw_idea().axes[0]
    (assumed,) = [line for line in first.lines if to_hex(line.get_color()) == pictures.ideas.NARL]
    assert len(assumed.get_ydata()) == 200
    assert np.isfinite(assumed.get_ydata()).all()


def test_riverswim_begins_at_the_edge(pictures: ModuleType) -> None:
    with matplotlib.rc_context(pictures.STYLE):
        figure = pictures.ideas.draw_riverswim()
        figure.draw_without_rendering()
        ink = [part.get_window_extent() for part in figure.axes[0].texts]
    left, right = min(box.x0 for box in ink), max(box.x1 for box in ink)
    assert 0 <= left < 0.03 * figure.bbox.width
    assert 0.97 * figure.bbox.width < right <= figure.bbox.width


def test_all_tasks_show_every_algorithm_in_the_order_of_the_score(pictures: ModuleType) -> None:
    score, improvement, profile = pictures.results.draw_all_tasks().axes
    dots = [float(line.get_xdata()[0]) for line in score.lines]
    assert len(dots) == len(profile.lines) == 8
    assert dots == sorted(dots, reverse=True)
    *of_rivals, level = improvement.lines
    assert len(of_rivals) == 7  # MBPO is not compared with itself
    assert list(level.get_xdata()) == [0.5, 0.5]


def test_check_finds_a_changed_number(
    pictures: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pictures, "OF_RESULTS", {"all-tasks": pictures.results.draw_all_tasks})
    assert pictures.main(["--check"]) == 0
    stored: Outcome = pictures.results.read_outcome("exploration")
    (place,) = [i for i, x in enumerate(stored.charts) if x.id == "exploration-iqm"]
    chart = stored.charts[place]
    first = chart.series[0]
    moved = dataclasses.replace(first, y=[first.y[0] + 0.01])
    series = [moved, *chart.series[1:]]
    charts = [*stored.charts]
    charts[place] = dataclasses.replace(chart, series=series)
    changed = dataclasses.replace(stored, charts=charts)
    monkeypatch.setattr(pictures.results, "read_outcome", lambda _: changed)
    assert pictures.main(["--check"]) == 1
    assert "all-tasks.svg" in capsys.readouterr().err


def test_same_drawing_may_be_rounded_differently(pictures: ModuleType) -> None:
    drawing = '<path d="M 10.5 20.25" style="stroke: #0072b2"/>'
    assert pictures.is_same_drawing(drawing, drawing.replace("20.25", "20.251"))
    assert not pictures.is_same_drawing(drawing, drawing.replace("20.25", "20.3"))
    assert not pictures.is_same_drawing(drawing, drawing.replace("stroke", "fill"))
    assert not pictures.is_same_drawing(drawing, drawing.replace(" 20.25", ""))
