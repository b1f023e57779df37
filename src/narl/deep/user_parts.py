"""Parts of a training that a user brings as Python objects."""

from __future__ import annotations

from typing import NamedTuple

from narl.deep.bonus import BonusFn
from narl.deep.make_environment import EnvSource
from narl.deep.selection import SelectFn
from narl.deep.termination import TerminationFn


class UserParts(NamedTuple):
    """A user's environment, termination, selection and bonus; they are in no run's id."""

    env: EnvSource | None = None
    """A function that makes environments, or a `UserEnvironment`; None: the id in the config."""
    termination: TerminationFn | None = None
    select: SelectFn | None = None
    bonus: BonusFn | None = None


NO_PARTS = UserParts()
