"""The folded list of the runs behind a section: commands, durations, the returns of every seed."""

from __future__ import annotations

from narl.display import counted
from narl.report.contents import Section, Training
from narl.report.markup import anchor, facts, inline, text
from narl.report.number_format import format_number

SHARED = (
    "Each training has the command that trains it alone, and the return of every seed at every "
    "evaluation. Trainings of one shape run in one program, whose duration they share; alone, a "
    "training may be rounded differently on a GPU. "
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
    trained = {training.run for training in section.trainings}
    others = [run for run in section.runs if run not in trained]
    trainings = "".join(
        _training(training, anchor(name, str(place)))
        for place, training in enumerate(section.trainings, start=1)
    )
    ids = "".join(f"<li><code>{text(run)}</code></li>" for run in others)
    words = REPEATED
    if section.trainings:
        file = f"results/{section.id}-{section.scale}.json"
        words = f"{SHARED}{REPEATED} The numbers with more digits are in `{file}`, `trainings`."
    return (
        f'<details class="runs" id="{name}"><summary>Every run: {len(section.runs):,}</summary>'
        f"{about}<p>{inline(words)}</p>{trainings}{f'<ul>{ids}</ul>' if ids else ''}</details>"
    )


def _training(training: Training, id: str) -> str:
    """Return one training, folded, with a row per evaluation and a column per seed."""
    heads = "".join(
        f'<th scope="col">{name}</th>'
        for name in ("steps", *(f"seed {seed}" for seed in training.seeds))
    )
    rows = "".join(
        f'<tr><th scope="row">{step:,}</th>'
        + "".join(f"<td>{format_number(value)}</td>" for value in values)
        + "</tr>"
        for step, *values in zip(training.steps, *training.returns, strict=True)
    )
    about = {"run": training.run, "duration": _duration(training), "device": training.device}
    return (
        f'<details id="{id}"><summary>{text(training.label)}</summary>'
        f'<p><code class="command">{text(training.command)}</code></p>'
        f'{facts(about)}<div class="scroll" tabindex="0" role="region" '
        f'aria-label="{text(training.label)}: return of every seed at every evaluation">'
        f'<table class="wide"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        "</details>"
    )


def _duration(training: Training) -> str | None:
    if training.seconds is None:
        return None
    seconds = f"{format_number(training.seconds)} s"
    if training.replicas is None or training.replicas == len(training.seeds):
        return seconds
    return f"{seconds} for {counted(training.replicas, 'replica')} in one program"
