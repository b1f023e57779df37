"""Make docs/claims.md: every empirical statement of the paper, beside what was measured.

usage: python docs/make_claims.py --write | --check

The statements are listed by hand in docs/paper_statements.py. Numbers and verdicts come from the
outcomes results/*-paper.json; a statement whose experiment has no such file is "not run yet".
"""

import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from paper_statements import OURS, STATEMENTS, Printed, Statement
from scipy.stats import t as student

from narl.errors import InputError
from narl.experiments import EXPERIMENTS
from narl.experiments.judgement import all_hold
from narl.report.contents import Claim, Outcome, Training, load_outcome
from narl.report.number_format import format_number

PAGE = Path(__file__).with_name("claims.md")
RESULTS = PAGE.parents[1] / "results"
NOT_RUN = "not run yet"
NONE = "–"
OPENING = (
    "Which empirical statements of the paper hold in our measurements, and which do not.\n\n"
    "- The paper's {paper}\n- Ours, judged by the same rules: {ours}"
)
READING = (
    "A statement *holds* if the measured numbers meet it, *fails* if they contradict it, and is "
    "*undecided* if so many seeds cannot tell ([rules](metrics.md#verdicts-of-claims)). If several "
    "claims judge a statement, it holds if all of them hold and fails if one fails. Numbers of "
    "algorithms are means over seeds, and brackets are 95 % intervals of their difference, first "
    "minus second. A printed mean *agrees* with ours if the 95 % interval of the difference of "
    "the two means (Welch's, from the standard deviations) contains 0, and *differs* otherwise. "
    "*Drawn* means that the paper has a figure and no number. Below a verdict is the ID of its "
    "experiment, which leads to [the runs](#the-runs-behind-the-numbers)."
)
MADE = (
    "This page is made by `make docs` from the outcomes in `results/`; the statements are in our "
    "words, with their place in the paper. `narl reproduce ID --scale paper` runs an experiment "
    "again, and `narl report` shows all of them as one page with charts. Theorems are in the "
    "[paper map](paper-map.md) and the [errata](errata.md); of Table 1 it is measured how fast the "
    "regret grows."
)
RUNS = (
    "A training has the command that trains it alone. Trainings of one shape ran in one program "
    "and share its duration, which includes compilation. Returns are means over seeds at the last "
    "evaluation; the file has those of every seed and evaluation under `trainings`. Tabular runs "
    "are repeated by the command of the experiment, in seconds to minutes."
)


def page() -> str:
    """Return the whole page."""
    outcomes = load_outcomes()
    check(outcomes.values())
    ours = [*OURS, *our_claims(outcomes.values())]
    parts = [
        "# Claims of the paper, and what came out",
        OPENING.format(paper=tally(STATEMENTS, outcomes), ours=tally(ours, outcomes)),
        READING,
        "## Statements of the paper",
        statement_table(STATEMENTS, outcomes),
        "## Statements of ours",
        statement_table(ours, outcomes),
        "## The runs behind the numbers",
        MADE,
        RUNS,
        *(runs_section(outcome) for outcome in outcomes.values()),
    ]
    return "\n\n".join(parts) + "\n"


def load_outcomes() -> dict[str, Outcome]:
    """Return the outcomes at paper scale by the id of the experiment, in the order of the paper."""
    paths = {id_: RESULTS / f"{id_}-paper.json" for id_ in EXPERIMENTS}
    return {id_: load_outcome(path) for id_, path in paths.items() if path.exists()}


def check(outcomes: Iterable[Outcome]) -> None:
    """Refuse claims that no statement names, and statements that name unknown claims."""
    known = {claim.id: claim for outcome in outcomes for claim in outcome.claims}
    named = {id_ for statement in (*STATEMENTS, *OURS) for id_ in statement.claims}
    run = {outcome.id for outcome in outcomes}
    for id_ in sorted(named - known.keys()):
        if experiment_of(id_) in run:
            raise InputError(f"docs/paper_statements.py: results/ has no claim {id_}")
    for id_, claim in known.items():
        if id_ not in named and not claim.is_ours:
            raise InputError(f"docs/paper_statements.py: no statement names the claim {id_}")


def experiment_of(claim: str) -> str:
    """Return the experiment of a claim, which is the beginning of the claim's id."""
    fitting = [id_ for id_ in EXPERIMENTS if claim.startswith(f"{id_}-")]
    return max(fitting, key=len)


def our_claims(outcomes: Iterable[Outcome]) -> list[Statement]:
    """Return a statement for every claim of the outcomes that is not the paper's."""
    return [
        Statement(claim.statement, claim.where, NONE, (claim.id,))
        for outcome in outcomes
        for claim in outcome.claims
        if claim.is_ours
    ]


def statement_table(statements: Sequence[Statement], outcomes: Mapping[str, Outcome]) -> str:
    """Return statements as a table; ours have no number in the paper."""
    columns = ["statement", "in the paper", "measured", "seeds", "verdict"]
    rows = [statement_row(statement, outcomes) for statement in statements]
    kept = [i for i in range(len(columns)) if i != 1 or any(row[1] != NONE for row in rows)]
    return markdown_table([columns[i] for i in kept], [[row[i] for i in kept] for row in rows])


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    escaped = ([cell.replace("|", r"\|") for cell in row] for row in rows)
    return "\n".join(
        f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *escaped)
    )


def statement_row(statement: Statement, outcomes: Mapping[str, Outcome]) -> list[str]:
    """Return the cells of one statement."""
    claims, printed = claims_of(statement, outcomes), statement.printed
    experiments = list(dict.fromkeys(experiment_of(id_) for id_ in statement.claims))
    numbers = [brief(claim) for claim in claims]
    if len(statement.claims) > 1:
        pairs = zip(claims, numbers, strict=True)
        numbers = [f"• *{claim.verdict}*: {text} (`{claim.id}`)" for claim, text in pairs]
        numbers += [f"• {NOT_RUN} (`{id_}`)" for id_ in experiments if id_ not in outcomes]
    seeds = [seeds_of(outcomes[id_], claims) for id_ in experiments if id_ in outcomes]
    if printed is not None:
        experiments = [printed.experiment]
        if printed.experiment in outcomes:
            measured = measure(printed, outcomes[printed.experiment])
            numbers, seeds = [describe(printed, *measured)], [str(measured[2])]
    where = re.sub(r"^ours[:;]? ?", "", statement.where)
    links = [link(experiment, outcomes) for experiment in experiments]
    return [
        f"{statement.text} ({where})" if where else statement.text,
        statement.paper,
        "<br>".join(numbers) if claims or seeds else NOT_RUN,
        ", ".join(dict.fromkeys(seeds)) or NONE,
        "<br>".join([f"*{verdict_of(statement, outcomes)}*", *links]),
    ]


def link(experiment: str, outcomes: Mapping[str, Outcome]) -> str:
    """Return the id of an experiment, which leads to the runs behind it if there are some."""
    return f"[`{experiment}`](#{experiment})" if experiment in outcomes else f"`{experiment}`"


def claims_of(statement: Statement, outcomes: Mapping[str, Outcome]) -> list[Claim]:
    """Return the judged claims behind a statement."""
    known = {claim.id: claim for outcome in outcomes.values() for claim in outcome.claims}
    return [known[id_] for id_ in statement.claims if id_ in known]


def verdict_of(statement: Statement, outcomes: Mapping[str, Outcome]) -> str:
    """Return the verdict on a statement."""
    if statement.printed is not None and statement.printed.experiment in outcomes:
        measured = measure(statement.printed, outcomes[statement.printed.experiment])
        low, high = welch(statement.printed, *measured)
        return "agrees" if low <= 0 <= high else "differs"
    claims = claims_of(statement, outcomes)
    if not claims or len(claims) < len(statement.claims):
        verdicts = {claim.verdict for claim in claims}
        return "fails" if "fails" in verdicts else NOT_RUN
    return all_hold([claim.verdict for claim in claims])


def tally(statements: Sequence[Statement], outcomes: Mapping[str, Outcome]) -> str:
    """Return how many statements there are with each verdict."""
    counts = Counter(verdict_of(statement, outcomes) for statement in statements)
    listed = ", ".join(f"{number} *{verdict}*" for verdict, number in counts.most_common())
    return f"{len(statements)} statements: {listed}."


def brief(claim: Claim) -> str:
    """Return the numbers of a claim up to the number of seeds, which has a column of its own."""
    return re.split(r",? n = \d+", claim.numbers)[0]


def seeds_of(outcome: Outcome, claims: Sequence[Claim]) -> str:
    """Return the number of seeds of the claims of an outcome, or else of its other claims."""
    own = [claim for claim in claims if claim in outcome.claims] or outcome.claims
    for group in (own, outcome.claims):
        if found := re.findall(r"\bn = (\d+)", " ".join(claim.numbers for claim in group)):
            return ", ".join(dict.fromkeys(found))
    return NONE


# --- printed numbers ------------------------------------------------------------------------------


def measure(printed: Printed, outcome: Outcome) -> tuple[float, float, int]:
    """Return our mean, standard deviation and number of seeds for a number that is printed."""
    table = next(table for table in outcome.tables if table.id == printed.table)
    places = [table.columns.index(name) for name in printed.columns]
    cells = next(cells for cells in table.rows if cells[: len(printed.row)] == list(printed.row))
    mean, std, num_seeds = (cells[place] for place in places)
    return float(mean), float(std), int(num_seeds)


def welch(printed: Printed, mean: float, std: float, num_seeds: int) -> tuple[float, float]:
    """Return Welch's 95 % interval of our mean minus the printed one."""
    parts = [std**2 / (num_seeds - 1), printed.std**2 / (printed.num_seeds - 1)]
    freedom = sum(parts) ** 2 / (
        parts[0] ** 2 / (num_seeds - 1) + parts[1] ** 2 / (printed.num_seeds - 1)
    )
    reach = float(student.ppf(0.975, freedom)) * math.sqrt(sum(parts))
    return mean - printed.mean - reach, mean - printed.mean + reach


def describe(printed: Printed, mean: float, std: float, num_seeds: int) -> str:
    """Return our mean and its difference from the printed one."""
    low, high = (signed(x) for x in welch(printed, mean, std, num_seeds))
    return f"{mean:.0f} ± {std:.0f}. Difference {signed(mean - printed.mean)} [{low}, {high}]"


def signed(value: float) -> str:
    """Return a whole number with its sign."""
    return f"{value:+.0f}".replace("-", "−")


# --- the runs -------------------------------------------------------------------------------------


def runs_section(outcome: Outcome) -> str:
    """Return what is behind an outcome: command, file, device, and the trainings."""
    name = f"{outcome.id}-{outcome.scale}.json"
    environment = outcome.environment
    description = "[description](reproduction.md#the-experiments-and-their-claims)"
    facts = (
        f"{outcome.title}: `{outcome.command}`; {description}; "
        f"[results/{name}](../results/{name}); {len(outcome.runs)} runs with narl "
        f"{environment['narl']} and JAX {environment['jax']} on {environment['device']}."
    )
    parts = [f"### {outcome.id}", facts]
    if outcome.trainings:
        columns = ["training", "return (worst seed)", "duration", "command"]
        parts.append(markdown_table(columns, map(training_row, outcome.trainings)))
    return "\n\n".join(parts)


def training_row(training: Training) -> list[str]:
    """Return one training: its returns at the end, its duration, and its command."""
    last = [returns[-1] for returns in training.returns if returns[-1] is not None]
    mean = f"{format_number(sum(last) / len(last))} ({format_number(min(last))})" if last else NONE
    duration = NONE if training.seconds is None else f"{training.seconds:.0f} s"
    if training.replicas is not None and training.replicas > len(training.seeds):
        duration += f" with {training.replicas} replicas"
    return [training.label, mean, duration, f"`{training.command}`"]


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if the page is out of date."""
    if arguments not in (["--write"], ["--check"]):
        print(__doc__)
        return 2
    try:
        made = page()
    except InputError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments == ["--write"]:
        PAGE.write_text(made, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made:
        print("docs/claims.md is out of date; run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
