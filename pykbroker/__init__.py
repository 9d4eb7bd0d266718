"""PyKBroker: a Kafka broker in Python."""

from __future__ import annotations

TYPE_CHECKING = False  # avoids the import of `typing` at the start
if TYPE_CHECKING:
    from pykbroker.broker import CannotStart
    from pykbroker.testing.async_broker import AsyncBroker
    from pykbroker.testing.broker_options import Topic
    from pykbroker.testing.embedded import Broker
    from pykbroker.testing.rows import Record, Row
    from pykbroker.testing.simulation import Simulation
    from pykbroker.version import __version__ as __version__  # "as": part of the interface

__all__ = ["AsyncBroker", "Broker", "CannotStart", "Record", "Row", "Simulation", "Topic"]

_HOMES = {
    "AsyncBroker": "pykbroker.testing.async_broker",
    "Broker": "pykbroker.testing.embedded",
    "CannotStart": "pykbroker.broker",
    "Record": "pykbroker.testing.rows",
    "Row": "pykbroker.testing.rows",
    "Simulation": "pykbroker.testing.simulation",
    "Topic": "pykbroker.testing.broker_options",
    "__version__": "pykbroker.version",
}


def __getattr__(name: str) -> object:
    """Imports a name at its first use: the command line needs none of them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415  # as above

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
