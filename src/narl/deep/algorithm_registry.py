"""The algorithms of the deep half by name: how each of them chooses among imagined steps.

An algorithm with a model is a way to select among the members' predictions and, if it has one, a
bonus on imagined rewards (see `narl.deep.selection` and `narl.deep.bonus` for their types). This
table names the functions and does not import them: reading the command line needs no JAX.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from narl.errors import InputError, unknown

if TYPE_CHECKING:
    from narl.deep.bonus import BonusFn
    from narl.deep.selection import SelectFn

Reference = str | Callable[..., Any]
"""A function, or its place as "module:name"."""


class AlgorithmSpec(NamedTuple):
    """One algorithm of the deep half."""

    summary: str
    """A few words for `--help`."""
    select: Reference | None = None
    """The function that selects among the members (a `SelectFn`); None: no model at all."""
    bonus: Reference | None = None
    """The function that is added to imagined rewards (a `BonusFn`); None: no bonus."""
    members: int = 7
    """Members of the ensemble by default."""
    options: tuple[str, ...] = ()
    """Options of other algorithms, such as radius, that this algorithm uses as well."""


ALGORITHMS: dict[str, AlgorithmSpec] = {
    "narl": AlgorithmSpec(
        "optimistic over the models", "narl.deep.selection:select_optimistic", members=3
    ),
    "mbpo": AlgorithmSpec("draws one of the best models", "narl.deep.selection:select_elite"),
    "sac": AlgorithmSpec("learns without a model"),
}
"""Every algorithm that can be trained; `register_algorithm` adds others."""

MODEL_BASED = tuple(name for name, spec in ALGORITHMS.items() if spec.select is not None)
"""The algorithms that come with narl and learn a model."""


class StepRule(NamedTuple):
    """The rule by which an algorithm chooses imagined steps: a selection and a bonus."""

    select: SelectFn
    bonus: BonusFn | None


def find_algorithm(name: str) -> AlgorithmSpec:
    """Return the algorithm of this name, or raise one line with the nearest valid name."""
    if name not in ALGORITHMS:
        raise unknown("algo", name, ALGORITHMS)
    return ALGORITHMS[name]


def step_rule_of(
    name: str, select: SelectFn | None = None, bonus: BonusFn | None = None
) -> StepRule | None:
    """Return the functions of an algorithm, replaced by the given ones; None without a model."""
    spec = find_algorithm(name)
    if spec.select is None:
        return None
    own_bonus = None if spec.bonus is None else _resolve(spec.bonus)
    return StepRule(select or _resolve(spec.select), bonus or own_bonus)


def register_algorithm(
    name: str,
    select: SelectFn,
    bonus: BonusFn | None = None,
    *,
    members: int = 7,
    options: tuple[str, ...] = (),
    summary: str = "registered by the user",
) -> None:
    """Make a way to select, and a bonus, available as an algorithm of this name.

    It takes every option that all model-based algorithms share, and those named in ``options``,
    such as "radius". The functions are not part of a run's id: choose another name when they
    change, or `run_training` finds the old run.
    """
    if name in ALGORITHMS:
        raise InputError(f"algo: {name!r} is registered already; choose another name")
    ALGORITHMS[name] = AlgorithmSpec(summary, select, bonus, members, options)


def _resolve(reference: Reference) -> Any:
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
