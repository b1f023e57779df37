"""The results of an agent for people: a few lines, plots, and tables for pandas."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from narl.deep.callbacks import mean_return
from narl.deep.checked_config import changed_options
from narl.deep.config import Config
from narl.display import Described, Description, figure, mean_figure, seeds_as_text
from narl.errors import InputError
from narl.options import as_text
from narl.plotting import Curve, data_frame, draw_curves, epoch_columns, training_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class AgentResults(Described):
    """Tables, charts and descriptions of an agent's history; a part of `narl.deep.Agent`."""

    algo: str
    config: Config
    history: list[dict[str, Any]]

    def to_pandas(self) -> Any:
        """Return the history as a pandas.DataFrame, one row per epoch and seed (extra `pandas`)."""
        return data_frame(epoch_columns(self.history, self.config.seeds))

    def plot(self, metric: str = "eval_return", ax: Axes | None = None) -> Axes:
        """Draw a metric against the environment steps; `narl.plot` draws several agents.

        Args:
            metric: A column of the history with one number per seed (see docs/metrics.md).
            ax: The axes to draw into; by default new ones.

        Returns:
            The axes, with the mean over the seeds and a band of one standard deviation.
        """
        return draw_curves({self.algo: self.curve(metric)}, ax)

    def curve(self, metric: str | None = None) -> Curve:
        """Return a metric for `narl.plot`.

        Args:
            metric: A column of the history; by default the return of the evaluations.

        Returns:
            The curve.
        """
        settings = dataclasses.asdict(self.config)
        env = settings.pop("env")
        algorithm = settings.pop("algo")
        return training_curve(self.history, metric, algorithm=algorithm, env=env, settings=settings)

    def _describe(self) -> Description:
        config, history = self.config, self.history
        num_steps = int(getattr(self, "num_steps", 0))
        facts = {
            "seeds": seeds_as_text(config.seeds),
            "steps": f"{num_steps} so far" if num_steps else "none so far; call learn()",
            "return": "",
            "best": "",
            "options": self._changed() or "the defaults for this environment",
        }
        if history:
            over = " (mean over the seeds)" if len(config.seeds) > 1 else ""
            last = mean_figure(history[-1]["eval_return"])
            facts["return"] = f"{last} at the last evaluation{over}"
        if known := [row for row in history if not math.isnan(mean_return(row))]:
            best = max(known, key=mean_return)
            facts["best"] = f"{figure(mean_return(best))} at step {best['step']}"
        name = type(self).__name__ if type(self).__name__ != "Agent" else config.algo
        return Description(f"{name} on {config.env}", facts)

    def _changed(self) -> str:
        """Return the options that differ from the defaults for the environment."""
        try:
            options = changed_options(self.config)
        except InputError:  # an algorithm that was registered in another process
            return ""
        options.pop("seeds", None)
        return ", ".join(f"{name}={as_text(value)}" for name, value in options.items())
