"""Figures and files of a report: what is drawn, what is written, and what is refused."""

import dataclasses
import io
import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from fake_outcomes import fig1a, fig1c, line_chart, small_section

from narl.errors import InputError
from narl.report import draw_figure, write_report
from narl.report.contents import Claim, Series, Table
from narl.report.figures import figure_bytes
from narl.report.page import compose_page
from narl.report.series import MEMBERS, RANK


def test_figure_has_the_lines_axes_and_names_of_its_chart() -> None:
    before = dict(matplotlib.rcParams)
    chart = fig1a().charts[1]
    figure = draw_figure(chart)
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_title("left"), axes.get_xlabel()) == (chart.title, chart.x_label)
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == [*(series.label for series in chart.series), "V* = 3.3973"]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), chart.series[0].y)
    assert len(axes.collections) == 6
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("chart", [fig1a().charts[0], fig1c().charts[0]], ids=lambda c: c.id)
def test_legend_covers_nothing(chart) -> None:
    figure = draw_figure(chart)
    figure.draw_without_rendering()
    (axes,), (legend,) = figure.axes, figure.legends
    box = legend.get_window_extent()
    assert box.y1 < axes.get_tightbbox().y0
    assert 0 < box.x0 < box.x1 < figure.bbox.x1


def test_figure_shows_gaps_and_marks_lone_points() -> None:
    figure = draw_figure(line_chart(Series("a", [1.0, 2.0, 3.0], [1.0, None, 3.0])))
    line, dots = figure.axes[0].lines
    np.testing.assert_array_equal(line.get_ydata(), [1, np.nan, 3])
    assert (dots.get_marker(), dots.get_xdata().tolist()) == ("o", [1, 3])


def test_members_are_bars_side_by_side_with_their_bands() -> None:
    series = [Series(label, [1.0, 3.0], [0.2, 0.6], [0.1, 0.5], [0.3, 0.7]) for label in "ab"]
    (axes,) = draw_figure(line_chart(*series, x_label=RANK)).axes
    assert [round(bar.get_height(), 6) for bar in axes.patches] == [0.2, 0.6] * 2
    starts = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]
    assert starts[0][1] <= starts[2][0]  # b is beside a
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "3"]
    assert axes.get_ylim()[0] == 0


def test_nearly_empty_dots_have_a_visible_outline() -> None:
    labels = ("ε = 0.1", "the paper, ε = 0.1")  # one colour, so that the second dot is empty
    series = [Series(label, [3.0, 5.0], [2.0, 3.0], [1.0, 2.0], [3.0, 4.0]) for label in labels]
    figure = draw_figure(line_chart(*series, x_label=MEMBERS))
    file = io.StringIO()
    figure.savefig(file, format="svg")
    assert "fill-opacity: 0.06" in file.getvalue()
    assert "stroke-opacity" not in file.getvalue()


def test_intervals_have_one_row_per_series_the_first_on_top() -> None:
    series = [
        Series(label, [1.0], [y], [y - 0.1], [y + 0.1]) for label, y in (("a", 0.2), ("b", 0.8))
    ]
    (axes,) = draw_figure(line_chart(*series, x_label="", y_label="probability")).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b"]
    assert [line.get_xdata()[0] for line in axes.lines] == [0.2, 0.8]
    assert axes.yaxis_inverted()


def test_symlog_axis_ends_near_the_data() -> None:
    figure = draw_figure(line_chart(Series("a", [1.0, 2.0], [-1e9, 10.0]), y_axis="symlog"))
    low, high = figure.axes[0].get_ylim()
    assert -1e10 < low < -1e9
    assert 10 < high < 200


def test_figure_without_data_says_so() -> None:
    figure = draw_figure(line_chart(Series("a", [1.0], [None]), y_axis="log", reference=2.0))
    assert [text.get_text() for text in figure.axes[0].texts] == ["no data"]


@pytest.mark.parametrize("axis", ["linear", "log", "symlog"])
@pytest.mark.parametrize("values", [[1.0, 1.0], [3.3, 3.9], [0.1, 9e4], [1e-3, 0.1]])
def test_every_axis_has_ticks_with_plain_numbers(axis: str, values: list[float]) -> None:
    chart = line_chart(Series("$x_1$ {", [1.0, 2.0], values), y_axis=axis, title="5 $ and $ 6")
    figure = draw_figure(chart)
    figure.draw_without_rendering()
    low, high = sorted(figure.axes[0].get_ylim())
    ticks = [t for t in figure.axes[0].yaxis.get_ticklabels() if low <= t.get_position()[1] <= high]
    labels = [tick.get_text() for tick in ticks]
    assert labels
    assert all(re.fullmatch(r"−?[\d,.]+(e−?\d+)?", label) for label in labels)
    assert figure.axes[0].get_title("left") == "5 $ and $ 6"


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_figures_are_the_same_bytes_without_a_date(kind: str) -> None:
    first, second = (figure_bytes(draw_figure(fig1c().charts[0]), kind) for _ in range(2))
    assert first == second
    assert b"Date" not in first
    assert b"atplotlib" not in first


def test_report_is_one_page_and_two_files_per_chart(tmp_path: Path) -> None:
    out = tmp_path / "new" / "page.html"
    outcome = dataclasses.replace(fig1c(), charts=fig1c().charts[:1])
    written = write_report([outcome, small_section()], out)
    names = ["fig1c-small-solved", "exp-smoke-regret"]
    folder = tmp_path / "new" / "page-figures"
    files = [folder / f"{name}.{kind}" for name in names for kind in ("png", "pdf")]
    assert written == [out, *files]
    assert sorted(out.parent.rglob("*")) == sorted([*written, folder])
    page = compose_page([outcome.section(), small_section()])
    assert out.read_text(encoding="utf-8") == page
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert files[1].read_bytes().startswith(b"%PDF")


def test_figures_can_have_a_folder_of_their_own(tmp_path: Path) -> None:
    written = write_report([small_section()], tmp_path / "r.html", figures=tmp_path / "f")
    assert {path.parent for path in written[1:]} == {tmp_path / "f"}


CHART, CLAIM = small_section().charts[0], Claim("x", "s", "w", "holds", "n")
MIXED_LENGTHS = Series("a", [1.0, 2.0], [1.0])
LONG_BAND = Series("a", [1.0], [1.0], [1.0, 2.0, 3.0], [1.0])


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ([], "no results found"),
        ([small_section()] * 2, "two results are of experiment exp-smoke"),
        ([small_section(charts=[CHART] * 2)], "two charts are named exp-smoke-regret"),
        ([small_section(claims=[CLAIM] * 2)], "experiment exp-smoke has two claims x"),
        (
            [small_section(charts=[line_chart(MIXED_LENGTHS)])],
            "chart c, series 'a': y has 1 values",
        ),
        ([small_section(charts=[line_chart(LONG_BAND)])], "low has 3 values; it must have 1"),
        (
            [small_section(charts=[line_chart(*[Series("a", [1.0], [1.0])] * 2)])],
            "two series are labelled 'a'",
        ),
        (
            [small_section(tables=[Table("t", "T", ["A", "B"], [["a", 1], ["b"]])])],
            "table t, row 2: 1 cells; it must have 2",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_contents_are_refused_in_one_line(
    sections: list, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        write_report(sections, tmp_path / "r.html")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        write_report([small_section()], tmp_path)
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be written"):
        write_report([small_section()], tmp_path / "file" / "r.html")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
