"""The folded list of the runs behind a section: commands, durations, the numbers of every seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from narl.display import counted
from narl.report.contents import Section, TabularRun, Training
from narl.report.markup import anchor, facts, inline, text
from narl.report.number_format import format_number

SHARED = (
    "Each training has the command that trains it alone, and the return of every seed at every "
    "evaluation. Trainings of one shape run in one program, whose duration they share; alone, a "
    "training may be rounded differently on a GPU. "
)
SUMS = (
    "Each tabular run has the command that runs it alone, and the scores of every seed: the terms "
    "of Eq. 1, summed over the episodes. "
)
REPEATED = "The command at the head of the section runs them again."


def runs_anchor(id: str) -> str:
    """Return the name of the list of runs in the section with this name."""
    return anchor(id, "runs")


def run_list(section: Section, id: str, about: str = "") -> str:
    """Return every run behind a section, folded; ``about`` is HTML to show before the runs."""
    if not section.runs:
        return about
    name = runs_anchor(id)
    listed: list[Training | TabularRun] = [*section.trainings, *section.tabular_runs]
    folded = "".join(
        _training(run, anchor(name, str(place)))
        if isinstance(run, Training)
        else _tabular_run(run, anchor(name, str(place)))
        for place, run in enumerate(listed, start=1)
    )
    known = {run.run for run in listed}
    ids = "".join(f"<li><code>{text(run)}</code></li>" for run in section.runs if run not in known)
    words = REPEATED
    file = f"`results/{section.id}-{section.scale}.json`"
    if section.tabular_runs:
        words = f"{SUMS}{words} The numbers with more digits are in {file}, `tabular_runs`."
    if section.trainings:
        words = f"{SHARED}{words} The numbers with more digits are in {file}, `trainings`."
    return (
        f'<details class="runs" id="{name}"><summary>Every run: {len(section.runs):,}</summary>'
        f"{about}<p>{inline(words)}</p>{folded}{f'<ul>{ids}</ul>' if ids else ''}</details>"
    )


def _training(training: Training, id: str) -> str:
    """Return one training, folded, with a row per evaluation and a column per seed."""
    heads = ["steps", *(f"seed {seed}" for seed in training.seeds)]
    rows = zip((f"{step:,}" for step in training.steps), *training.returns, strict=True)
    about = {"run": training.run, "duration": _duration(training), "device": training.device}
    return _run(training, id, about, heads, rows, "return of every seed at every evaluation")


def _tabular_run(run: TabularRun, id: str) -> str:
    """Return one tabular run, folded, with a row per seed and a column per score."""
    heads = ["seed", *(name.replace("_", " ") for name in run.seed_scores)]
    rows = zip(map(str, run.seeds), *run.seed_scores.values(), strict=True)
    about = {"run": run.run, "episodes": f"{run.episodes:,}"}
    return _run(run, id, about, heads, rows, "scores of every seed")


def _run(
    run: Training | TabularRun,
    id: str,
    about: Mapping[str, str | None],
    heads: Sequence[str],
    rows: Iterable[tuple[Any, ...]],
    content: str,
) -> str:
    """Return one run, folded: its command, the facts about it, and a table.

    A row begins with its head; ``content`` says what the table holds.
    """
    columns = "".join(f'<th scope="col">{text(head)}</th>' for head in heads)
    body = "".join(
        f'<tr><th scope="row">{head}</th>'
        + "".join(f"<td>{format_number(value)}</td>" for value in values)
        + "</tr>"
        for head, *values in rows
    )
    return (
        f'<details id="{id}"><summary>{text(run.label)}</summary>'
        f'<p><code class="command">{text(run.command)}</code></p>'
        f'{facts(about)}<div class="scroll" tabindex="0" role="region" '
        f'aria-label="{text(run.label)}: {content}">'
        f'<table class="wide"><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>'
        "</details>"
    )


def _duration(training: Training) -> str | None:
    if training.seconds is None:
        return None
    seconds = f"{format_number(training.seconds)} s"
    if training.replicas is None or training.replicas == len(training.seeds):
        return seconds
    return f"{seconds} for {counted(training.replicas, 'replica')} in one program"
