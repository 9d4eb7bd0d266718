"""Patches for state of aiokafka that would make runs of the simulation differ."""

from __future__ import annotations

import time
import weakref
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def patched_aiokafka() -> Iterator[None]:
    """Replaces timestamps from compiled code and restarts the process-wide producer numbers."""
    if find_spec("aiokafka") is None:
        yield
        return
    with _without_warnings(), _virtual_timestamps(), _producer_numbers_from_zero():
        yield


@contextmanager
def _virtual_timestamps() -> Iterator[None]:
    builder: Any = import_module("aiokafka.producer.message_accumulator").BatchBuilder
    original = builder.append

    def append(self: Any, *, timestamp: int | None, **given: Any) -> Any:
        if timestamp is None:
            timestamp = int(time.time() * 1000)
        return original(self, timestamp=timestamp, **given)

    builder.append = append
    try:
        yield
    finally:
        builder.append = original


@contextmanager
def _producer_numbers_from_zero() -> Iterator[None]:
    producer: Any = import_module("aiokafka.producer.producer").AIOKafkaProducer
    original = producer._PRODUCER_CLIENT_ID_SEQUENCE  # noqa: SLF001  # it has no public name
    producer._PRODUCER_CLIENT_ID_SEQUENCE = 0  # noqa: SLF001  # as above
    try:
        yield
    finally:
        producer._PRODUCER_CLIENT_ID_SEQUENCE = original  # noqa: SLF001  # as above


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Suppresses the warnings of clients that were killed and therefore not closed."""
    kinds: tuple[Any, ...] = (
        import_module("aiokafka").AIOKafkaConsumer,
        import_module("aiokafka").AIOKafkaProducer,
        import_module("aiokafka.conn").AIOKafkaConnection,
    )
    originals = [(kind, kind.__init__) for kind in kinds]
    made: weakref.WeakSet[Any] = weakref.WeakSet()

    def noting(original: Any) -> Any:
        def init(self: Any, *given: Any, **named: Any) -> None:
            made.add(self)
            original(self, *given, **named)

        return init

    for kind, original in originals:
        kind.__init__ = noting(original)
    try:
        yield
    finally:
        for kind, original in originals:
            kind.__init__ = original
        for client in made:
            client._closed = True  # noqa: SLF001  # checked by __del__
            client._reader = None  # noqa: SLF001  # checked by __del__
