"""Tabular runs on disk: a configuration is run once, and its finished run is found again."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from narl import storage
from narl.stats import median_iqr
from narl.tabular.config import Config
from narl.tabular.mdp import TabularMDP
from narl.tabular.runner import Trace, run


def run_config(
    config: Config,
    root: Path,
    *,
    mdp: TabularMDP | None = None,
    progress: Callable[[int], None] | None = None,
    fresh: bool = False,
) -> tuple[storage.Run, bool]:
    """Return the finished run of a configuration, and whether it was found in the runs folder.

    Otherwise, or if ``fresh``, it is run now and saved. ``mdp`` is the result of
    `Config.make_mdp`, where the caller has it already; ``progress`` is called with the number of
    episodes done.
    """
    mdp = config.make_mdp() if mdp is None else mdp
    record = config.record(mdp)
    storage.check_root(root)
    if not fresh:
        finished = storage.find_run(root, record)
        if finished is not None:
            return finished, True
    trace = run(
        config.agent,
        mdp,
        config.episodes,
        config.seeds,
        progress=progress,
        until_solved=config.until_solved,
        **vars(config.options),
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
    saved = storage.save_run(root, record, metrics(trace), arrays, device=device, replace=fresh)
    return saved, False


def metrics(trace: Trace) -> dict[str, Any]:
    """Return the summary that `narl tabular --json` prints: sums over all episodes, per seed."""
    terms = trace.decomposition
    summary: dict[str, Any] = {}
    for name, value in zip(terms._fields, terms, strict=True):
        total = value.sum(axis=1)
        # A user's own agent may return NaN: then the run is kept, and the figure is null.
        figures = [math.nan] * 3 if np.isnan(total).any() else median_iqr(total)
        summary[name] = dict(zip(("median", "q25", "q75"), map(float, figures), strict=True))
    summary["v_star"] = trace.v_star
    summary["episodes"] = trace.regret.shape[1]
    summary["seconds"] = {"compile": trace.compile_seconds, "run": trace.run_seconds}
    if trace.bad is not None:
        summary["solved_episode"] = trace.solved_episode
    return summary
