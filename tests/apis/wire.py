"""The plain client of the compatibility suite, by the name that the tests know it."""

from compat.wire import PATIENCE_SECONDS, Closed, Wire

__all__ = ["PATIENCE_SECONDS", "Closed", "Wire"]
