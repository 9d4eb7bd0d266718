"""What tests with stock clients need of their surroundings."""

import gc
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture
def sockets_left_open() -> Iterator[None]:
    """Some clients leave a socket to the garbage collector: it finds it here, not in other tests.

    The test itself ignores `ResourceWarning`, for the collector may come earlier.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
