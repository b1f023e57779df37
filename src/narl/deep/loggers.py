"""Callbacks that show a training elsewhere: TensorBoard, Weights & Biases.

Each is called with the line of every epoch (see docs/metrics.md) and writes every number in it:
those of each seed under `name/seed0`, those of each member of its ensemble under
`name/seed0/member2`, the seconds spent under `seconds/env` and so on.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from narl.errors import InputError

AXIS = "step"
"""The column over which the others are drawn."""
OF_EPISODES = frozenset({"eval_returns"})
"""Columns whose inner lists are not of members."""

Write = Callable[[Mapping[str, float], int], None]
"""(numbers by name, step)"""


class Logger:
    """Called every epoch; to be closed at the end, or used in a `with`."""

    def __init__(
        self, write: Write, close: Callable[[], None], seeds: Sequence[int] | None = None
    ) -> None:
        self._write, self.close, self._seeds = write, close, seeds

    def __call__(self, row: dict[str, Any]) -> None:
        self._write(scalars(row, self._seeds), int(row[AXIS]))

    def __enter__(self) -> Logger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def scalars(row: Mapping[str, Any], seeds: Sequence[int] | None = None) -> dict[str, float]:
    """The numbers of an epoch by name; what is not known in it is left out."""
    found: dict[str, float] = {}
    for name, column in row.items():
        if name == AXIS:
            continue
        if isinstance(column, Mapping):
            parts = {f"{name}/{part}": value for part, value in column.items()}
        elif isinstance(column, (list, tuple)):
            parts = {
                f"{name}/seed{i if seeds is None else seeds[i]}": x for i, x in enumerate(column)
            }
        else:
            parts = {name: column}
        inner = "episode" if name in OF_EPISODES else "member"
        for label, part in parts.items():
            if isinstance(part, (list, tuple)):
                found |= _numbers({f"{label}/{inner}{i}": x for i, x in enumerate(part)})
            else:
                found |= _numbers({label: part})
    return found


def _numbers(parts: Mapping[str, Any]) -> dict[str, float]:
    """Those that are numbers."""
    return {label: float(value) for label, value in parts.items() if isinstance(value, Real)}


def tensorboard_logger(folder: Path | str, *, seeds: Sequence[int] | None = None) -> Logger:
    """Writes event files for TensorBoard into the folder."""
    tensorboard = _load("tensorboardX", "tensorboard")
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
    """Logs to a project of Weights & Biases; with ``run`` a resumed training goes on there."""
    wandb = _load("wandb", "wandb")
    opened = wandb.init(
        project=project, config=dict(config or {}), id=run, name=run, resume="allow"
    )

    def write(numbers: Mapping[str, float], step: int) -> None:
        opened.log(dict(numbers), step=step)

    return Logger(write, opened.finish, seeds)


def _load(module: str, extra: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(
            f"{extra}: {module} is not installed; pip install 'narl[{extra}]'"
        ) from None
