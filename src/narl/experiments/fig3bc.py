"""Fig. 3(b) and 3(c): NARL (M = 3, ε_M ∈ {0.1, 0.5}) against MBPO on Hopper and HalfCheetah."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from narl.experiments.analysis import evaluation_returns
from narl.experiments.experiment import Experiment, Findings, Result, Scale, Size, length
from narl.experiments.fig3a import NEAREST, SELECTION, TINY
from narl.experiments.judgement import Judgement, Part, comparison_table, judge_lower
from narl.paper import implements
from narl.report.contents import Chart, Claim, Series, Table
from narl.report.ensemble_charts import fallback_chart, member_charts, model_return_chart
from narl.report.markup import anchor
from narl.report.series import count_seeds, over_seeds
from narl.report.training_curves import curve

if TYPE_CHECKING:
    from narl.deep.config import Config

RANDOM_STEPS = 5000
"""Random steps at the beginning, which the published counter leaves out."""
MARKS = (25_000, 50_000, 75_000, 100_000, 125_000)
"""Steps at which the table has the returns."""
FIRST_SEED = 30
"""Seeds from here on have tuned nothing."""
MBPO, MBPO_SAME = "MBPO, 5 of 7 members", "MBPO, 3 members"
PUBLISHED = "MBPO, published"


def narl_label(radius: float) -> str:
    """Return the label of NARL with a radius."""
    return f"NARL, ε = {radius:g}"


class _Task(NamedTuple):
    """A figure: the environment and what is published about it."""

    id: str
    env: str
    published: Mapping[int, tuple[int, int]]
    """Mean and standard deviation of MBPO's return, by policy steps."""
    radii: tuple[float, ...]
    """NARL's radii at the paper's scale."""
    rivals: tuple[str, ...]
    """The kinds of MBPO at the paper's scale."""

    @property
    def name(self) -> str:
        """The environment without its version."""
        return self.env.partition("-")[0]

    @property
    def title(self) -> str:
        """The title of the figure."""
        return f"{self.name}: NARL against MBPO"


HOPPER = _Task(
    "fig3b",
    "Hopper-v4",
    {
        10_000: (329, 167),
        25_000: (587, 214),
        50_000: (1702, 799),
        75_000: (3034, 642),
        100_000: (3315, 334),
        125_000: (3280, 455),
    },
    radii=(0.1, 0.5),
    rivals=(MBPO, MBPO_SAME),
)
HALF_CHEETAH = _Task(
    "fig3c",
    "HalfCheetah-v4",
    {
        10_000: (1720, 380),
        25_000: (4991, 888),
        50_000: (7963, 589),
        75_000: (9184, 392),
        100_000: (9553, 689),
        125_000: (10_170, 341),
    },
    # Trainings here are longer: only the radius that did better on Hopper, and its control.
    radii=(0.5,),
    rivals=(MBPO_SAME,),
)


_RIVALS: dict[str, dict[str, Any]] = {MBPO: {"members": 7, "elites": 5}, MBPO_SAME: {"members": 3}}
_SIZES: dict[Scale, Size] = {
    "smoke": Size(600, 1, TINY | {"initial_steps": 250, "learn_after": 250, "epoch_length": 300}),
    "small": Size(8000, 1),
    "paper": Size(125_000, 5),
}


def cells(task: _Task, scale: Scale) -> dict[str, Config]:
    """Return NARL with every radius in the paper's reading, and MBPO with the same settings."""
    from narl.deep.checked_config import make_config

    shared = _SIZES[scale].shared_options(FIRST_SEED)
    paper = scale == "paper"
    narl = {
        narl_label(radius): make_config(
            task.env, "narl", preset="paper", members=3, radius=radius, **shared
        )
        for radius in (task.radii if paper else (0.1,))
    }
    mbpo = {
        label: make_config(task.env, "mbpo", **_RIVALS[label], **shared)
        for label in (task.rivals if paper else (MBPO_SAME,))
    }
    return narl | mbpo


def _published_curve(task: _Task) -> Series:
    steps = [float(step + RANDOM_STEPS) for step in task.published]
    mean, std = (np.array(column, float) for column in zip(*task.published.values(), strict=True))
    return Series(PUBLISHED, steps, mean.tolist(), (mean - std).tolist(), (mean + std).tolist())


def _chart(task: _Task, results: Mapping[str, Result], over: str) -> Chart:
    series = [curve(label, result.rows(), "eval_return") for label, result in results.items()]
    return Chart(
        task.id,
        task.title,
        "environment steps",
        "return",
        [*series, _published_curve(task)],
        caption=f"{over} The return of one deterministic episode after every epoch; all "
        f"environment steps count. The published curve of MBPO is of v2 of {task.name}; its "
        f"{RANDOM_STEPS} random steps, which the published counter leaves out, are added.",
    )


def _returns_at(result: Result, steps: Iterable[int]) -> dict[int, Float[np.ndarray, " N"]]:
    """Return the returns per seed at those of the steps at which the training was evaluated."""
    rows = result.rows()
    places = {row["step"]: i for i, row in enumerate(rows)}
    found = evaluation_returns(result)
    return {step: found[:, places[step]] for step in steps if step in places}


def _table(task: _Task, results: Mapping[str, Result]) -> Table:
    rows: list[list[Any]] = []
    for label, result in results.items():
        for step, values in _returns_at(result, MARKS).items():
            spread = float(values.std()) if len(values) > 1 else None
            seconds = round(result.run.metrics["seconds"]["total"])
            rows.append([label, step, float(values.mean()), spread, float(values.min()), seconds])
    for step, (mean, std) in task.published.items():
        if step in MARKS:
            rows.append([PUBLISHED, step, mean, std, None, None])
    return Table(
        f"{task.id}-returns",
        f"Returns on {task.name}",
        ["algorithm", "steps", "return", "± std", "worst seed", "seconds"],
        rows,
        "Mean and population standard deviation over seeds of the deterministic episode at this "
        f"step. The published steps do not count the {RANDOM_STEPS} random ones; the claims add "
        "these. Seconds are those of the whole training, for all replicas of its program together.",
    )


def _judgements(task: _Task, results: Mapping[str, Result]) -> dict[str, Judgement]:
    """Return the judgement on every claim, by its id."""
    returns = {label: evaluation_returns(result) for label, result in results.items()}
    shared = min(found.shape[1] for found in returns.values())
    over_training = {label: found[:, :shared].mean(axis=1) for label, found in returns.items()}
    radii = [label for label in results if label.startswith("NARL")]
    judged = {}
    for rival, id_ in ((MBPO, "mbpo"), (MBPO_SAME, "same-members")):
        for label in radii if rival in results else ():
            part = Part(rival, over_training[rival], label, over_training[label])
            key = f"{task.id}-{id_}-{label.rpartition(' ')[2].replace('.', '')}"
            judged[key] = judge_lower([part], "return over the training")
    for label in radii:
        published = {step + RANDOM_STEPS: float(mean) for step, (mean, _) in task.published.items()}
        if returns_at := _returns_at(results[label], published):
            step, values = max(returns_at.items())
            part = Part(PUBLISHED, published[step], label, values, fails_if_above=False)
            key = f"{task.id}-published-{label.rpartition(' ')[2].replace('.', '')}"
            judged[key] = judge_lower([part], f"return at step {step}, random ones included")
    return judged


def _claims(task: _Task, judged: Mapping[str, Judgement]) -> list[Claim]:
    claims = []
    for id_, judgement in judged.items():
        (item,) = judgement.parts
        rival, narl = item.part.x_name, item.part.y_name
        if rival == PUBLISHED:
            text = f"{narl} reaches on {task.name} more than the published return of MBPO."
        else:
            text = f"{narl} has a larger return over the training on {task.name} than {rival}."
        where = "ours: the same members" if rival == MBPO_SAME else f"§6.2, Fig. 3({task.id[-1]})"
        claims.append(judgement.claim(id_, text, where))
    return claims


def _stopped_early(results: Mapping[str, Result]) -> list[str]:
    """Return a note about trainings that were stopped before their last step."""
    last = {label: result.rows()[-1]["step"] for label, result in results.items()}
    early = [
        f"{label} at step {step}"
        for (label, step), result in zip(last.items(), results.values(), strict=True)
        if step < length(result.cell)
    ]
    if not early:
        return []
    return [
        f"Stopped before the last step: {', '.join(early)}. Returns over the training are compared "
        f"up to step {min(last.values())}; with the published curve, at its last step that was "
        "reached."
    ]


def analyse(task: _Task, scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return learning curves beside the published one, charts of the ensembles, and claims."""
    size = _SIZES[scale]
    over = over_seeds(size.num_seeds)
    rows = {label: result.rows() for label, result in results.items()}
    judged = _judgements(task, results)
    narl = {label: log for label, log in rows.items() if label.startswith("NARL")}
    return Findings(
        about=f"`{task.env}`, {count_seeds(size.num_seeds)} from {FIRST_SEED} on, {size.steps} "
        "environment steps. NARL has M = 3 and the reading closest to the paper's text (`--preset "
        "paper`); the paper does not say whether it shows ε_M = 0.1 or 0.5. MBPO has 5 elites of 7 "
        "members as its authors have it, or the same 3 members as NARL. All else are MBPO's "
        f"settings. Trained here: {'; '.join(results)}.",
        charts=[
            _chart(task, results, over),
            *(
                model_return_chart(anchor(f"{task.id}-inside", label), label, log, over)
                for label, log in rows.items()
            ),
            *member_charts(f"{task.id}-", rows, over, "", SELECTION),
            fallback_chart(f"{task.id}-fallback", narl, over, NEAREST),
        ],
        tables=[_table(task, results), comparison_table(f"{task.id}-comparisons", judged)],
        claims=_claims(task, judged),
        notes=_stopped_early(results),
    )


@implements("fig:3b")
def analyse_hopper(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return what came out on Hopper."""
    return analyse(HOPPER, scale, results)


@implements("fig:3c")
def analyse_half_cheetah(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return what came out on HalfCheetah."""
    return analyse(HALF_CHEETAH, scale, results)


FIG3B = Experiment(
    "fig3b", f"Fig. 3(b): {HOPPER.title}", functools.partial(cells, HOPPER), analyse_hopper
)
FIG3C = Experiment(
    "fig3c",
    f"Fig. 3(c): {HALF_CHEETAH.title}",
    functools.partial(cells, HALF_CHEETAH),
    analyse_half_cheetah,
)
