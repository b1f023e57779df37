"""`narl report`: the outcomes of the experiments, or trainings, in one offline HTML file."""

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
    from narl.report.document import Outcome

EXAMPLE = "narl report --out report.html"
TRAININGS = "narl report train-narl-hopper-v5 --out report.html"
SCALES = ("paper", "small", "smoke")
"""From the largest: of an experiment that was run at several, the first of these is shown."""


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
    """Runs the command."""
    config = parse(Report, "narl report", arguments, EXAMPLE)
    if config.out.suffix.lower() != ".html" or config.out.is_dir():
        name = config.out.with_suffix(".html").name
        raise InputError(f"--out: {config.out} is no .html file; such as {name}")
    from narl.commands.console import print_json, stdout
    from narl.commands.interrupts import interruptible

    check_writable("--out", config.out.parent, "choose another")
    outcomes = _trainings(config) if config.run else _experiments(config)
    from narl.report import write_report

    config.out.parent.mkdir(parents=True, exist_ok=True)
    written = interruptible(lambda: write_report(outcomes, config.out))
    shown = [{"id": outcome.id, "scale": outcome.scale or None} for outcome in outcomes]
    if config.json:
        files = [str(path) for path in written]
        print_json({"report": str(config.out), "outcomes": shown, "files": files})
        return 0
    listed = ", ".join(
        f"{outcome.id} ({outcome.scale})" if outcome.scale else outcome.title
        for outcome in outcomes
    )
    console = stdout()
    console.print(f"{listed}: {len(written)} files", soft_wrap=True)
    console.print(f"open {config.out}", soft_wrap=True)
    return 0


def _experiments(config: Report) -> list[Outcome]:
    if config.runs is not None:
        raise InputError(f"--runs: it is for trainings; name some, such as `{TRAININGS}`")
    return gather(config.results, config.also, config.scale)


def _trainings(config: Report) -> list[Outcome]:
    """The trainings that are named, by environment."""
    given = {
        "--results": config.results != Report.results,
        "--also": config.also is not None,
        "--scale": config.scale is not None,
    }
    for name in (name for name, is_given in given.items() if is_given):
        raise InputError(f"{name}: it is for experiments, not for trainings; leave it out, or RUN")
    from narl.commands.trainings import told
    from narl.report.training_report import outcomes_of
    from narl.storage.runs import default_root
    from narl.storage.unfinished import locate

    root = default_root() if config.runs is None else config.runs
    found = [locate(root, run) for run in config.run]
    once = {run.path.resolve(): run for run in found}
    return outcomes_of([told(run) for run in once.values()])


def gather(folder: Path, also: Path | None, scale: str | None) -> list[Outcome]:
    """The outcomes in the folders: one per experiment, in the paper's order."""
    from narl.experiments import EXPERIMENTS
    from narl.report.document import load

    if folder.exists() and not folder.is_dir():
        raise InputError(f"--results: {folder} is not a folder; choose another")
    if also is not None and not also.is_dir():
        raise InputError(f"--also: {also} is not a folder; choose another or leave it out")
    scales = SCALES if scale is None else (scale,)
    found: dict[str, dict[str, Outcome]] = {}
    for place in (folder, *([] if also is None else [also])):
        here: dict[str, dict[str, Outcome]] = {}
        for path in sorted(place.glob("*.json")):
            outcome = load(path)
            if outcome.scale in scales:
                here.setdefault(outcome.id, {})[outcome.scale] = outcome
        found |= here
    order = [*EXPERIMENTS, *sorted(set(found) - set(EXPERIMENTS))]
    outcomes = []
    for by_scale in (found.get(id_, {}) for id_ in order):
        outcomes += [by_scale[one] for one in scales if one in by_scale][:1]
    if not outcomes:
        first = f"narl reproduce all --scale {scale or 'small'}"
        what = "outcomes" if scale is None else f"outcomes at scale {scale}"
        raise InputError(f"--results: {folder} holds no {what}; first run `{first}`")
    return outcomes
