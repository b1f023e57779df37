"""Agents and runs that many tests of the deep half read; no test may change them."""

import pytest
from quick_trainings import quick_agent, quick_config, train


@pytest.fixture(scope="session")
def untrained():
    """An agent of two seeds that has learned nothing."""
    return quick_agent(seeds=[3, 8])


@pytest.fixture(scope="session")
def learned(cache):
    """An agent of two seeds after three epochs."""
    return quick_agent(seeds=[3, 8]).learn(60)


@pytest.fixture(scope="session")
def learned_with_model(cache):
    """An agent with a model after three epochs."""
    return quick_agent("narl").learn(60)


@pytest.fixture(scope="session")
def whole(tmp_path_factory, cache):
    """The run of an uninterrupted training."""
    return train(quick_config(), tmp_path_factory.mktemp("whole"))
