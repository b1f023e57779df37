"""When does optimism pay? (ours) All deep algorithms on tasks on which exploration matters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from narl.display import counted
from narl.experiments.analysis import evaluation_returns
from narl.experiments.experiment import Experiment, Findings, Result, Scale, TaskSize
from narl.experiments.fig3a import TINY
from narl.experiments.judgement import Judgement, Part, comparison_table, judge_lower
from narl.report.contents import Chart, Table
from narl.report.markup import anchor
from narl.report.series import count_seeds, interval_series, over_seeds, profile_series
from narl.report.training_curves import curve, rows_with_model
from narl.stats import (
    aggregate_iqm,
    improvement_interval,
    iqm,
    normalised_scores,
    probability_of_improvement,
)

if TYPE_CHECKING:
    from narl.deep.config import Config

TITLE = "When does optimism pay?"
MEMBERS = 5
NOISY, CHOICE, MBPO, SAC = "NARL, noise on rewards", "NARL, choice among models", "MBPO", "SAC"
SOMBRL, MAXINFO, HUCRL, THOMPSON = "SOMBRL", "MaxInfo", "H-UCRL", "Thompson"
ALGORITHMS: dict[str, dict[str, Any]] = {
    NOISY: {"algo": "narl", "noise": "reward"},
    CHOICE: {"algo": "narl", "exclude": "above"},
    MBPO: {"algo": "mbpo"},
    SOMBRL: {"algo": "sombrl"},
    MAXINFO: {"algo": "maxinfo"},
    HUCRL: {"algo": "hucrl"},
    THOMPSON: {"algo": "thompson"},
    SAC: {"algo": "sac"},
}
"""The algorithms by label: options beyond the preset of the task."""


DIALS: dict[str, tuple[str, tuple[Any, ...]]] = {
    NOISY: ("noise_scale", (0.01, 0.003, 0.03, 0.1)),
    CHOICE: ("radius", (0.1, 5.0, None)),
    SOMBRL: ("bonus_weight", (1.0, 0.1, 0.3, 3.0)),
    HUCRL: ("reach", (1.0, 3.0, 10.0)),
    THOMPSON: ("one_member_per", ("episode", "trajectory")),
}
"""The one option of each algorithm that is tuned, and its values, the default first.

MBPO, SAC and MaxInfo have no option that decides how optimistic they are.
"""


class Task(NamedTuple):
    """An environment and how long it is trained on."""

    env: str
    steps: int
    """Environment steps."""
    tuned_on: str
    """The task whose tuning chose the options."""


MOUNTAIN_CAR, FREE_PENDULUM, PENDULUM = "mountain car", "pendulum, cost 0", "pendulum, cost 0.1"
CART_POLE, REACHER = "cart-pole, cost 0.1", "reacher, cost 0.1"
ARM, PUSHER = "arm reacher, cost 0.1", "pusher, cost 0.1"
TASKS: dict[str, Task] = {
    MOUNTAIN_CAR: Task("MountainCarContinuous-v0", 20_000, MOUNTAIN_CAR),
    FREE_PENDULUM: Task("narl/SparsePendulum-cost0-v0", 8_000, PENDULUM),
    PENDULUM: Task("narl/SparsePendulum-cost0.1-v0", 8_000, PENDULUM),
    "pendulum, cost 0.2": Task("narl/SparsePendulum-cost0.2-v0", 8_000, PENDULUM),
    CART_POLE: Task("narl/SparseCartPole-cost0.1-v0", 50_000, CART_POLE),
    REACHER: Task("narl/SparseReacher-cost0.1-v0", 12_000, REACHER),
    ARM: Task("narl/SparseArmReacher-cost0.1-v0", 7_500, ARM),
    PUSHER: Task("narl/Pusher-cost0.1-v0", 15_000, PUSHER),
    "pusher, cost 0.5": Task("narl/Pusher-cost0.5-v0", 15_000, PUSHER),
}
"""The tasks by name; `docs/tasks.md` defines them."""
CHOSEN: dict[str, dict[str, Any]] = {
    MOUNTAIN_CAR: {NOISY: 0.01, CHOICE: 0.1, SOMBRL: 0.1, HUCRL: 3.0, THOMPSON: "episode"},
    PENDULUM: {NOISY: 0.03, CHOICE: 0.1, SOMBRL: 1.0, HUCRL: 1.0, THOMPSON: "episode"},
    REACHER: {NOISY: 0.1, CHOICE: 0.1, SOMBRL: 3.0, HUCRL: 3.0, THOMPSON: "trajectory"},
    ARM: {NOISY: 0.01, CHOICE: 5.0, SOMBRL: 3.0, HUCRL: 10.0, THOMPSON: "episode"},
    PUSHER: {NOISY: 0.01, CHOICE: 0.1, SOMBRL: 0.1, HUCRL: 1.0, THOMPSON: "trajectory"},
}
"""The values that `narl reproduce exploration-tuning` chose, by task and algorithm."""
REPORTED = (MOUNTAIN_CAR, FREE_PENDULUM, PENDULUM, "pendulum, cost 0.2", REACHER, ARM, PUSHER)
"""The tasks of paper scale."""
_FIRST_SEED = 400
"""Seeds from here on have tuned nothing."""


SMOKE = TINY | {"steps": 600, "initial_steps": 250, "learn_after": 250, "epoch_length": 150}
"""Options of the smoke scale."""


_SIZES: dict[Scale, TaskSize] = {
    "smoke": TaskSize((MOUNTAIN_CAR,), 1, SMOKE),
    "small": TaskSize((MOUNTAIN_CAR,), 1, {"steps": 5000}),
    "paper": TaskSize(REPORTED, 10),
}


def algorithms(scale: Scale) -> tuple[str, ...]:
    """Return the labels of the algorithms that are compared."""
    return (NOISY, MBPO) if scale == "small" else tuple(ALGORITHMS)


def cells(scale: Scale) -> dict[str, Config]:
    """Return every algorithm on every task, with the same members and the same seeds."""
    size = _SIZES[scale]
    seeds = tuple(range(_FIRST_SEED, _FIRST_SEED + size.num_seeds))
    return {
        f"{task}: {label}": make_cell(
            task, label, seeds, {**chosen_options(task, label), **size.options}
        )
        for task in size.tasks
        for label in algorithms(scale)
    }


def chosen_options(task: str, label: str) -> dict[str, Any]:
    """Return the tuned option of an algorithm on a task; empty if nothing was tuned."""
    chosen = CHOSEN.get(TASKS[task].tuned_on, {})
    return {DIALS[label][0]: chosen[label]} if label in chosen else {}


def make_cell(task: str, label: str, seeds: tuple[int, ...], options: Mapping[str, Any]) -> Config:
    """Return the configuration of an algorithm on a task."""
    shared = {"members": MEMBERS, "seeds": seeds, "steps": TASKS[task].steps}
    return configure(TASKS[task].env, label, shared | dict(options))


def configure(env: str, label: str, options: Mapping[str, Any]) -> Config:
    """Return the configuration of an algorithm, with those of the options that it uses."""
    from narl.deep.checked_config import make_config
    from narl.deep.config import used_by

    given = ALGORITHMS[label] | dict(options)
    algo = given.pop("algo")
    used = {name: x for name, x in given.items() if algo in (used_by(name) or (algo,))}
    exclude = used.pop("exclude", None)
    config = make_config(env, algo, **used)
    # Without a radius, by the options or the task's preset, nothing is excluded.
    if exclude is None or config.radius is None:
        return config
    return make_config(env, algo, **used, exclude=exclude)


def _task_table(task: str, results: Mapping[str, Result]) -> Table:
    rows: list[list[Any]] = []
    rival = evaluation_returns(results[MBPO]).mean(axis=1)
    for label, result in results.items():
        returns = evaluation_returns(result)
        final, overall = returns[:, -1], returns.mean(axis=1)
        better = 1.0 - probability_of_improvement(overall, rival)
        rows.append(
            [label, float(final.mean()), float(iqm(final)), float(final.min())]
            + [float(overall.mean()), float(overall.min()), None if label == MBPO else better]
        )
    return Table(
        f"exploration-{slug(task)}",
        f"Returns: {task}",
        ["algorithm", "final return", "IQM of the final return", "worst seed's final return"]
        + ["mean return over the training", "worst seed's mean return"]
        + ["probability of more than MBPO"],
        rows,
        "Deterministic episodes. The probability is that of a random seed having a larger mean "
        "return over the training than a random seed of MBPO.",
    )


def _belief_table(tasks: Mapping[str, Mapping[str, Result]]) -> Table:
    """Return what the models promised and how far they disagreed, per task and algorithm."""
    rows: list[list[Any]] = []
    for task, by_label in tasks.items():
        for label, result in by_label.items():
            if label == SAC:
                continue
            log = rows_with_model(result.rows())
            first, last = log[0], log[-1]
            rows.append(
                [task, label, *(_mean(last, name) for name in ("eval_return", "model_return"))]
                + [_mean(first, name) for name in ("reward_distance", "value_distance")]
                + [_mean(row, "disagreement") for row in (first, last)]
                + [_mean(last, "bonus")]
            )
    return Table(
        "exploration-beliefs",
        "What the models promised",
        ["task", "algorithm", "final return", "inside the model"]
        + ["rewards differ by, first epoch", "values differ by, first epoch"]
        + ["disagreement, first epoch", "disagreement, last epoch", "bonus, last epoch"],
        rows,
        "Means over seeds. Rewards and values differ by the mean distance of a member's prediction "
        "from the members' mean; the disagreement is that about the next state, in units of its "
        "standard deviation over the data. The first epoch is the first with a model.",
    )


def _mean(row: Mapping[str, Any], name: str) -> float | None:
    values = [float(x) for x in np.ravel(np.array(row[name], object)) if x is not None]
    return float(np.mean(values)) if values else None


def _scores(tasks: Mapping[str, Mapping[str, Result]]) -> dict[str, Float[np.ndarray, "T N"]]:
    """Return every run's mean return over the training, 0 for the worst algorithm, 1 for the best.

    Worst and best are the smallest and the largest mean over seeds on the task.
    """
    overall = {
        task: {label: evaluation_returns(result).mean(axis=1) for label, result in results.items()}
        for task, results in tasks.items()
    }
    low = np.array([min(x.mean() for x in by_label.values()) for by_label in overall.values()])
    high = np.array([max(x.mean() for x in by_label.values()) for by_label in overall.values()])
    high = np.where(high > low, high, low + 1.0)
    return {
        label: normalised_scores([by_label[label] for by_label in overall.values()], low, high)
        for label in next(iter(overall.values()))
    }


def _overall_table(scores: Mapping[str, Float[np.ndarray, "T N"]]) -> Table:
    """Return the aggregate over tasks."""
    rows = [[label, *aggregate_iqm(runs), float(runs.mean())] for label, runs in scores.items()]
    return Table(
        "exploration-overall",
        "All tasks together",
        ["algorithm", "IQM of the score", "low", "high", "mean score"],
        rows,
        "The score of a run is its mean return over the training, 0 for the worst and 1 for the "
        "best algorithm's mean on this task. IQM over all runs of all tasks with its 95 % interval "
        "(stratified bootstrap).",
    )


def _overall_charts(scores: Mapping[str, Float[np.ndarray, "T N"]]) -> list[Chart]:
    """Return IQM, performance profile and probability of improvement over all tasks."""
    num_seeds = scores[MBPO].shape[1]
    if num_seeds < 2:
        return []
    top = max(float(runs.max()) for runs in scores.values())
    thresholds = np.linspace(0.0, max(1.0, top), 100)
    over = f"Over all runs of all tasks, {num_seeds} seeds each; 95 % stratified bootstrap."
    return [
        Chart(
            "exploration-iqm",
            "All tasks: interquartile mean of the score",
            "",
            "score (0: the worst algorithm, 1: the best)",
            [interval_series(label, aggregate_iqm(runs)) for label, runs in scores.items()],
            caption=over,
        ),
        Chart(
            "exploration-improvement",
            "All tasks: probability of improvement over MBPO",
            "",
            "probability of a larger score than MBPO",
            [
                interval_series(label, improvement_interval(scores[MBPO], runs))
                for label, runs in scores.items()
                if label != MBPO
            ],
            reference=0.5,
            reference_label="no difference",
            caption=f"{over} At 0.5 neither is better.",
        ),
        Chart(
            "exploration-profile",
            "All tasks: performance profile",
            "score",
            "share of runs with a larger score",
            [profile_series(label, runs, thresholds) for label, runs in scores.items()],
            caption=f"{over} Of two algorithms, the one whose line lies above is better.",
        ),
    ]


def _noise_chart(tasks: Mapping[str, Mapping[str, Result]]) -> Chart:
    """Return how large the noise on rewards is over the training, on every task."""
    return Chart(
        "exploration-noise",
        "Noise on rewards over the training",
        "environment steps",
        "mean noise per imagined step",
        [
            curve(task, rows_with_model(found[NOISY].rows()), "bonus")
            for task, found in tasks.items()
        ],
        caption="What noise on rewards adds to an imagined step, the mean over steps; it grows "
        "where the agent comes to places that the models do not know, and falls as they agree.",
    )


def _pays(results: Mapping[str, Result], label: str) -> Judgement:
    """Return whether MBPO has a lower return over the training than an optimistic algorithm."""
    own, mbpo = (evaluation_returns(results[each]).mean(axis=1) for each in (label, MBPO))
    return judge_lower([Part(MBPO, mbpo, label, own)], "return over the training")


def _judgements(tasks: Mapping[str, Mapping[str, Result]]) -> dict[str, tuple[str, Judgement]]:
    """Return the statement of every claim and the judgement on it, by the claim's id."""
    judged = {}
    for task, found in tasks.items():
        for label, id_ in {NOISY: "", CHOICE: "-choice"}.items():
            how = label.partition(", ")[2]
            text = f"On {task}, NARL with {'' if label == NOISY else 'its '}{how} has a larger "
            text += "return over the training than MBPO."
            if label in found:
                judged[f"exploration-{slug(task)}{id_}"] = text, _pays(found, label)
    return judged


def slug(task: str) -> str:
    """Return the name of a task as a part of an id."""
    return anchor(task).replace(".", "")


def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return learning curves and tables per task, the aggregate, and two claims per task."""
    size, labels = _SIZES[scale], algorithms(scale)
    tasks = {task: {label: results[f"{task}: {label}"] for label in labels} for task in size.tasks}
    others = {
        f"{task}: {label}": _pays(found, label)
        for task, found in tasks.items()
        for label in found
        if label not in (MBPO, SAC)
    }
    over = over_seeds(size.num_seeds)
    scores = _scores(tasks)
    charts = [
        Chart(
            f"exploration-{slug(task)}-returns",
            task.capitalize(),
            "environment steps",
            "return",
            [curve(label, result.rows(), "eval_return") for label, result in by_label.items()],
            caption=f"{over} Deterministic episodes after every epoch.",
        )
        for task, by_label in tasks.items()
    ]
    tables = [_task_table(task, by_label) for task, by_label in tasks.items()]
    return Findings(
        about=f"{counted(len(tasks), 'task')}, {len(labels)} "
        f"algorithms, {count_seeds(size.num_seeds)}. Seeds begin at {_FIRST_SEED}: no option was "
        f"chosen on them. All algorithms with a model have {MEMBERS} members and the options of "
        "the task's preset; how optimistic they are was tuned on other seeds "
        "(`exploration-tuning`).",
        charts=[*_overall_charts(scores), *charts, _noise_chart(tasks)],
        tables=[
            _overall_table(scores),
            *tables,
            _belief_table(tasks),
            comparison_table("exploration-comparisons", others),
        ],
        claims=[x.claim(id_, text, "ours") for id_, (text, x) in _judgements(tasks).items()],
    )


EXPERIMENT = Experiment("exploration", TITLE, cells, analyse)
