"""Callbacks that log a training to TensorBoard or to Weights & Biases.

Each logger is called with the metrics of every epoch (see docs/metrics.md) and writes every number:
those of a seed under `name/seed0`, those of a member of its ensemble under `name/seed0/member2`,
the seconds spent under `seconds/env` and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from narl.lazy_names import import_extra

X_AXIS = "step"
"""Column against which all other columns are plotted."""
LISTS_OF_EPISODES = frozenset({"eval_returns"})
"""Columns whose inner lists have one number per episode, not per ensemble member."""

Write = Callable[[Mapping[str, float], int], None]
"""(numbers by name, step) → None"""


class Logger:
    """A callback that writes the numbers of an epoch; close it at the end, or use `with`."""

    def __init__(
        self, write: Write, close: Callable[[], None], seeds: Sequence[int] | None = None
    ) -> None:
        self._write, self.close, self._seeds = write, close, seeds

    def __call__(self, row: dict[str, Any]) -> None:
        self._write(scalars(row, self._seeds), int(row[X_AXIS]))

    def __enter__(self) -> Logger:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def scalars(row: Mapping[str, Any], seeds: Sequence[int] | None = None) -> dict[str, float]:
    """Return the numbers of an epoch by name, without those that are not known (None)."""
    numbers: dict[str, float] = {}
    for name, column in row.items():
        if name == X_AXIS:
            continue
        if isinstance(column, Mapping):
            parts = {f"{name}/{part}": value for part, value in column.items()}
        elif isinstance(column, (list, tuple)):
            parts = {
                f"{name}/seed{i if seeds is None else seeds[i]}": x for i, x in enumerate(column)
            }
        else:
            parts = {name: column}
        item = "episode" if name in LISTS_OF_EPISODES else "member"
        for label, part in parts.items():
            if isinstance(part, (list, tuple)):
                numbers |= _only_numbers({f"{label}/{item}{i}": x for i, x in enumerate(part)})
            else:
                numbers |= _only_numbers({label: part})
    return numbers


def _only_numbers(parts: Mapping[str, Any]) -> dict[str, float]:
    """Return the parts that are numbers, as floats."""
    return {label: float(value) for label, value in parts.items() if isinstance(value, Real)}


def tensorboard_logger(folder: Path | str, *, seeds: Sequence[int] | None = None) -> Logger:
    """Return a logger that writes event files for TensorBoard into a folder.

    Args:
        folder: The folder, which ``tensorboard --logdir`` shows.
        seeds: The seeds of the training, for the names of the curves; by default 0, 1, …

    Returns:
        A callback for `Agent.learn`; close it at the end, or use ``with``.

    Example:
        >>> with narl.tensorboard_logger("logs") as logger:
        ...     logger({"step": 250, "eval_return": [12.5]})
    """
    tensorboard = import_extra("tensorboardX", "tensorboard")
    writer = tensorboard.SummaryWriter(str(folder))

    def write(numbers: Mapping[str, float], step: int) -> None:
        for name, number in numbers.items():
            writer.add_scalar(name, number, step)
        writer.flush()

    return Logger(write, writer.close, seeds)


def wandb_logger(
    project: str,
    *,
    seeds: Sequence[int] | None = None,
    config: Mapping[str, Any] | None = None,
    run: str | None = None,
) -> Logger:
    """Return a logger for a project of Weights & Biases.

    Args:
        project: The name of the project.
        seeds: The seeds of the training, for the names of the curves; by default 0, 1, …
        config: What is shown as the configuration of the run.
        run: The id of a run; with it a resumed training continues that run of the project.

    Returns:
        A callback for `Agent.learn`; close it at the end, or use ``with``.

    Example:
        >>> with narl.wandb_logger("pendulum") as logger:
        ...     logger({"step": 250, "eval_return": [12.5]})
    """
    wandb = import_extra("wandb", "wandb")
    wandb_run = wandb.init(
        project=project, config=dict(config or {}), id=run, name=run, resume="allow"
    )

    def write(numbers: Mapping[str, float], step: int) -> None:
        wandb_run.log(dict(numbers), step=step)

    return Logger(write, wandb_run.finish, seeds)
