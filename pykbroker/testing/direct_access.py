"""`produce`, `records` and `offsets` of brokers in tests, which need no client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from pykbroker.testing import inspection, seeding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.broker import Broker
    from pykbroker.testing.rows import Key, Record, Row, Value


class DirectAccess(ABC):
    @property
    @abstractmethod
    def _running(self) -> Broker:
        """The running broker. Raises an exception if there is none."""

    def produce(
        self,
        topic: str,
        rows: Iterable[Value | Row],
        *,
        key: Key | None = None,
        partition: int | None = None,
    ) -> int:
        """Appends rows like a producer and returns their number. Raises NotWritten if rejected."""
        return seeding.produce(self._running, topic, rows, key=key, partition=partition)

    def records(
        self, topic: str, *, partition: int | None = None, committed_only: bool = True
    ) -> list[Record]:
        """All records that a consumer can read, by partition and offset."""
        return inspection.records(
            self._running, topic, partition=partition, committed_only=committed_only
        )

    def offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """The committed offsets of a group, by topic and partition."""
        return inspection.offsets(self._running, group_id)
