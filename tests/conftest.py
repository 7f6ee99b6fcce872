"""Fixtures and the marker that all tests share."""

from __future__ import annotations

import hypothesis
import pytest

from tests.support.backends import BACKENDS, Backend

# The same examples in every run: a test that fails today failed yesterday.
hypothesis.settings.register_profile("midcourse", derandomize=True, database=None, deadline=None)
hypothesis.settings.load_profile("midcourse")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "promise(*ids): the promises of tests/promises.toml that this test shows"
    )


@pytest.fixture(params=BACKENDS, ids=repr)
def run(request: pytest.FixtureRequest) -> Backend:
    """Runs an async function in virtual time, once on each backend: `run(function, *args)`."""
    backend: Backend = request.param
    return backend
