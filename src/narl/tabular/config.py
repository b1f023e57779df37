"""A tabular run that is kept: a configuration becomes a run folder, found when asked again."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from narl import storage
from narl.errors import InputError
from narl.stats import median_iqr
from narl.tabular.envs import make
from narl.tabular.mdp import TabularMDP
from narl.tabular.registry import agent_options
from narl.tabular.run import Trace, run


@dataclasses.dataclass(frozen=True)
class Study:
    """Everything that decides the numbers of a run, and nothing else."""

    agent: str
    env: str = "riverswim"
    size: int | None = None
    """N of an environment that comes in sizes."""
    horizon: int | None = None
    env_seed: int = 0
    """Seed of the environment itself, where it is drawn at random."""
    episodes: int = 1000
    seeds: tuple[int, ...] = (0,)
    preset: str | None = None
    options: tuple[tuple[str, Any], ...] = ()
    """The agent's options that differ from its preset or defaults, as sorted pairs."""
    until_solved: bool = False
    """Deep Sea: stop when every seed has solved it."""

    def mdp(self) -> TabularMDP:
        return make(self.env, size=self.size, horizon=self.horizon, seed=self.env_seed)

    def config(self) -> dict[str, Any]:
        """What the run folder records and its name is a hash of: options are spelled out."""
        options = agent_options(self.agent, self.preset, **dict(self.options))
        mdp = self.mdp()
        tables = [mdp.p, mdp.r, mdp.r_std, mdp.p0, *([] if mdp.bad is None else [mdp.bad])]
        if mdp.bad is not None and mdp.solved_rule != TabularMDP.solved_rule:
            tables.append(np.array(mdp.solved_rule))
        return {
            "experiment": "tabular",
            "agent": self.agent,
            "env": mdp.name,
            "mdp": hashlib.sha256(b"".join(table.tobytes() for table in tables)).hexdigest()[:16],
            "horizon": mdp.horizon,
            "env_seed": self.env_seed,
            "episodes": self.episodes,
            "seeds": list(self.seeds),
            "until_solved": self.until_solved,
            "options": dataclasses.asdict(options),
        }


def study(agent: str, **given: Any) -> Study:
    """A `Study` from plain values; names that are no field of it are options of the agent."""
    names = {field.name for field in dataclasses.fields(Study)} - {"options"}
    fields = {name: value for name, value in given.items() if name in names}
    if "seeds" in fields:
        fields["seeds"] = tuple(fields["seeds"])
    options = tuple(sorted((k, v) for k, v in given.items() if k not in names))
    return Study(agent=agent, options=options, **fields)


def metrics(trace: Trace) -> dict[str, Any]:
    """The summary that `narl tabular --json` prints (cumulative values at the end)."""
    terms = trace.decomposition
    summary: dict[str, Any] = {}
    for name, value in zip(terms._fields, terms, strict=True):
        total = value.sum(axis=1)
        # An agent of one's own may return NaN; the run is kept, the figure is null.
        figures = [math.nan] * 3 if np.isnan(total).any() else median_iqr(total)
        summary[name] = dict(zip(("median", "q25", "q75"), map(float, figures), strict=True))
    summary["v_star"] = trace.v_star
    summary["episodes"] = trace.regret.shape[1]
    summary["seconds"] = {"compile": trace.compile_seconds, "run": trace.run_seconds}
    if trace.bad is not None:
        summary["solved_episode"] = trace.solved_episode
    return summary


def execute(
    item: Study,
    root: Path,
    *,
    progress: Callable[[int], None] | None = None,
    fresh: bool = False,
) -> tuple[storage.Run, bool]:
    """The finished run of ``item``, found in the store (True) or run now and kept (False)."""
    if len(set(item.seeds)) < len(item.seeds):
        raise InputError("seeds: some are given twice; each must appear once")
    mdp = item.mdp()
    config = item.config()
    storage.check_root(root)
    if not fresh:
        found = storage.find_run(root, config)
        if found is not None:
            return found, True
    trace = run(
        item.agent,
        mdp,
        item.episodes,
        item.seeds,
        preset=item.preset,
        progress=progress,
        until_solved=item.until_solved,
        **dict(item.options),
    )
    arrays = {
        "regret": trace.regret.astype(np.float32),
        "value": trace.value.astype(np.float32),
        "trajectory_gap": trace.trajectory_gap.astype(np.float32),
        "realised_return": trace.realised_return.astype(np.float32),
    }
    if trace.bad is not None:
        arrays["bad"] = trace.bad.astype(np.uint8)
    device = jax.devices()[0].device_kind
    kept = storage.save_run(root, config, metrics(trace), arrays, device=device, replace=fresh)
    return kept, False
