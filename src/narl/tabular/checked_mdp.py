"""MDPs made from arrays of a user, once every entry is checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from narl.errors import InputError
from narl.tabular.mdp import Array, TabularMDP
from narl.tabular.transitions import (
    dense_rows,
    reachable_states,
    slots_save_work,
    take_slots,
    tidy_slots,
)

MAX_HORIZON = 10**6
"""Longest episode; planning takes too long beyond it."""
MAX_REWARD = 1e15
"""Largest reward and deviation; sums over an episode would overflow float32 beyond it."""
MAX_RULE_EPISODE = 10**9
"""Largest episode number of a rule for "solved"."""


def make_mdp(
    p: ArrayLike,
    r: ArrayLike,
    p0: ArrayLike,
    horizon: int,
    r_std: ArrayLike | None = None,
    bad: ArrayLike | None = None,
    solved_rule: ArrayLike | None = None,
    name: str = "mdp",
    successors: ArrayLike | None = None,
) -> TabularMDP:
    """Return a checked `TabularMDP`; an error names the first entry that is wrong.

    Args:
        p: Probabilities P(s' | s, a), [S, A, S]; with ``successors`` [S, A, B].
        r: Mean reward of each state and action, [S, A]; most agents assume values in [0, 1].
        p0: Distribution of the first state, [S].
        horizon: Steps in every episode.
        r_std: Standard deviation of the rewards' Gaussian noise, [S, A]; 0 by default.
        bad: 1 where an action makes the episode a bad one, as in Deep Sea, else 0, [S, A].
        solved_rule: (share, episode): solved as soon as the share of bad episodes is below the
            share, from this episode on; (0.9, 1) by default.
        name: The name in tables and run folders.
        successors: For large MDPs, [S, A, B]: p[s, a, b] is the probability of moving to the state
            successors[s, a, b].

    Returns:
        The MDP, a `TabularMDP`.

    Example:
        >>> stay_or_move = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
        >>> mdp = narl.tabular.make_mdp(stay_or_move, r=[[0, 0], [1, 0]], p0=[1, 0], horizon=3)
        >>> narl.tabular.solve(mdp).value  # move once, then stay
        2.0
    """
    p, r, p0 = _numbers("p", p), _numbers("r", r), _numbers("p0", p0)
    slots = _slots(p, successors)
    r_std = np.zeros_like(r) if r_std is None else _numbers("r_std", r_std)
    bad = None if bad is None else _numbers("bad", bad)
    _check_shapes(p.shape[:2], {"r": r, "r_std": r_std, "bad": bad}, p0)
    horizon = _steps(horizon)
    _check_rewards(r, r_std, bad)
    _check_distribution("p", p)
    _check_distribution("p0", p0)
    prob, slots = _stored(p, slots)
    rule = TabularMDP.solved_rule if solved_rule is None else _rule(solved_rule)
    _check_name(name)
    return TabularMDP(
        prob=prob,
        successors=slots,
        r=r,
        r_std=r_std,
        p0=_normalised(p0),
        bad=bad,
        solved_rule=rule,
        horizon=horizon,
        name=name,
    )


def with_horizon(mdp: TabularMDP, horizon: int) -> TabularMDP:
    """Return the same MDP with episodes of another length."""
    return dataclasses.replace(mdp, horizon=_steps(horizon))


# --- the checks -----------------------------------------------------------------------------


def _slots(p: Array, successors: ArrayLike | None) -> Array | None:
    """Return the states of the slots, None for a dense table; refuse shapes that do not fit."""
    if successors is None:
        if p.ndim != 3 or p.shape[0] != p.shape[2] or 0 in p.shape:
            raise InputError(f"p: shape {p.shape} is wrong; it must be (S, A, S) with S, A >= 1")
        return None
    slots = np.asarray(successors)
    if slots.dtype.kind not in "iu":
        raise InputError(f"successors: holds {slots.dtype} values; it must hold whole numbers")
    if p.ndim != 3 or 0 in p.shape or slots.shape != p.shape:
        raise InputError(
            f"successors: shape {slots.shape} beside {p.shape} of p is wrong; "
            "both must be (S, A, B) with S, A, B >= 1"
        )
    last = len(p) - 1
    valid = (slots >= 0) & (slots <= last)
    _check_entries("successors", slots, valid, f"it must be a state in 0..{last}")
    return slots


def _check_shapes(shape: tuple[int, ...], tables: Mapping[str, Array | None], p0: Array) -> None:
    """Refuse tables whose shape is not (S, A), and a first distribution that is not (S,)."""
    for field, table in tables.items():
        if table is not None and table.shape != shape:
            raise InputError(
                f"{field}: shape {table.shape} is wrong; it must be (S, A) = {shape} as in p"
            )
    if p0.shape != shape[:1]:
        raise InputError(f"p0: shape {p0.shape} is wrong; it must be (S,) = {shape[:1]}")


def _check_rewards(r: Array, r_std: Array, bad: Array | None) -> None:
    """Refuse rewards, deviations and marks of bad actions that are out of range."""
    _check_entries("r_std", r_std, r_std >= 0, "it must not be negative")
    for field, value in (("r", r), ("r_std", r_std)):
        small = np.abs(value) <= MAX_REWARD
        _check_entries(field, value, small, f"it must lie within ±{MAX_REWARD:g}")
    if bad is not None:
        _check_entries("bad", bad, (bad == 0) | (bad == 1), "it must be 0 or 1")


def _stored(p: Array, slots: Array | None) -> tuple[Array, Array | None]:
    """Return the layout that an MDP stores: slots where they save work, else the dense table."""
    if slots is None:
        p, slots = _normalised(p), reachable_states(p)
        return take_slots(p, slots), slots
    p, slots = tidy_slots(p, slots)
    if slots_save_work(slots.shape[-1], len(slots)):
        return _normalised(p), slots
    return _normalised(dense_rows(p, slots, len(slots))), None


def _rule(solved_rule: ArrayLike) -> tuple[float, int]:
    rule = _numbers("solved_rule", solved_rule)
    valid = rule.shape == (2,) and 0 < rule[0] <= 1 and rule[1] % 1 == 0
    if not valid or not 1 <= rule[1] <= MAX_RULE_EPISODE:
        raise InputError(
            f"solved_rule: {rule.tolist()} is wrong; it must be like [0.9, 1]: "
            f"a share in (0, 1] and an episode in 1..{MAX_RULE_EPISODE}"
        )
    return float(rule[0]), int(rule[1])


def _check_name(name: str) -> None:
    """Refuse names that do not fit into tables and messages of one line."""
    odd = [letter for letter in name if not letter.isprintable()]
    if odd:
        raise InputError(f"name: holds {odd[0]!r}; it must be printable text on one line")


def _steps(horizon: ArrayLike) -> int:
    steps = np.asarray(horizon)
    whole = steps.ndim == 0 and steps.dtype.kind in "iuf" and np.isfinite(steps)
    if not whole or steps % 1 or steps < 1:
        given = str(horizon) if steps.ndim == 0 else f"an array of shape {steps.shape}"
        raise InputError(f"horizon: {given} is wrong; it must be a whole number >= 1")
    if steps > MAX_HORIZON:
        raise InputError(f"horizon: {steps} is too large; the nearest valid value is {MAX_HORIZON}")
    return int(steps)


def _numbers(field: str, value: ArrayLike) -> Array:
    """Return a copy in float64 of finite real numbers, or raise."""
    try:
        array = np.asarray(value)
    except ValueError:  # nested lists of unequal lengths
        raise InputError(f"{field}: its rows differ in length; it must be one array") from None
    if array.dtype.kind not in "fiub":
        raise InputError(f"{field}: holds {array.dtype} values; it must hold real numbers")
    array = np.array(array, dtype=np.float64)  # a copy, so that the input is not changed
    _check_entries(field, array, np.isfinite(array), "it must be finite")
    return array


def _check_entries(field: str, array: Array, valid: Array, rule: str) -> None:
    """Raise an error that names the first entry that is not valid, and the rule."""
    wrong = np.argwhere(~valid)
    if len(wrong):
        at = ", ".join(map(str, wrong[0]))
        raise InputError(f"{field}[{at}] = {array[tuple(wrong[0])]:g}; {rule}")


def _check_distribution(field: str, array: Array) -> None:
    """Raise an error unless every row is a distribution."""
    _check_entries(field, array, array >= 0, "it must not be negative")
    total = array.sum(axis=-1)
    # float32 tables carry rounding of about 1e-7 per entry; anything larger is a mistake.
    wrong = np.argwhere(np.abs(total - 1) > 1e-5)
    if len(wrong):
        at = ", ".join([*map(str, wrong[0]), ":"])
        raise InputError(f"{field}[{at}] sums to {total[tuple(wrong[0])]:g}; it must sum to 1")


def _normalised(array: Array) -> Array:
    """Return rows that sum to 1 to the last bits."""
    return array / array.sum(axis=-1, keepdims=True)
