"""Make docs/claims.md: every empirical statement of the paper, beside what was measured.

usage: python docs/make_claims.py --write | --check

The statements are listed by hand in docs/paper_statements.py, and the runs behind their claims in
docs/claim_runs.py. Numbers and verdicts come from the outcomes results/*-paper.json; a statement
whose experiment has no such file is "not run yet". The pages docs/runs/ID.md, which list every run
of these outcomes, are made as well.
"""

import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from claim_runs import runs_behind
from paper_statements import STATEMENTS, Printed, Statement
from run_pages import list_runs, markdown_table, ranges, run_page
from scipy.stats import t as student

from narl.errors import InputError
from narl.experiments import EXPERIMENTS
from narl.experiments.judgement import all_hold
from narl.report.contents import Claim, Outcome, load_outcome

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
NOT_RUN, NOT_TESTED = "not run yet", "not tested"
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
    "*Drawn* means that the paper has a figure and no number. *Not tested* means that no "
    "experiment judges the statement. Below a verdict are its experiment and the runs behind it: "
    "each number leads to the command of a run, its configuration and the numbers of every seed."
)
RUNS = (
    "Each experiment has a page that lists every run with its command, its configuration and the "
    "numbers of every seed. `narl reproduce ID --scale paper` runs an experiment again, and `narl "
    "report` shows all of them as one page with charts."
)
MADE = (
    "This page and the lists of runs are made by `make docs` from the outcomes in `results/`; the "
    "statements are in our words, with their place in the paper. Theorems are in the [paper "
    "map](paper-map.md) and the [errata](errata.md); of Table 1 it is measured how fast the regret "
    "grows."
)


def page(outcomes: Mapping[str, Outcome]) -> str:
    """Return the page of the claims."""
    check(outcomes.values())
    ours = our_claims(outcomes.values())
    parts = [
        "# Claims of the paper, and what came out",
        OPENING.format(paper=tally(STATEMENTS, outcomes), ours=tally(ours, outcomes)),
        READING,
        "## Statements of the paper",
        statement_table(STATEMENTS, outcomes),
        "## Statements of ours",
        statement_table(ours, outcomes),
        "## The runs behind the numbers",
        RUNS,
        experiment_table(outcomes.values()),
        MADE,
    ]
    return "\n\n".join(parts) + "\n"


def load_outcomes() -> dict[str, Outcome]:
    """Return the outcomes at paper scale by the id of the experiment, in the order of the paper."""
    paths = {id_: RESULTS / f"{id_}-paper.json" for id_ in EXPERIMENTS}
    return {id_: list_runs(load_outcome(path)) for id_, path in paths.items() if path.exists()}


def check(outcomes: Iterable[Outcome]) -> None:
    """Refuse claims that no statement names, and statements that name unknown claims."""
    known = {claim.id: claim for outcome in outcomes for claim in outcome.claims}
    named = {id_ for statement in STATEMENTS for id_ in statement.claims}
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
    links = [link(experiment, statement, outcomes) for experiment in experiments]
    return [
        f"{statement.text} ({where})" if where else statement.text,
        statement.paper,
        "<br>".join(numbers) if claims or seeds else NOT_RUN if experiments else NOT_TESTED,
        ", ".join(dict.fromkeys(seeds)) or NONE,
        "<br>".join([f"*{verdict_of(statement, outcomes)}*", *links]),
    ]


def link(experiment: str, statement: Statement, outcomes: Mapping[str, Outcome]) -> str:
    """Return the id of an experiment, and the numbers of its runs that are behind a statement."""
    if experiment not in outcomes:
        return f"`{experiment}`"
    page = f"runs/{experiment}.md"
    listed = [
        f"[{first if first == last else f'{first}–{last}'}]({page}#run-{first})"
        for first, last in ranges(runs_of(statement, outcomes[experiment]))
    ]
    return ": ".join([f"[`{experiment}`]({page})", *([", ".join(listed)] if listed else [])])


def runs_of(statement: Statement, outcome: Outcome) -> set[int]:
    """Return the numbers, from 1, of the runs of an outcome that are behind a statement."""
    if statement.printed is not None:
        labels = [training.label for training in outcome.trainings]
        return {labels.index(statement.printed.run) + 1}
    ids = {claim.id for claim in outcome.claims} & set(statement.claims)
    return {number for id_ in ids for number in runs_behind(id_, outcome)}


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
    if not statement.claims and statement.printed is None:
        return NOT_TESTED
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


def experiment_table(outcomes: Iterable[Outcome]) -> str:
    """Return the experiments as a table: what was run, with what, and where the runs are listed."""
    columns = ["experiment", "what", "command", "runs", "versions and device"]
    return markdown_table(columns, map(experiment_row, outcomes))


def experiment_row(outcome: Outcome) -> list[str]:
    """Return the cells of one experiment."""
    made = outcome.environment
    return [
        f"[`{outcome.id}`](runs/{outcome.id}.md)",
        outcome.title,
        f"`{outcome.command}`",
        str(len(outcome.runs)),
        f"narl {made['narl']}, JAX {made['jax']}, {made['device']}",
    ]


def pages() -> dict[Path, str]:
    """Return the text of every page."""
    outcomes = load_outcomes()
    runs = {DOCS / "runs" / f"{id_}.md": run_page(outcome) for id_, outcome in outcomes.items()}
    return {DOCS / "claims.md": page(outcomes), **runs}


def main(arguments: list[str]) -> int:
    """Write the pages, or return 1 if one of them is out of date."""
    if arguments not in (["--write"], ["--check"]):
        print(__doc__)
        return 2
    try:
        made = pages()
    except InputError as error:
        print(error, file=sys.stderr)
        return 1
    found = {path: path.read_text(encoding="utf-8") for path in (DOCS / "runs").glob("*.md")}
    if (DOCS / "claims.md").exists():
        found[DOCS / "claims.md"] = (DOCS / "claims.md").read_text(encoding="utf-8")
    wrong = sorted(path for path in made.keys() | found.keys() if made.get(path) != found.get(path))
    for path in wrong:
        if arguments == ["--check"]:
            print(
                f"{path.relative_to(DOCS.parent)} is out of date; run `make docs`", file=sys.stderr
            )
        elif path in made:
            path.parent.mkdir(exist_ok=True)
            path.write_text(made[path], encoding="utf-8")
        else:
            path.unlink()
    return 1 if wrong and arguments == ["--check"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
