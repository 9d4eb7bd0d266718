"""Records that hold together across batches: all of them count, or none.

We never write such spans, for a command's records are one batch; Apache Kafka does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.metadata.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pykbroker_protocol.message import Message


class UnfinishedSpan(Exception):
    """The log ends between the begin of a span and its end."""


def without_spans(records: Iterable[Message]) -> Iterator[Message]:
    """The records that count, in order; those of a span come when it ends."""
    pending: list[Message] | None = None
    for record in records:
        match record:
            case BeginTransactionRecord():
                pending = []
            case EndTransactionRecord():
                yield from pending or ()
                pending = None
            case AbortTransactionRecord():
                pending = None
            case _ if pending is not None:
                pending.append(record)
            case _:
                yield record
    if pending is not None:
        raise UnfinishedSpan("the metadata log ends inside a transaction")
