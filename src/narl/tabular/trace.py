"""The outcome of a tabular run: exact scores of every seed and episode."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, UInt

from narl.decomposition import Decomposition, decompose
from narl.display import Described, Description, counted, figure, figures_over_seeds
from narl.plotting import SUMS, Curve, data_frame, draw_curves, tabular_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclasses.dataclass(frozen=True, repr=False)
class Trace(Described):
    """The outcome of a run; arrays are [seeds, episodes], in float64.

    Example:
        >>> trace = narl.tabular.run("psrl", narl.tabular.riverswim(), 50, seeds=range(2))
        >>> trace.regret.shape, bool((trace.regret >= 0).all())
        ((2, 50), True)
        >>> bool(np.allclose(trace.regret, trace.optimism + trace.estimation_error))  # Eq. 1
        True
    """

    seeds: UInt[np.ndarray, " N"]
    """The seed of every row."""
    v_star: float
    """V(π*)."""
    regret: Float[np.ndarray, "N K"]
    """V(π*) − V(π_k) of the executed policy, exactly."""
    value: Float[np.ndarray, "N K"]
    """Ṽ_k(π_k)."""
    trajectory_gap: Float[np.ndarray, "N K"]
    """Σ_h V*_h(s_h) − Q*_h(s_h,a_h) along the episode played."""
    realised_return: Float[np.ndarray, "N K"]
    """Σ_h r_h."""
    bad: Float[np.ndarray, "N K"] | None
    """Deep Sea: whether the episode was "bad"."""
    solved_rule: tuple[float, int]
    """The rule for "solved", as in `TabularMDP`."""
    compile_seconds: float
    """Seconds until the program was compiled."""
    run_seconds: float
    """Seconds of all episodes of all seeds."""
    agent: str = ""
    """The name of the agent; empty for an agent of the user's own."""
    env: str = ""
    """The name of the MDP."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The options of the agent, complete."""

    @property
    def policy_value(self) -> Float[np.ndarray, "N K"]:
        """The value V(π_k) of the executed policy."""
        return self.v_star - self.regret

    @property
    def decomposition(self) -> Decomposition:
        """Eq. 1 per episode: regret = optimism + estimation error."""
        return decompose(self.v_star, self.value, self.policy_value)

    @property
    def optimism(self) -> Float[np.ndarray, "N K"]:
        """The term V(π*) − Ṽ_k(π_k) of Eq. 1."""
        return self.decomposition.optimism

    @property
    def estimation_error(self) -> Float[np.ndarray, "N K"]:
        """The term Ṽ_k(π_k) − V(π_k) of Eq. 1."""
        return self.decomposition.estimation_error

    @property
    def solved_episode(self) -> list[int | None] | None:
        """The episode at which each seed solved Deep Sea by bsuite's rule; None if it did not."""
        if self.bad is None:
            return None
        return [solved_at(bad, *self.solved_rule) for bad in self.bad]

    def to_pandas(self) -> Any:
        """Return a pandas.DataFrame with one row for every seed and episode (extra `pandas`)."""
        num_seeds, num_episodes = self.regret.shape
        columns: dict[str, Any] = {
            "seed": np.repeat(self.seeds, num_episodes),
            "episode": np.tile(np.arange(1, num_episodes + 1), num_seeds),
        }
        columns |= {name: scores.ravel() for name, scores in self._scores().items()}
        return data_frame(columns)

    def plot(self, *metrics: str, ax: Axes | None = None) -> Axes:
        """Draw metrics against the episode: median and quartiles over the seeds.

        `narl.plot` draws several traces.

        Args:
            *metrics: regret, optimism, estimation_error, value or realised_return; by default the
                first three, summed over the episodes (Eq. 1).
            ax: The axes to draw into; by default new ones.

        Returns:
            The axes.

        Example:
            >>> trace = narl.tabular.run("psrl", "riverswim", 50, seeds=range(2))
            >>> len(trace.plot().lines), trace.plot("value").get_ylabel()
            (3, "the agent's own value")
        """
        names = metrics or tuple(SUMS)
        curves = {SUMS.get(name, name): self.curve(name) for name in names}
        if len(curves) > 1:  # the colours are those of agents otherwise
            curves = {name: curve._replace(algorithm="") for name, curve in curves.items()}
        axes = draw_curves(curves, ax)
        if self.agent and self.env:
            axes.set_title(f"{self.agent} on {self.env}", loc="left")
        return axes

    def curve(self, metric: str | None = None) -> Curve:
        """Return a metric as a curve, which `narl.plot` draws.

        Args:
            metric: One of those of `plot`; by default the cumulative regret.

        Returns:
            A named tuple with ``x``, ``values`` [seeds, episodes] and labels.

        Example:
            >>> trace = narl.tabular.run("psrl", "riverswim", 50, seeds=range(2))
            >>> trace.curve("value").values.shape
            (2, 50)
        """
        return tabular_curve(
            self._scores(), metric, algorithm=self.agent, env=self.env, settings=self.options
        )

    def _scores(self) -> dict[str, Float[np.ndarray, "N K"]]:
        names = (
            *("regret", "optimism", "estimation_error"),
            *("value", "policy_value", "trajectory_gap", "realised_return"),
        )
        scores = {name: getattr(self, name) for name in names}
        return scores if self.bad is None else scores | {"bad": self.bad}

    def _describe(self) -> Description:
        num_seeds, num_episodes = self.regret.shape
        name = f"{self.agent or 'agent'}{f' on {self.env}' if self.env else ''}"
        worst = int(np.argmax(self.regret.sum(axis=1)))
        terms = zip(SUMS.values(), (x.sum(axis=1) for x in self.decomposition), strict=True)
        sums = {
            term: figures_over_seeds(float(np.median(x)), float(x.mean()), float(x[worst]))
            for term, x in terms
        }
        facts = {
            "V*": figure(self.v_star, 4),
            **sums,
            "regret": f"{sums['regret']} (sum over the episodes)",
            "solved": self._solved_as_text(),
            "time": f"{self.run_seconds:.1f} s, and {self.compile_seconds:.1f} s to compile",
        }
        episodes, seeds = counted(num_episodes, "episode"), counted(num_seeds, "seed")
        return Description(f"Trace of {name}: {episodes}, {seeds}", facts)

    def _solved_as_text(self) -> str:
        if self.solved_episode is None:
            return ""
        num_solved = sum(episode is not None for episode in self.solved_episode)
        return f"with {num_solved} of {counted(len(self.seeds), 'seed')}"


def solved_at(bad: Float[np.ndarray, " K"], threshold: float = 0.9, least: int = 1) -> int | None:
    """Return the first episode (from 1) at which bad episodes / episodes < threshold.

    bsuite's rule for "solved" is .9 for Deep Sea, and .8 from episode 100 on for the stochastic
    version.

    Args:
        bad: 1 for every bad episode, else 0, [K].
        threshold: The share of bad episodes.
        least: The first episode that counts.

    Returns:
        The episode, or None if there is none.

    Example:
        >>> narl.tabular.solved_at(np.array([1.0, 1.0, 1.0, 0.0]))
        4
    """
    episodes = np.arange(1, len(bad) + 1)
    met = (np.cumsum(bad) / episodes < threshold) & (episodes >= least)
    return int(episodes[met][0]) if met.any() else None
