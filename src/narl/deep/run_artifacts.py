"""The artifacts of a training that a run folder keeps: networks, curves and a summary."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from narl.deep.snapshot import flatten_tree
from narl.deep.trainer import Trainer
from narl.errors import InputError, first_line

EVERY_REPLICA = slice(None)
NETWORKS = ("sac", "ensemble", "termination")
"""The fields of `ReplicaState` that were learned."""


def networks(trainer: Trainer, replicas: slice = EVERY_REPLICA) -> dict[str, np.ndarray]:
    """Return actor, critics, ensemble and termination model by name, copied to the host."""
    trees = trainer.replicas.to_host(
        trainer.state(), lambda state: {name: getattr(state, name) for name in NETWORKS}
    )
    # Copies: JAX may use the memory of its own arrays again.
    return {name: np.array(array[replicas]) for name, array in flatten_tree(trees).items()}


def actors(trainer: Trainer) -> dict[str, np.ndarray]:
    """Return the actors of all replicas by name, as `networks` names them."""
    tree = trainer.replicas.to_host(trainer.state(), lambda state: state.sac.actor)
    return {f"sac.actor.{name}": np.asarray(array) for name, array in flatten_tree(tree).items()}


def only_networks(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return only the arrays of `NETWORKS`."""
    prefixes = tuple(f"{name}." for name in NETWORKS)
    return {name: array for name, array in arrays.items() if name.startswith(prefixes)}


def summary(
    trainer: Trainer,
    rows: Sequence[Mapping[str, Any]],
    seconds: Mapping[str, float],
    replicas: slice = EVERY_REPLICA,
) -> dict[str, Any]:
    """Return the summary that `narl train --json` prints.

    ``rows`` are those of the metrics log for these replicas; ``seconds`` those of all processes.
    Replicas that were trained together share their seconds; "replicas" says how many they were.
    """
    config, counters = trainer.config, trainer.counters
    learned = max(counters.step - config.learn_after, 0)
    return {
        "solved_step": counters.solved_step[replicas],
        "confirmed_step": counters.confirmed_step[replicas],
        "final_return": rows[-1]["eval_return"],
        "steps": counters.step,
        "policy_steps": max(counters.step - config.initial_steps, 0),
        "updates": learned * config.updates_per_step,
        "episodes": counters.num_episodes[replicas],
        "replicas": len(trainer.seeds),
        "seconds": {
            "compile": seconds["compile"],
            **counters.seconds,
            "total": seconds["total"],
        },
    }


@contextlib.contextmanager
def not_written_by_narl(what: str, advice: str) -> Iterator[None]:
    """Raise `InputError` for values that narl never writes, although the checksum is right."""
    try:
        yield
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        cause = first_line(str(error)) or type(error).__name__
        raise InputError(f"{what} does not hold what narl writes ({cause}); {advice}") from error
