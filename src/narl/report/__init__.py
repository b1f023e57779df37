"""Reports: one offline HTML page and figures for papers, made from charts, tables and claims.

`import narl.report` is quick: what draws, and needs packages that load slowly, is imported when it
is first used.
"""

from typing import TYPE_CHECKING

from narl.lazy_names import import_on_first_use

if TYPE_CHECKING:
    from narl.report.contents import Chart as Chart
    from narl.report.contents import Claim as Claim
    from narl.report.contents import Outcome as Outcome
    from narl.report.contents import Section as Section
    from narl.report.contents import Series as Series
    from narl.report.contents import Table as Table
    from narl.report.figures import draw_figure as draw_figure
    from narl.report.files import write_report as write_report
    from narl.report.series import mean_band as mean_band
    from narl.report.series import median_band as median_band

import_on_first_use(__name__)
