"""The topic to which a query publishes exactly once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SLOTS_MAX_BY_DEFAULT: Final = 16
TRANSACTION_TIMEOUT_MS: Final = 300_000
SOURCE_COLUMNS: Final = ("source_topic", "source_partition", "source_offset")


class CannotPublish(Exception):
    """Raised if a batch cannot be published; the message names the cause and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTarget:
    """Target of rows with `key` and `value`, and optional `headers`, `partition`, `timestamp`.

    A batch is divided into slots; each slot is published in one transaction. The slot of a row must
    be the same when the batch is recomputed. By default the source partition determines the slot if
    the frame has `source_topic`, `source_partition` and `source_offset`, otherwise the key.
    """

    bootstrap: str
    topic: str
    name: str = ""
    """Distinguishes two outputs of one query to the same topic."""
    query: str | None = None
    """Identifies the batches; by default the id of the streaming query in its checkpoint."""
    slots: int | None = None
    """Number of transactions per batch; at most the partition count of the topic."""
    slot_by: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    """Client properties with the names of Java or librdkafka, such as `security.protocol`."""
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS

    def slots_of(self, partitions: int) -> int:
        return max(1, min(self.slots or SLOTS_MAX_BY_DEFAULT, partitions))
