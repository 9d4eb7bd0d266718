"""The topic that a query publishes into, each record once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SLOTS_MAX_BY_DEFAULT: Final = 16
TRANSACTION_TIMEOUT_MS: Final = 300_000
SOURCE_COLUMNS: Final = ("source_topic", "source_partition", "source_offset")


class CannotPublish(Exception):
    """A batch cannot be published; the message says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTarget:
    """Where rows go: their `key` and `value`, with `headers`, `partition` and `timestamp` if any.

    A slot is a share of each batch, published in one transaction. Which slot a row belongs to must
    not change when the batch is computed again: by default its source partition decides, if the
    frame has `source_topic`, `source_partition` and `source_offset`, and otherwise its key.
    """

    bootstrap: str
    topic: str
    name: str = ""
    """Tells two outputs of one query into one topic apart."""
    query: str | None = None
    """Whose batches these are; None is the streaming query, whose id lies in its checkpoint."""
    slots: int | None = None
    """How many transactions share a batch: at most one for each partition of the topic."""
    slot_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    """Properties of a client, named as Java or librdkafka names them: `security.protocol`…"""
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS

    def slots_of(self, partitions: int) -> int:
        return max(1, min(self.slots or SLOTS_MAX_BY_DEFAULT, partitions))
