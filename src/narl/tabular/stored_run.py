"""Tabular runs on disk: a configuration is run once, and its finished run is found again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from narl import storage
from narl.errors import InputError
from narl.host_memory import available_host_memory, size_as_text
from narl.stats import median_iqr
from narl.tabular.config import Config
from narl.tabular.mdp import TabularMDP
from narl.tabular.runner import Record, Trace, run
from narl.tabular.sweep import run_sweep


def run_config(
    config: Config,
    root: Path,
    *,
    mdp: TabularMDP | None = None,
    progress: Callable[[int], None] | None = None,
    fresh: bool = False,
) -> tuple[storage.Run, bool]:
    """Return the finished run of a configuration, and whether it was found in the runs folder.

    Args:
        config: The configuration.
        root: The folder of runs.
        mdp: The result of `Config.make_mdp`, where the caller has it already.
        progress: Called with the number of episodes done.
        fresh: Whether to run again, even if the run is there.

    Returns:
        The run, and True if it was found.

    Example:
        >>> from pathlib import Path
        >>> config = narl.tabular.make_config("greedy", "riverswim", episodes=20, seeds=[0])
        >>> run, found = narl.tabular.run_config(config, Path("runs"))
        >>> run.arrays()["regret"].shape, found
        ((1, 20), False)
    """
    return run_configs([config], root, mdp=mdp, progress=progress, fresh=fresh)[0]


def run_configs(
    configs: Sequence[Config],
    root: Path,
    *,
    mdp: TabularMDP | None = None,
    progress: Callable[[int], None] | None = None,
    fresh: bool = False,
) -> list[tuple[storage.Run, bool]]:
    """Return the finished runs of one configuration, or of several of one `Config.shape`.

    Each is found or run as by `run_config`; those of a sweep run together.
    """
    storage.check_root(root)
    mdp = configs[0].make_mdp() if mdp is None else mdp
    records = [config.record(mdp) for config in configs]
    found = [None if fresh else storage.find_run_of_config(root, record) for record in records]
    missing = [config for config, run in zip(configs, found, strict=True) if run is None]
    _check_memory(missing)
    traces = iter(_run_missing(missing, mdp, progress))
    runs = []
    for record, finished in zip(records, found, strict=True):
        run = _save(root, record, next(traces), fresh) if finished is None else finished
        runs.append((run, finished is not None))
    return runs


def _check_memory(configs: Sequence[Config]) -> None:
    """Refuse runs whose scores do not fit into memory: each once in 32 and twice in 64 bits."""
    num_scores = sum(
        len(Record._fields) * len(config.seeds) * config.episodes
        for config in configs
        if not config.until_solved  # it may end much earlier
    )
    needed, available = (4 + 8 + 8) * num_scores, available_host_memory()
    if available is not None and needed > available:
        raise InputError(
            f"memory: the scores of all seeds and episodes need {size_as_text(needed)} and "
            f"{size_as_text(available)} are available; take fewer seeds or episodes"
        )


def _run_missing(
    configs: Sequence[Config], mdp: TabularMDP, progress: Callable[[int], None] | None
) -> list[Trace]:
    """Run configurations of one sweep together, or a single one, and return their traces."""
    if not configs:
        return []
    first = configs[0]
    if first.swept is not None:
        options = [config.options for config in configs]
        return run_sweep(first.swept, options, mdp, first.episodes, first.seeds, progress)
    trace = run(
        first.options,
        mdp,
        first.episodes,
        first.seeds,
        progress=progress or False,
        until_solved=first.until_solved,
    )
    return [trace]


def _save(root: Path, record: dict[str, Any], trace: Trace, fresh: bool) -> storage.Run:
    """Save the scores of a run and return it."""
    arrays = {
        "regret": trace.regret.astype(np.float32),
        "value": trace.value.astype(np.float32),
        "trajectory_gap": trace.trajectory_gap.astype(np.float32),
        "realised_return": trace.realised_return.astype(np.float32),
    }
    if trace.bad is not None:
        arrays["bad"] = trace.bad.astype(np.uint8)
    device = jax.devices()[0].device_kind
    return storage.save_run(root, record, metrics(trace), arrays, device=device, replace=fresh)


def metrics(trace: Trace) -> dict[str, Any]:
    """Return the summary that `narl tabular --json` prints: sums over all episodes, per seed."""
    terms = trace.decomposition
    summary: dict[str, Any] = {}
    worst = int(np.argmax(terms.regret.sum(axis=1)))
    for name, value in zip(terms._fields, terms, strict=True):
        total = value.sum(axis=1)
        # A user's own agent may return NaN: then the run is kept, and the figure is null.
        figures = [math.nan] * 3 if np.isnan(total).any() else median_iqr(total)
        figures = [*figures, total.mean(), total[worst]]
        names = ("median", "q25", "q75", "mean", "worst")
        summary[name] = dict(zip(names, map(float, figures), strict=True))
    summary["v_star"] = trace.v_star
    summary["episodes"] = trace.regret.shape[1]
    summary["seconds"] = {"compile": trace.compile_seconds, "run": trace.run_seconds}
    if trace.bad is not None:
        summary["solved_episode"] = trace.solved_episode
    return summary
