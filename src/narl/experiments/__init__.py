"""The experiments of the paper, by id."""

from narl.experiments import (
    ablation,
    exploration,
    exploration_tuning,
    fair,
    fig1a,
    fig1b,
    fig1c,
    fig3a,
    fig3bc,
    fig4,
    table1,
    table2,
)
from narl.experiments.experiment import (
    SCALES,
    Experiment,
    ExperimentHooks,
    Findings,
    Scale,
    reproduce,
)
from narl.experiments.judgement import Part, judge_lower
from narl.report.contents import Outcome

_PAPER = (
    *(module.EXPERIMENT for module in (fig1a, fig1b, fig1c, table1)),
    *(fig4.FIG2, table2.EXPERIMENT, fig3a.EXPERIMENT, fig3bc.FIG3B, fig3bc.FIG3C),
    fig4.FIG4,
)
_OURS = tuple(module.EXPERIMENT for module in (ablation, fair, exploration_tuning, exploration))
EXPERIMENTS: dict[str, Experiment] = {experiment.id: experiment for experiment in (*_PAPER, *_OURS)}
"""The experiments in the order of the paper, then ours."""

__all__ = [
    "EXPERIMENTS",
    "SCALES",
    "Experiment",
    "ExperimentHooks",
    "Findings",
    "Outcome",
    "Part",
    "Scale",
    "judge_lower",
    "reproduce",
]
