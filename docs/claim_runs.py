"""The runs behind every claim, by hand: for docs/make_claims.py.

Labels of runs are compared as slugs: "pendulum, cost 0.1: MBPO" is pendulum-cost-01-mbpo.
"""

import re

from narl.errors import InputError
from narl.report.contents import Outcome

RUNS = {
    "fig1a-strong": r"(?!.*as-printed).*",
    "fig1a-ucrl2-poor": r"ucrl2.*",
    "fig1a-tenth": r"narl-gaussian|narl-bootstrap|ucrl2.*",
    "fig1a-printed": r"narl-gaussian-as-printed|ucrl2",
    r"fig1b-\w+-(\w+)": r".*-\1",
    "fig1c-solves|fig1c-gaussian-best": r"narl-(gaussian|bootstrap)-\d+",
    "fig1c-printed": r"narl-gaussian-as-printed-\d+",
    r"table1-(.+)": r"\1",
    r"fig2-.+": r".*",
    "table2-best": r".*",
    "table2-fewer-members": r"m-(3|10)-.*",
    "table2-radius": r"m-10-(01|none)",
    "fig3a-fewer-steps": r"narl|mbpo",
    "fig3a-same-members": r"narl|mbpo-3-members",
    "fig3a-exclude-above": r"narl-exclude-above|mbpo.*",
    "fig3a-more-members": r"mbpo.*",
    "fig3a-solves": r".*",
    r"fig3[bc]-mbpo-(\d+)": r"narl-\1|mbpo-5-of-7-members",
    r"fig3[bc]-same-members-(\d+)": r"narl-\1|mbpo-3-members",
    r"fig3[bc]-published-(\d+)": r"narl-\1",
    "fig4-delusion": r"m-10-none",
    "fig4-fails-to-learn": r"m-10-none|m-3-01",
    "ablation-default": r"(c-\d+|ucrl2|opsrl)-riverswim|(c-\d+|bootstrap)-deep-sea-28",
    "ablation-printed": r"(c-1|ucrl2|opsrl)-riverswim|(c-1|bootstrap)-deep-sea-28",
    "fair-narl-best": r".*",
    "fair-riverswim": r"(?!.*(noisy|prior|narl-ucbvi|greedy)).*-riverswim-.*",
    r"exploration-(.+)-choice": r"\1-(narl-choice-among-models|mbpo)",
    r"exploration-(.+)": r"\1-(narl-noise-on-rewards|mbpo)",
    "acrobot-radius": r"fresh-(no-radius|above)",
    "acrobot-mbpo": r"fresh-(no-radius|mbpo)",
    "lander-mbpo": r"narl-choice-among-models|mbpo",
    "lander-sac": r"narl-choice-among-models|sac",
    "fewer-steps-bar": r"fresh-narl-choice-in-the-update-20.*",
    "fewer-steps-optimism": r"fresh-(narl-choice-in-the-update|mbpo)-20.*",
    "fewer-steps-ideas": r"fresh-narl-choice-in-the-update.*",
    "fewer-steps-means": r"fresh-(narl-choice-in-the-update|mbpo-means)",
    r"lander-(.+)": r"narl-choice-among-models|\1",
    "fading-annealed": r"the-noise-of-exploration|the-same-annealed.*",
    r"fading-(solved|never-lost)": r"the-preset-s-noise",
    r"discrete-(.+)-choice": r"\1-(narl-choice-among-models|mbpo)",
    r"discrete-(.+)-noise": r"\1-(narl-noise-on-rewards|mbpo)",
}
"""A pattern of the slugs of labels by a pattern of claims' ids; the first that fits counts."""


def slug(label: str) -> str:
    """Return the letters and digits of a label, in lower case, with dashes between the words."""
    return "-".join(re.findall(r"[a-z0-9]+", label.lower().replace(".", "")))


def runs_behind(claim: str, outcome: Outcome) -> list[int]:
    """Return the numbers, from 1, of the runs behind a claim; none without a list of runs."""
    runs = outcome.trainings or outcome.tabular_runs
    fits = (re.fullmatch(pattern, claim) for pattern in RUNS)
    for fit, labels in zip(fits, RUNS.values(), strict=True):
        if fit is not None:
            pattern = fit.expand(labels) if fit.groups() else labels
            found = [i for i, run in enumerate(runs, 1) if re.fullmatch(pattern, slug(run.label))]
            if found or not runs:
                return found
            break
    raise InputError(f"docs/claim_runs.py: it names no runs of {outcome.id} for the claim {claim}")
