"""The experiments by id: the paper's, then ours.

`import narl.experiments` is quick: an experiment, and JAX with it, is imported when it is used.
"""

from typing import TYPE_CHECKING

from narl.lazy_names import import_on_first_use

if TYPE_CHECKING:
    from narl.experiments.experiment import SCALES as SCALES
    from narl.experiments.experiment import Experiment as Experiment
    from narl.experiments.experiment import ExperimentHooks as ExperimentHooks
    from narl.experiments.experiment import Findings as Findings
    from narl.experiments.experiment import Scale as Scale
    from narl.experiments.experiment import reproduce as reproduce
    from narl.experiments.judgement import Part as Part
    from narl.experiments.judgement import judge_lower as judge_lower
    from narl.experiments.registry import EXPERIMENTS as EXPERIMENTS
    from narl.report.contents import Outcome as Outcome

import_on_first_use(__name__)
