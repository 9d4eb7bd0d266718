"""The client of the compatibility suite, under the name that tests use."""

from compat.wire import PATIENCE_SECONDS, Closed, Wire

__all__ = ["PATIENCE_SECONDS", "Closed", "Wire"]
