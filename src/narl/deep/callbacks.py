"""Functions that are called after every epoch, and the meaning of their answers.

A callback that has a method `start` is given the agent there, when learning begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from narl.deep.best_policy import BEST, BestPolicies
from narl.deep.config import Config
from narl.deep.policy import Policy, policy_from
from narl.display import figure
from narl.errors import InputError
from narl.validation import check_count, check_number, signature_error

if TYPE_CHECKING:
    from narl.deep.agent import Agent

Callback = Callable[[dict[str, Any]], Any]
"""A function of an epoch's metrics; its answer False (Python's or NumPy's) ends the training."""


def as_callback(
    callbacks: Callback | Sequence[Callback] | None, agent: Agent | None = None
) -> Callable[[dict[str, Any]], bool]:
    """Return one function that calls every callback and returns whether training continues.

    Callbacks that have a method `start` are given the agent.
    """
    if callbacks is None:
        callbacks = ()
    functions = tuple(callbacks) if isinstance(callbacks, list | tuple) else (callbacks,)
    for function in functions:
        _check_callback(function)
    for function in functions:
        if agent is not None and callable(start := getattr(function, "start", None)):
            start(agent)

    def call(row: dict[str, Any]) -> bool:
        answers = [function(row) for function in functions]
        return not any(wants_stop(answer) for answer in answers)

    return call


def wants_stop(answer: Any) -> bool:
    """Return whether a callback's answer is False; None, 0 and an empty list are not."""
    if isinstance(answer, np.ndarray) and answer.ndim == 0:
        answer = answer[()]
    return isinstance(answer, bool | np.bool_) and not answer


def _check_callback(callback: Any) -> None:
    """Refuse a callback that would fail at the first epoch."""
    if not callable(callback):
        raise InputError(
            f"callback: {type(callback).__name__} given; it must be a function that takes the row "
            "of an epoch, or a list of such functions"
        )
    error = signature_error(callback, {})
    if error is not None:
        name = getattr(callback, "__name__", type(callback).__name__)
        raise InputError(
            f"callback: {name} cannot be called with the row of an epoch ({error}); such as "
            "lambda row: print(row['eval_return'])"
        ) from error


# --- callbacks that people expect -------------------------------------------------------------


def mean_return(row: Mapping[str, Any]) -> float:
    """Return the mean evaluation return over the seeds; NaN if one of them is not known."""
    return float(np.mean([math.nan if x is None else float(x) for x in row["eval_return"]]))


class StopAtReturn:
    """A callback that ends learning once every seed has reached a return in some evaluation.

    The seeds need not reach it in the same evaluation. `narl train --stop-at-return` does the same.

    Args:
        target: The return that is enough.

    Example:
        >>> stop = narl.StopAtReturn(900)
        >>> [stop({"step": i, "eval_return": x}) for i, x in enumerate(([950, 800], [850, 910]))]
        [True, False]
    """

    def __init__(self, target: float) -> None:
        self.target = check_number("target", target, whole=False)
        self._reached: set[int] = set()

    def start(self, agent: Agent) -> None:
        """Begin with the evaluations that this agent has had; `Agent.learn` calls it.

        Args:
            agent: The agent.
        """
        self._reached = set()
        for row in agent.history:
            self(row)

    def __call__(self, row: Mapping[str, Any]) -> bool:
        """Return False, which ends learning, if every seed has reached the return."""
        returns = row["eval_return"]
        self._reached |= {i for i, x in enumerate(returns) if x is not None and x >= self.target}
        return len(self._reached) < len(returns)


class StopWhenNoBetter:
    """A callback that ends learning when several evaluations in turn were no better than the best.

    Compared are mean evaluation returns over the seeds. `narl train --stop-when-no-better` does the
    same.

    Args:
        num_evaluations: How many evaluations may be no better.
        min_gain: By how much an evaluation must be better to count.

    Example:
        >>> stop = narl.StopWhenNoBetter(2)
        >>> [stop({"step": i, "eval_return": [x]}) for i, x in enumerate((1.0, 3.0, 2.0, 3.0))]
        [True, True, True, False]
    """

    def __init__(self, num_evaluations: int, min_gain: float = 0.0) -> None:
        self.num_evaluations = check_count("num_evaluations", num_evaluations)
        self.min_gain = check_number("min_gain", min_gain, whole=False, minimum=0.0)
        self._best, self._num_worse = -math.inf, 0

    def __call__(self, row: Mapping[str, Any]) -> bool:
        """Return False, which ends learning, after too many evaluations that were no better."""
        current = mean_return(row)
        if current > self._best + self.min_gain:
            self._best, self._num_worse = current, 0
        else:
            self._num_worse += 1
        return self._num_worse < self.num_evaluations


def stop_rule(config: Config) -> Callable[[Mapping[str, Any]], bool]:
    """Return the rule by which the options until_solved and stop_when_no_better end learning."""
    patience = config.stop_when_no_better
    gets_better = None if patience is None else StopWhenNoBetter(patience)

    def is_enough(row: Mapping[str, Any]) -> bool:
        is_solved = config.until_solved and None not in row["solved_step"]
        return is_solved or (gets_better is not None and not gets_better(row))

    return is_enough


class KeepBest:
    """A callback that keeps the policy of every seed at the seed's best evaluation.

    Args:
        folder: Where the agent is saved whenever the mean return over the seeds is the best so
            far; by default it is not saved.

    Example:
        >>> keep = narl.KeepBest()
        >>> agent = narl.SAC("Pendulum-v1", **tiny).learn(callback=keep)
        >>> keep.policy.act(np.zeros(3)).shape, keep.step in (20, 40, 60)
        ((1,), True)
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self.mean_return = -math.inf
        """The best mean return over the seeds so far."""
        self.step = 0
        """The step of this return."""
        self._best = BestPolicies()
        self._agent: Agent | None = None

    def __repr__(self) -> str:
        where = "" if self.folder is None else f", saved in {self.folder}"
        if not self.step:
            return f"KeepBest: no epoch has ended yet{where}"
        return f"KeepBest: mean return {figure(self.mean_return)} at step {self.step}{where}"

    def start(self, agent: Agent) -> None:
        """Keep policies of this agent; `Agent.learn` calls it.

        Args:
            agent: The agent.
        """
        self._agent = agent

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Compare the evaluation of an epoch with the best one."""
        assert self._agent is not None
        self._best.update(row, self._agent.policy.arrays())
        if mean_return(row) > self.mean_return:
            self.mean_return, self.step = mean_return(row), int(row["step"])
            if self.folder is not None:
                self._agent.save(self.folder)

    @property
    def policy(self) -> Policy:
        """The best policy of every seed."""
        if self._agent is None or not self.step:
            raise InputError("policy: no epoch has ended yet; give the callback to agent.learn")
        arrays = {name.removeprefix(BEST): x for name, x in self._best.arrays().items()}
        return policy_from(arrays, self._agent.seeds, self._agent.policy.interface)


class SaveEvery:
    """A callback that saves the agent again and again, as FOLDER/step-1000 and so on.

    It saves at the ends of epochs: at the first one after so many steps.

    Args:
        steps: Environment steps between two saves.
        folder: The folder of the saved agents, which `narl.load` reads.
        data: Whether buffers and optimisers are saved too, so that learning can go on.

    Example:
        >>> save = narl.SaveEvery(40, "saved")
        >>> agent = narl.SAC("Pendulum-v1", **tiny).learn(callback=save)
        >>> [path.name for path in save.paths]
        ['step-40']
    """

    def __init__(self, steps: int, folder: Path | str, *, data: bool = False) -> None:
        self.steps, self.folder, self.data = check_count("steps", steps), Path(folder), data
        self.paths: list[Path] = []
        """The folders that were written."""
        self._agent: Agent | None = None
        self._last = 0

    def start(self, agent: Agent) -> None:
        """Save this agent; `Agent.learn` calls it.

        Args:
            agent: The agent.
        """
        self._agent, self._last = agent, agent.num_steps

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Save the agent if enough steps have passed."""
        assert self._agent is not None
        step = int(row["step"])
        if step - self._last >= self.steps:
            self._last = step
            self.paths.append(self._agent.save(self.folder / f"step-{step}", data=self.data))
