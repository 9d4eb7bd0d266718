"""Fixtures for tests with stock clients."""

import gc
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture
def sockets_left_open() -> Iterator[None]:
    """Collects sockets that clients did not close before the next test runs.

    The test itself ignores `ResourceWarning`, for the collector may come earlier.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
