"""The experiments of the paper, by id."""

from narl.experiments import (
    ablation,
    exploration,
    fair,
    fig1a,
    fig1b,
    fig1c,
    fig3a,
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
from narl.report.document import Outcome

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.id: module.EXPERIMENT
    for module in (fig1a, fig1b, fig1c, table1, ablation, fair, fig3a, table2, exploration)
}

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
