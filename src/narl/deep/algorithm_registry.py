"""The algorithms of the deep half by name: how each of them chooses among imagined steps.

An algorithm with a model is a way to select among the members' predictions and, if it has one, a
bonus on imagined rewards (see `narl.deep.selection` and `narl.deep.bonus` for their types). This
table names the functions and does not import them: reading the command line needs no JAX.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from narl.errors import InputError, unknown

if TYPE_CHECKING:
    from narl.deep.bonus import BonusFn
    from narl.deep.config import Config
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
    adapt: Callable[[AlgorithmSpec, Config], AlgorithmSpec] | None = None
    """Replaces select and bonus where they depend on the configuration."""


_ELITE, _OPTIMISTIC = "narl.deep.selection:select_elite", "narl.deep.selection:select_optimistic"
_ALWAYS = (_ELITE, _OPTIMISTIC)
"""The ways to select that are in every program on a CPU: those of MBPO and of NARL."""


def _adapt_narl(spec: AlgorithmSpec, config: Config) -> AlgorithmSpec:
    """Return NARL as the options say: optimistic in the models, in the rewards, or in both.

    Where the update chooses among stored candidates, imagined trajectories follow elite members.
    """
    if config.noise == "reward" or config.optimism_at == "update":
        spec = spec._replace(select=_ELITE)
    return spec._replace(bonus=None) if config.noise == "model" else spec


ALGORITHMS: dict[str, AlgorithmSpec] = {
    "narl": AlgorithmSpec(
        "optimistic over the models",
        _OPTIMISTIC,
        "narl.deep.bonus:reward_noise",
        members=3,
        adapt=_adapt_narl,
    ),
    "mbpo": AlgorithmSpec("draws one of the best models", _ELITE),
    "sac": AlgorithmSpec("learns without a model"),
    "sombrl": AlgorithmSpec(
        "rewards disagreement between the models",
        _ELITE,
        "narl.deep.rivals:disagreement_bonus",
        members=5,
    ),
    "hucrl": AlgorithmSpec(
        "takes the best step within the models' spread",
        "narl.deep.rivals:select_hallucinated",
        members=5,
    ),
    "thompson": AlgorithmSpec(
        "follows one model at a time", "narl.deep.rivals:select_thompson", members=5
    ),
    "maxinfo": AlgorithmSpec(
        "rewards information about the models",
        _ELITE,
        "narl.deep.rivals:information_bonus",
        members=5,
    ),
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
    config: Config, select: SelectFn | None = None, bonus: BonusFn | None = None
) -> StepRule | None:
    """Return the functions of an algorithm, replaced by the given ones; None without a model."""
    spec = find_algorithm(config.algo)
    if spec.select is None:
        return None
    if spec.adapt is not None:
        spec = spec.adapt(spec, config)
    assert spec.select is not None
    own_bonus = None if spec.bonus is None else _resolve(spec.bonus)
    return StepRule(select or _resolve(spec.select), bonus or own_bonus)


def step_rules_of(
    configs: Sequence[Config], select: SelectFn | None, bonus: BonusFn | None, *, batched: bool
) -> tuple[tuple[StepRule, ...], list[int]]:
    """Return the ways to select of one program, and the index that each configuration uses.

    In a batch every branch is computed, so it holds only the ways that are used. On the CPU one
    branch runs, and a program that never holds a single branch gives a replica the same bits alone
    or among others.
    """
    used = [step_rule_of(config, select, bonus) for config in configs]
    always = [] if batched else [StepRule(_resolve(each), None) for each in _ALWAYS]
    distinct = list(dict.fromkeys(each for each in (*always, *used) if each is not None))
    return tuple(distinct), [0 if each is None else distinct.index(each) for each in used]


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

    The functions are not part of a run's id: choose another name when they change, or
    `run_training` finds the old run.

    Args:
        name: The name, as ``algo`` of `Agent` and `make_config`.
        select: The function that selects among the members.
        bonus: The function whose result is added to imagined rewards; None: no bonus.
        members: Members of the ensemble by default.
        options: Options of other algorithms, such as "radius", that this one takes too, beside
            those that all algorithms with a model share.
        summary: A few words for tables.

    Example:
        >>> def select_any(key, candidates, params):
        ...     members = jax.random.randint(key, candidates.obs.shape[:1], 0, 5)
        ...     return narl.deep.take_members(candidates, members)
        >>> narl.deep.register_algorithm("any-member", select_any, members=5)
        >>> narl.Agent("Pendulum-v1", algo="any-member").config.num_members
        5
    """
    if name in ALGORITHMS:
        raise InputError(f"algo: {name!r} is registered already; choose another name")
    ALGORITHMS[name] = AlgorithmSpec(summary, select, bonus, members, options)


def _resolve(reference: Reference) -> Any:
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
