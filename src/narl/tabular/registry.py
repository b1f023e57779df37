"""The agents by name, their options, and how both are checked."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from narl.errors import InputError, nearest, unknown
from narl.tabular import baselines as rivals
from narl.tabular import narl_ucbvi, narl_ucrl
from narl.tabular.agent import Agent
from narl.tabular.problem import Problem


class Entry(NamedTuple):
    """One agent: its options, how to build it, and what depends on the problem."""

    options: type
    build: Callable[[Any], Agent]
    resolve: Callable[[Any, Problem], Any] | None = None


AGENTS: dict[str, Entry] = {
    "narl-ucrl": Entry(narl_ucrl.NarlUcrl, narl_ucrl.narl_ucrl, narl_ucrl.resolve),
    "narl-ucbvi": Entry(narl_ucbvi.NarlUcbvi, narl_ucbvi.narl_ucbvi, narl_ucbvi.resolve),
    "ucrl2": Entry(rivals.Ucrl2, rivals.ucrl2),
    "ucrl2-tabularl": Entry(rivals.Ucrl2Tabularl, rivals.ucrl2_tabularl),
    "ucbvi": Entry(rivals.Ucbvi, rivals.ucbvi),
    "psrl": Entry(rivals.Psrl, rivals.psrl),
    "opsrl": Entry(rivals.Opsrl, rivals.opsrl),
    "rlsvi": Entry(rivals.Rlsvi, rivals.rlsvi),
    "greedy": Entry(rivals.Greedy, rivals.greedy),
}

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "narl-ucrl": narl_ucrl.PAPER,
        "narl-ucbvi": narl_ucbvi.NarlUcbvi(rescaled=False),
        "ucrl2": rivals.Ucrl2(clip="none"),
    }
}
"""Options as printed in the paper, for the agents where the default is another reading."""

_LOWEST: dict[str, tuple[float, bool]] = {
    "members": (1, True),
    "members_r": (1, True),
    "members_p": (1, True),
    "fakes": (1, True),
    "c": (0.0, True),
    "scale": (0.0, True),
    "epsilon": (0.0, False),
    "delta": (0.0, False),
    "alpha0": (0.0, False),
    "tau0": (0.0, False),
    "tau": (0.0, False),
}
"""Smallest value of each numeric option, and whether it is itself allowed."""
_MOST = {"members": 10**6, "members_r": 10**6, "members_p": 10**6, "fakes": 10**9}
"""Largest value of each whole number."""
_TINY, _HUGE = 1e-15, 1e15
"""What float32 bears of the others: beyond, they overflow together, or vanish as divisors."""
_BELOW_ONE = ("epsilon", "delta")


def agent_options(name: str, preset: str | None = None, **given: Any) -> Any:
    """The checked options of an agent; every mistake is named in one line."""
    if name not in AGENTS:
        raise unknown("agent", name, AGENTS)
    base = AGENTS[name].options()
    if preset is not None:
        if not isinstance(preset, str) or preset not in PRESETS:
            raise unknown("preset", str(preset), PRESETS)
        base = PRESETS[preset].get(name, base)
    fields = {field.name: field for field in dataclasses.fields(base)}
    types_by_name = typing.get_type_hints(type(base))
    for option, value in given.items():
        if option not in fields:
            if not fields:
                raise InputError(f"{option}: {name} takes no options; leave it out")
            raise InputError(
                f"{option}: not an option of {name}; did you mean "
                f"{nearest(option, fields)!r}? (one of {', '.join(fields)})"
            )
        given[option] = _check_option(option, value, types_by_name[option])
    options = dataclasses.replace(base, **given)
    _check_together(options)
    return options


def _check_option(option: str, value: Any, annotation: Any) -> Any:
    """The value as the option's own type: 1 and 1.0 are one configuration, not two."""
    if isinstance(value, np.generic):
        value = value.item()
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        choices = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
        if value is None:
            return None
        annotation = choices[0]
    if typing.get_origin(annotation) is typing.Literal:
        if value not in typing.get_args(annotation):
            raise unknown(option, str(value), typing.get_args(annotation))
        return value
    if annotation is bool:
        if not isinstance(value, bool):
            raise InputError(f"{option}: {value!r} is wrong; it must be True or False")
        return value
    whole = annotation is int
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        kind = "a whole number" if whole else "a number"
        raise InputError(f"{option}: {value!r} is wrong; it must be {kind}")
    _check_range(option, value)
    return value if whole else float(value)


def _check_range(option: str, value: float) -> None:
    if not abs(value) <= sys.float_info.max:
        raise InputError(f"{option}: {value} is wrong; it must be finite")
    if option in _LOWEST:
        low, allowed = _LOWEST[option]
        if value < low or (value == low and not allowed):
            sign = ">=" if allowed else ">"
            raise InputError(f"{option}: {value} is out of range; it must be {sign} {low:g}")
        if not allowed and value < _TINY:
            raise InputError(f"{option}: {value} is too small; the nearest valid value is {_TINY}")
    if option in _BELOW_ONE and value >= 1:
        raise InputError(f"{option}: {value} is out of range; it must be < 1")
    most = str(_MOST[option]) if option in _MOST else f"{_HUGE:g}"
    if abs(value) > float(most):
        sign = "-" if value < 0 else ""
        raise InputError(
            f"{option}: {value} is out of range; the nearest valid value is {sign}{most}"
        )


def _check_together(options: Any) -> None:
    if not isinstance(options, narl_ucrl.NarlUcrl):
        return
    if options.noise == "bootstrap":
        for option in ("members_r", "members_p"):
            value = getattr(options, option)
            if value not in (None, options.members):
                raise InputError(
                    f"{option}: bootstrap members hold rewards and dynamics together; "
                    f"leave it out or make it {options.members} like members"
                )
    if options.noise in ("bootstrap", "dirichlet") and options.measure == "simplex":
        raise InputError(
            f"measure: 'simplex' is for gaussian and theorem noise; "
            f"with {options.noise} noise the nearest is 'signed'"
        )


@functools.cache
def _build(name: str, options: Any) -> Agent:
    """One agent per set of options, so that its compiled programs are found again."""
    return AGENTS[name].build(options)


def make_agent(name: str, options: Any, problem: Problem) -> Agent:
    """The agent for a problem."""
    entry = AGENTS[name]
    if entry.resolve is not None:
        options = entry.resolve(options, problem)
    return _build(name, options)
