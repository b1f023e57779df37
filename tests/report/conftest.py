"""Fixtures of the report's tests: the page of made-up outcomes."""

import pytest


@pytest.fixture(scope="session")
def page() -> str:
    """The page of all made-up outcomes."""
    from fake_outcomes import fake_sections

    from narl.report.page import compose_page

    return compose_page(fake_sections())
