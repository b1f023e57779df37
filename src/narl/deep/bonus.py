"""The type of a bonus: a function whose result is added to imagined rewards.

A `BonusFn` is given what every member predicts and returns a number per imagined step, which is
added to the reward that the selection took. To add one, name it in `narl.deep.algorithm_registry`,
or hand it to an agent: `narl.MBPO(env, bonus=my_function)`.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Array, Float

from narl.deep.selection import Candidates, SelectParams

BonusFn = Callable[[Candidates, SelectParams], Float[Array, " B"]]
