"""Statistics over seeds: summaries, bootstrap intervals, differences, and what n seeds can detect.

Call `median_iqr` or `iqm` for a summary, `bootstrap_interval` or `aggregate_iqm` for one with an
interval, `compare` for two samples.

NaN is refused; +inf, "never", is accepted by the order statistics. A bootstrap has a fixed seed.
"""

from typing import TYPE_CHECKING

from narl.lazy_names import import_on_first_use

if TYPE_CHECKING:
    from narl.stats.aggregate import Profile as Profile
    from narl.stats.aggregate import aggregate_iqm as aggregate_iqm
    from narl.stats.aggregate import normalised_scores as normalised_scores
    from narl.stats.aggregate import performance_profile as performance_profile
    from narl.stats.comparison import Comparison as Comparison
    from narl.stats.comparison import compare as compare
    from narl.stats.comparison import detectable_difference as detectable_difference
    from narl.stats.comparison import difference as difference
    from narl.stats.comparison import improvement_interval as improvement_interval
    from narl.stats.comparison import probability_of_improvement as probability_of_improvement
    from narl.stats.comparison import seeds_to_detect as seeds_to_detect
    from narl.stats.comparison import side_of_zero as side_of_zero
    from narl.stats.summary import Growth as Growth
    from narl.stats.summary import Interval as Interval
    from narl.stats.summary import bootstrap_interval as bootstrap_interval
    from narl.stats.summary import growth_exponent as growth_exponent
    from narl.stats.summary import iqm as iqm
    from narl.stats.summary import median_iqr as median_iqr

import_on_first_use(__name__)
