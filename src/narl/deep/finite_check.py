"""The check that numbers which learning needs are finite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Num

from narl.deep.config import Config, used_by

if TYPE_CHECKING:
    from narl.deep.algorithm import Assessment, Imagined
    from narl.deep.ensemble_fit import FitReport
    from narl.deep.trainer import Trainer


class NonFiniteError(RuntimeError):
    """A number is not finite where learning needs one; the message is one line that names it.

    Example:
        >>> try:
        ...     raise narl.NonFiniteError("seed 0, step 250: critic_loss is nan")
        ... except narl.NonFiniteError as error:
        ...     print(error)
        seed 0, step 250: critic_loss is nan
    """


class FiniteCheck:
    """Refuses numbers that are not finite; every method raises a `NonFiniteError`.

    Only the replicas of the trainer that still learn are checked.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def update(self, critic_loss: Num[np.ndarray, " N"]) -> None:
        """Check the result of `Algorithm.update`."""
        self._check("critic_loss", critic_loss)

    def fit_model(self, report: FitReport) -> None:
        """Check the result of `Algorithm.fit_model`."""
        self._check("the model's holdout error", report.holdout_error)

    def imagine(self, imagined: Imagined) -> None:
        """Check that an imagined step of every replica is finite.

        Single steps that are not finite are dropped and counted in the metrics.
        """
        sums = imagined.sums
        for i in self._trainer.active:
            if sums.nonfinite[i] > 0 and sums.steps[i] == 0:
                raise NonFiniteError(
                    f"{self._where(i)}: all {sums.nonfinite[i]:.0f} imagined steps are not finite"
                )

    def assess(self, assessment: Assessment) -> None:
        """Check the losses in the result of `Algorithm.assess`."""
        for name, sums in assessment.loss_sums.losses._asdict().items():
            self._check(name, sums)

    def policies(self, sac: Any) -> None:
        """Check the networks and optimisers of the policies and critics."""
        for path, values in jax.tree_util.tree_leaves_with_path(sac):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            self._check(f"sac.{name}", values)

    def _check(self, name: str, values: Any) -> None:
        if np.isfinite(values).all():
            return
        for i in self._trainer.active:
            numbers = np.ravel(values[i])
            if not np.isfinite(numbers).all():
                value = numbers[~np.isfinite(numbers)][0]
                raise NonFiniteError(f"{self._where(i)}: {name} is {value}")

    def _where(self, replica: int) -> str:
        """Describe the step and a replica, with its algorithm where there are several."""
        trainer = self._trainer
        kinds = [_kind(config) for config in trainer.replica_configs]
        kind = f"{kinds[replica]}, " if len(set(kinds)) > 1 else ""
        return f"step {trainer.counters.step}: {kind}seed {trainer.seeds[replica]}"


def _kind(config: Config) -> str:
    """Describe the algorithm of a configuration, with the radius if the algorithm has one."""
    has_radius = config.algo in used_by("radius")
    return f"{config.algo}, radius {config.radius}" if has_radius else config.algo
