"""`narl report`: outcomes of experiments, or trainings, as one offline HTML file."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional

from narl.commands.arguments import RunsFolder, Switch, parse, value
from narl.errors import InputError
from narl.storage.folder import check_writable

if TYPE_CHECKING:
    from narl.report.document import Outcome, Section

EXAMPLE = "narl report --out report.html"
TRAININGS = "narl report train-narl-hopper-v5 --out report.html"
SCALES = ("paper", "small", "smoke")
"""The largest first: of an experiment that was run at several scales, the largest is shown."""


@dataclasses.dataclass(frozen=True)
class Report:
    """Write charts, tables and claims as one HTML file, and every chart as PNG and PDF.

    - Without RUN it shows the experiments: what `narl reproduce` has left in the
      folder of the results.
    - With RUN it shows trainings of `narl train`, unfinished ones too. Those of one
      environment share their charts.
    """

    run: Annotated[Positional[tuple[str, ...]], value("[RUN ...]")] = ()
    """trainings: ids, beginnings of ids, or folders"""
    out: Annotated[Path, value("FILE.html", "(default: report.html)")] = Path("report.html")
    """the file to write; the pictures go beside it"""
    results: Annotated[Path, value("DIR", "(default: results)")] = Path("results")
    """folder of the outcomes"""
    also: Annotated[Path | None, value("DIR", "")] = None
    """another folder of outcomes; what is in both is taken from this one"""
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
    if config.out.suffix.lower() != ".html" or config.out.is_dir():
        name = config.out.with_suffix(".html").name
        raise InputError(f"--out: {config.out} is no .html file; such as {name}")
    from narl.console import print_json, stdout
    from narl.interrupts import run_interruptible

    check_writable("--out", config.out.parent, "choose another")
    sections = _trainings(config) if config.run else _experiments(config)
    from narl.report import write_report

    written = run_interruptible(lambda: write_report(sections, config.out))
    if config.json:
        shown = [{"id": section.id, "scale": section.scale} for section in sections]
        files = [str(path) for path in written]
        print_json({"report": str(config.out), "outcomes": shown, "files": files})
        return 0
    console = stdout()
    names = ", ".join(section.name for section in sections)
    console.print(f"{names}: {len(written)} files", soft_wrap=True)
    console.print(f"open {config.out}", soft_wrap=True)
    return 0


def _experiments(config: Report) -> list[Section]:
    """Return the sections of the experiments in the folders of results."""
    if config.runs is not None:
        raise InputError(f"--runs: it is for trainings; name some, such as `{TRAININGS}`")
    outcomes = load_outcomes(config.results, config.also, config.scale)
    return [outcome.section() for outcome in outcomes]


def _trainings(config: Report) -> list[Section]:
    """Return the sections of the named trainings, one per environment."""
    is_given = {
        "--results": config.results != Report.results,
        "--also": config.also is not None,
        "--scale": config.scale is not None,
    }
    for name in (name for name, given in is_given.items() if given):
        raise InputError(f"{name}: it is for experiments, not for trainings; leave it out, or RUN")
    from narl.report.training_report import training_sections
    from narl.report.training_summary import summarise_training
    from narl.storage import default_root, locate_run

    root = default_root() if config.runs is None else config.runs
    runs = [locate_run(root, run) for run in config.run]
    without_duplicates = {run.path.resolve(): run for run in runs}
    return training_sections([summarise_training(run) for run in without_duplicates.values()])


def load_outcomes(folder: Path, also: Path | None, scale: str | None) -> list[Outcome]:
    """Return one outcome per experiment in the folders, in the order of the paper.

    An experiment that is in both folders is taken from ``also``. Without a ``scale``, the largest
    scale of each experiment is taken.
    """
    from narl.experiments import EXPERIMENTS
    from narl.report.document import load_outcome

    if folder.exists() and not folder.is_dir():
        raise InputError(f"--results: {folder} is not a folder; choose another")
    if also is not None and not also.is_dir():
        raise InputError(f"--also: {also} is not a folder; choose another or leave it out")
    scales = SCALES if scale is None else (scale,)
    by_experiment: dict[str, dict[str, Outcome]] = {}
    for place in (folder, *([] if also is None else [also])):
        in_place: dict[str, dict[str, Outcome]] = {}
        for path in sorted(place.glob("*.json")):
            outcome = load_outcome(path)
            if outcome.scale in scales:
                in_place.setdefault(outcome.id, {})[outcome.scale] = outcome
        by_experiment |= in_place
    order = [*EXPERIMENTS, *sorted(set(by_experiment) - set(EXPERIMENTS))]
    outcomes = []
    for by_scale in (by_experiment.get(id_, {}) for id_ in order):
        outcomes += [by_scale[name] for name in scales if name in by_scale][:1]
    if not outcomes:
        first = f"narl reproduce all --scale {scale or 'small'}"
        what = "outcomes" if scale is None else f"outcomes at scale {scale}"
        raise InputError(f"--results: {folder} holds no {what}; first run `{first}`")
    return outcomes
