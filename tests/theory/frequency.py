"""Monte Carlo frequencies and their error bars.

Every comparison allows five binomial standard errors. Seeds are fixed, so a test that passes once
passes always; the bar says how far from luck that is.
"""

import numpy as np

SIGMAS = 5.0


def error_bar(probability: float, trials: int) -> float:
    """Five standard errors of the frequency of an event with this probability."""
    return SIGMAS * float(np.sqrt(probability * (1.0 - probability) / trials))


def agrees(events: np.ndarray, probability: float) -> bool:
    """The frequency is the probability, within the error bar."""
    return abs(events.mean() - probability) <= error_bar(probability, events.size)


def is_at_most(events: np.ndarray, bound: float) -> bool:
    """The frequency does not refute that the probability is at most the bound."""
    return events.mean() <= bound + error_bar(bound, events.size)


def exceeds(events: np.ndarray, bound: float) -> bool:
    """The frequency refutes that the probability is at most the bound."""
    return events.mean() > bound + error_bar(bound, events.size)
