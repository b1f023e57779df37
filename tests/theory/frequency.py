"""Monte Carlo frequencies and their error bars.

Every comparison allows five binomial standard errors. Seeds are fixed: a test that passes once
passes always.
"""

import numpy as np

SIGMAS = 5.0


def error_bar(probability: float, trials: int) -> float:
    """Return five standard errors of the frequency of an event with this probability."""
    return SIGMAS * float(np.sqrt(probability * (1.0 - probability) / trials))


def agrees(events: np.ndarray, probability: float) -> bool:
    """Return whether the frequency is the probability, within the error bar."""
    return abs(events.mean() - probability) <= error_bar(probability, events.size)


def is_at_most(events: np.ndarray, bound: float) -> bool:
    """Return whether the frequency is consistent with a probability of at most the bound."""
    return events.mean() <= bound + error_bar(bound, events.size)


def exceeds(events: np.ndarray, bound: float) -> bool:
    """Return whether the frequency refutes a probability of at most the bound."""
    return events.mean() > bound + error_bar(bound, events.size)
