"""Every empirical statement of the paper, by hand: for docs/make_claims.py.

A statement is in our words, with its place in the paper and the number that the paper gives, and
names the claims of our experiments that judge it. Statements that the paper repeats (abstract,
introduction, conclusion) are listed where they are first made.
"""

from typing import NamedTuple

from narl.experiments.table2 import PUBLISHED, cell_label, radius_text

DRAWN, NONE = "drawn", "–"


class Printed(NamedTuple):
    """A mean with its standard deviation in the paper, and the place of ours in an outcome."""

    mean: float
    std: float
    num_seeds: int
    experiment: str
    table: str
    row: tuple[object, ...]
    """The first cells of the row."""
    columns: tuple[str, str, str]
    """The columns of our mean, standard deviation and number of seeds."""
    run: str
    """The label of our run."""


class Statement(NamedTuple):
    """A statement, and what judges it: claims of experiments, or a number to compare with."""

    text: str
    where: str
    paper: str
    """The number in the paper."""
    claims: tuple[str, ...] = ()
    """The ids of the claims; an id of an experiment that was not run may not exist yet. A statement
    without claims and printed number is not tested."""
    printed: Printed | None = None


def table2_cell(members: int, radius: float | None) -> Statement:
    """Return the statement of one cell of Table 2."""
    mean, std = PUBLISHED[members, radius]
    label = cell_label(members, radius)
    row = (members, radius_text(radius))
    columns = ("steps to solve", "std of the steps", "solved")
    return Statement(
        f"Steps to solve InvertedPendulum with {label}",
        "§6.2, Table 2",
        f"{mean} ± {std}",
        printed=Printed(mean, std, 10, "table2", "table2", row, columns, label),
    )


FRONT = [
    Statement(
        "In deep RL, optimism settles on the least accurate models and exploits their errors.",
        "abstract, §1",
        NONE,
        ("fig2-worst-member", "fig4-delusion"),
    ),
    Statement(
        "If the estimation error is reduced, optimistic model-based RL is a match for the best "
        "method that samples models at random (MBPO) in continuous control.",
        "abstract, §1, §6.2; judged: better than MBPO",
        DRAWN,
        ("fig3a-fewer-steps", "fig3b-mbpo-01", "fig3b-mbpo-05", "fig3c-same-members-05"),
    ),
]
TABLE_1 = [
    Statement(f"{name} has a regret of order {bound}.", "Table 1", bound, claims)
    for name, bound, claims in (
        ("UCRL", "S·H·√(A·T)", ("table1-ucrl-ucrl2",)),
        (
            "UCBVI",
            "√(H·S·A·T)",
            (
                "table1-ucbvi-hoeffding",
                "table1-ucbvi-bernstein",
                "table1-ucbvi-constants-of-the-proof",
            ),
        ),
        (
            "RLSVI",
            "S·H^2.5·√(S·A·T)",
            ("table1-rlsvi", "table1-rlsvi-constants-of-the-proof"),
        ),
        ("Posterior sampling", "S·H·√(A·T)", ("table1-posterior-sampling-psrl",)),
        (
            "Noise Augmented UCRL",
            "S·H·√(S·A·T)",
            (
                "table1-noise-augmented-ucrl",
                "table1-noise-augmented-ucrl-bootstrap",
                "table1-noise-augmented-ucrl-theorem-1",
            ),
        ),
        (
            "Noise Augmented UCBVI",
            "S·H·√(A·T)",
            (
                "table1-noise-augmented-ucbvi",
                "table1-noise-augmented-ucbvi-theorem-2",
                "table1-noise-augmented-ucbvi-theorem-3",
            ),
        ),
    )
]
TABULAR = [
    Statement(
        "Both versions of NARL do well on RiverSwim: each has less regret than every rival.",
        "§5, Fig. 1(a)",
        DRAWN,
        ("fig1a-strong",),
    ),
    Statement(
        "UCRL2 does poorly on RiverSwim.",
        "§5, Fig. 1(a); 40 % of what can be lost is our measure of it",
        DRAWN,
        ("fig1a-ucrl2-poor",),
    ),
    Statement(
        "The gap is wide: NARL's regret is below a tenth of UCRL2's.",
        "Fig. 1(a), our reading",
        DRAWN,
        ("fig1a-tenth",),
    ),
    Statement(
        "The Gaussian agent with noise of variance c/N(s, a) and c = 1 gives these results.",
        "§5, settings",
        "c = 1",
        ("fig1a-printed", "fig1c-printed", "ablation-printed"),
    ),
    Statement(
        "UCRL2 is weak because it overestimates values, and more so than NARL.",
        "§5, Fig. 1(b); text and caption name different environments",
        DRAWN,
        ("fig1b-overestimates-riverswim", "fig1b-overestimates-chain"),
    ),
    Statement(
        "UCRL2 takes much longer to come to the true value (twice as long at least).",
        "§5, Fig. 1(b); the factor is ours",
        DRAWN,
        ("fig1b-slow-riverswim", "fig1b-slow-chain"),
    ),
    Statement(
        "NARL solves all ten Deep Sea tasks.", "§5, Fig. 1(c)", "N = 10 to 28", ("fig1c-solves",)
    ),
    Statement(
        "On Deep Sea the Gaussian version is best.",
        "§5, Fig. 1(c)",
        DRAWN,
        ("fig1c-gaussian-best",),
    ),
]
ENSEMBLE = [
    Statement(
        "Members are selected the more often, the further their next states are from the mean.",
        "§6.1, Fig. 2",
        "positively correlated",
        ("fig2-correlated",),
    ),
    Statement(
        "Optimism selects the least accurate members most.",
        "§6.1, Fig. 2",
        DRAWN,
        ("fig2-worst-member",),
    ),
    Statement(
        "A wide radius (ε_M = 5) reduces the use of the worst member only a little.",
        "§6.1, Fig. 2",
        DRAWN,
        ("fig2-wide-radius",),
    ),
    Statement(
        "With a small radius (ε_M = 0.1) members are selected almost evenly.",
        "§6.1, Fig. 2; judged: more evenly than without a radius",
        DRAWN,
        ("fig2-radius",),
    ),
]
TABLE_2 = [
    *(table2_cell(members, radius) for members, radius in PUBLISHED),
    Statement(
        "M = 3 with ε_M = 0.1 is the best of the nine.",
        "§6.2, Table 2",
        "1850 against 2000 to 5850",
        ("table2-best",),
    ),
    Statement(
        "Fewer members do better: too much variance is the problem.",
        "§6.2, Table 2",
        "M = 3: 1850 to 2000; M = 10: 3225 to 5850",
        ("table2-fewer-members",),
    ),
    Statement(
        "With many members (M = 10) the small radius is crucial.",
        "§6.2, Table 2",
        "3300 ± 953 against 5850 ± 2037",
        ("table2-radius",),
    ),
    Statement(
        "NARL (M = 3, ε_M = 0.1) solves InvertedPendulum with every seed.",
        "§6.2, Table 2, Fig. 3(a); within 5000 steps",
        "ten seeds",
        ("fig3a-solves",),
    ),
    Statement("Fewer members cost less computation.", "§6.2", NONE),
    Statement(
        "Methods that draw members at random do better with more members.",
        "§6.2, of other papers; judged with MBPO, 7 against 3 members",
        NONE,
        ("fig3a-more-members",),
    ),
]
CONTROL = [
    Statement(
        "On InvertedPendulum NARL (M = 3, ε_M = 0.1) gains on MBPO, with 3 members against 7.",
        "§6.2, Fig. 3(a)",
        DRAWN,
        ("fig3a-fewer-steps",),
    ),
    Statement(
        "On Hopper NARL (M = 3, ε_M = 0.1 or 0.5) does better than MBPO over the training.",
        "§6.2, Fig. 3(b)",
        DRAWN,
        ("fig3b-mbpo-01", "fig3b-mbpo-05"),
    ),
    Statement(
        "On HalfCheetah NARL (M = 3, ε_M = 0.1 or 0.5) does better than MBPO over the training.",
        "§6.2, Fig. 3(c); judged: ε_M = 0.5 against MBPO with 3 members, the paper has 7",
        DRAWN,
        ("fig3c-same-members-05",),
    ),
    Statement(
        "On Hopper NARL ends above the published curve of MBPO.",
        "§6.2, Fig. 3(b)",
        "drawn; MBPO published: 3280 ± 455 at 125 000 steps",
        ("fig3b-published-01", "fig3b-published-05"),
    ),
    Statement(
        "On HalfCheetah NARL ends above the published curve of MBPO.",
        "§6.2, Fig. 3(c)",
        "drawn; MBPO published: 10 170 ± 341 at 125 000 steps",
        ("fig3c-published-05",),
    ),
]
APPENDIX = [
    Statement(
        "Models are exploited: with M = 10 and no radius the return is high inside the model, and "
        "close to zero in the environment.",
        "App. C, Fig. 4; judged: larger inside than in the environment",
        DRAWN,
        ("fig4-delusion",),
    ),
    Statement(
        "Some configurations do not learn within 3000 steps.",
        "App. C, Fig. 4; judged: M = 10 without a radius against M = 3 with ε_M = 0.1",
        DRAWN,
        ("fig4-fails-to-learn",),
    ),
    Statement("One sample of the next action is enough to score a member.", "App. E", NONE),
]
STATEMENTS = [*FRONT, *TABLE_1, *TABULAR, *ENSEMBLE, *TABLE_2, *CONTROL, *APPENDIX]
"""The statements of the paper, in its order."""
