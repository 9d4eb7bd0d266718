"""The client of the compatibility suite, under the name that tests use."""

from compat.wire import TIMEOUT_SECONDS, Closed, Wire

__all__ = ["TIMEOUT_SECONDS", "Closed", "Wire"]
