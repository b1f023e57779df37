"""`narl report`: outcomes of experiments, or trainings, as one offline HTML file."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional

from narl.commands.arguments import RunsFolder, Switch, parse, value
from narl.errors import InputError
from narl.storage.files import check_name, check_writable

if TYPE_CHECKING:
    from rich.console import Console

    from narl.report.contents import Outcome, Section

EXAMPLE = "narl report --out report.html"
TRAININGS = "narl report train-narl-hopper-v5 --out report.html"
SCALES = ("paper", "small", "smoke")
"""The largest first: of an experiment that was run at several scales, the largest is shown."""
MOST_DIFFERENCES = 6
"""Rows of a table of differences that are printed; the page has all of them."""


@dataclasses.dataclass(frozen=True)
class Report:
    """Write charts, tables and claims as one HTML file, and every chart as PNG and PDF.

    - Without RUN it shows the experiments: what `narl reproduce` has left in the
      folder of the results.
    - With RUN it shows runs of `narl tabular` and `narl train`, unfinished trainings too.
      Those of one environment share their charts.
    """

    run: Annotated[Positional[tuple[str, ...]], value("[RUN ...]")] = ()
    """runs: ids, their beginnings or last ten digits, folders, or latest"""
    out: Annotated[Path, value("FILE.html", "(default: report.html)")] = Path("report.html")
    """the file to write; the pictures go beside it"""
    results: Annotated[Path, value("DIR", "(default: results)")] = Path("results")
    """folder of the outcomes"""
    also: Annotated[Path | None, value("DIR", "")] = None
    """another folder of outcomes to show too; at the same scale this one is taken"""
    scale: Annotated[
        Literal["smoke", "small", "paper"] | None,
        value("smoke|small|paper", "(default: the largest there is)"),
    ] = None
    """show the outcomes of this scale alone"""
    runs: RunsFolder = None
    """folder of the runs, where RUN is looked for"""
    json: Switch = False
    """one JSON object on stdout, everything else on stderr"""


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    config = parse(Report, "narl report", arguments, EXAMPLE)
    check_name("--out", config.out, "choose another")
    if config.out.suffix.lower() != ".html" or config.out.is_dir():
        name = f"{config.out.stem or 'report'}.html"
        raise InputError(f"--out: {config.out} is no .html file; such as {name}")
    from narl.console import note, print_json, stdout
    from narl.interrupts import run_interruptible

    check_writable("--out", config.out.parent, "choose another")
    sections = _trainings(config) if config.run else _experiments(config)
    from narl.report import write_report

    written = run_interruptible(lambda: write_report(sections, config.out))
    for section in sections:
        for warning in section.warnings:
            note(f"{section.title}: {warning}")
    if config.json:
        shown = [_as_json(section) for section in sections]
        files = [str(path) for path in written]
        print_json({"report": str(config.out), "outcomes": shown, "files": files})
        return 0
    console = stdout()
    for section in sections if config.run else []:
        _print_runs(section, console)
    names = ", ".join(section.name for section in sections)
    console.print(f"{names}: {len(written)} files", soft_wrap=True)
    console.print(f"open {config.out}", soft_wrap=True)
    return 0


def _as_json(section: Section) -> dict[str, Any]:
    """Return a section as `--json` prints it; one of runs has their ids and differences."""
    from narl.report.contents import rounded

    entry: dict[str, Any] = {"id": section.id, "scale": section.scale}
    if section.scale is None:
        table = section.comparison
        rows = (
            [] if table is None else [dict(zip(table.columns, x, strict=True)) for x in table.rows]
        )
        entry |= {"runs": section.runs, "differences": rounded(rows)}
    return entry


def _print_runs(section: Section, console: Console) -> None:
    """Print a line for every run of a section, and one for every difference of trainings."""
    about = [part for part in section.introduction if part.command]
    for run, part in zip(section.runs, about, strict=True):
        console.print(f"{run}: {part.text}", soft_wrap=True)
    lines = difference_lines(section)
    for line in lines[:MOST_DIFFERENCES]:
        console.print(line, soft_wrap=True)
    if len(lines) > MOST_DIFFERENCES:
        console.print(f"more differences are on the page: {len(lines) - MOST_DIFFERENCES}")


def difference_lines(section: Section) -> list[str]:
    """Return the rows of the table of differences: pair, return, interval and verdict."""
    from narl.report.number_format import format_rows

    if section.comparison is None:
        return []
    lines = []
    for pair, better, what, *interval, _ in section.comparison.rows:
        (shown,) = format_rows([interval], digits=3)
        sign = "+" if interval[0] > 0 and shown[0] != "0" else ""
        verdict = better if better == "undecided" else f"{better} is better"
        lines.append(f"{pair}, {what}: {sign}{shown[0]} [{shown[1]}, {shown[2]}], {verdict}")
    return lines


def _experiments(config: Report) -> list[Section]:
    """Return the sections of the experiments in the folders of results."""
    if config.runs is not None:
        raise InputError(f"--runs: it is for trainings; name some, such as `{TRAININGS}`")
    from narl.experiments.judgement import improvement_charts

    sections = [
        outcome.section() for outcome in load_outcomes(config.results, config.also, config.scale)
    ]
    return [
        dataclasses.replace(section, charts=[*section.charts, *improvement_charts(section.tables)])
        for section in sections
    ]


def _trainings(config: Report) -> list[Section]:
    """Return the sections of the named trainings, one per environment."""
    is_given = {
        "--results": config.results != Report.results,
        "--also": config.also is not None,
        "--scale": config.scale is not None,
    }
    for name in (name for name, given in is_given.items() if given):
        raise InputError(f"{name}: it is for experiments, not for trainings; leave it out, or RUN")
    from narl.report.tabular_report import tabular_sections
    from narl.report.training_report import training_sections
    from narl.report.training_summary import summarise_training
    from narl.run_lookup import find_run
    from narl.storage import Run, default_root
    from narl.sweeps.run_notes import without_notes

    root = default_root() if config.runs is None else config.runs
    names = without_notes(config.run) or config.run
    runs = {run.path.resolve(): run for run in (find_run(root, name) for name in names)}
    tabular = [
        run
        for run in runs.values()
        if isinstance(run, Run) and run.config.get("experiment") == "tabular"
    ]
    trainings = [summarise_training(run) for run in runs.values() if run not in tabular]
    return [*tabular_sections(tabular), *training_sections(trainings)]


def load_outcomes(folder: Path, also: Path | None, scale: str | None) -> list[Outcome]:
    """Return the outcomes in the folders, in the order of the paper.

    Without a ``scale``, the largest scale of each experiment is taken, wherever it is; what
    ``also`` holds at smaller scales follows it. At the same scale ``also`` comes before ``folder``.
    """
    from narl.console import note
    from narl.experiments import EXPERIMENTS
    from narl.report.contents import load_outcome

    for name, place in (("--results", folder), ("--also", also or folder)):
        check_name(name, place, "choose another")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--results: {folder} is not a folder; choose another")
    if also is not None and not also.is_dir():
        raise InputError(f"--also: {also} is not a folder; choose another or leave it out")
    scales = SCALES if scale is None else (scale,)
    by_experiment: dict[str, dict[str, Outcome]] = {}
    asked: set[tuple[str, str]] = set()
    for place in (folder, *([] if also is None else [also])):
        for path in sorted(place.glob("*.json")):
            try:
                outcome = load_outcome(path)
            except InputError as error:
                note(f"{error}; the report is made without it")
                continue
            if outcome.scale in scales:
                by_experiment.setdefault(outcome.id, {})[outcome.scale] = outcome
                if place == also:
                    asked.add((outcome.id, outcome.scale))
    order = [*EXPERIMENTS, *sorted(set(by_experiment) - set(EXPERIMENTS))]
    outcomes = []
    for id_ in order:
        found = [x for name in scales if (x := by_experiment.get(id_, {}).get(name)) is not None]
        outcomes += [*found[:1], *(x for x in found[1:] if (id_, x.scale) in asked)]
    if not outcomes:
        first = f"narl reproduce all --scale {scale or 'small'}"
        what = "outcomes" if scale is None else f"outcomes at scale {scale}"
        raise InputError(f"--results: {folder} holds no {what}; first run `{first}`{_or_runs()}")
    return outcomes


def _or_runs() -> str:
    """Return the command that draws a run, where there are runs and no outcomes."""
    from narl.storage import default_root, list_run_ids, list_unfinished_runs

    root = default_root()
    has_runs = list_run_ids(root) or list_unfinished_runs(root)
    return f"; `narl report latest` draws the latest run of {root}" if has_runs else ""
