"""Fixtures of the tests of the deep half."""

import pytest

from narl.deep.algorithms import ALGORITHMS


@pytest.fixture
def registry():
    """Return the table of algorithms; what a test registers is removed afterwards."""
    before = dict(ALGORITHMS)
    yield ALGORITHMS
    ALGORITHMS.clear()
    ALGORITHMS.update(before)
