"""Fixtures of the tests of the tabular half."""

from collections.abc import Iterator

import pytest
from variants import unoptimised


@pytest.fixture
def fast_compile() -> Iterator[None]:
    """Compile in half of the time; not for tests of the last bits."""
    with unoptimised():
        yield
