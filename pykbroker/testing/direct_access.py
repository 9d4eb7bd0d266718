"""Topics filled and looked into without a client: what every broker of a test offers."""

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
        """The broker itself; asking for it is an error while there is none."""

    def produce(
        self,
        topic: str,
        rows: Iterable[Value | Row],
        *,
        key: Key | None = None,
        partition: int | None = None,
    ) -> int:
        """Writes rows as a producer would have; returns how many there were."""
        return seeding.produce(self._running, topic, rows, key=key, partition=partition)

    def records(
        self, topic: str, *, partition: int | None = None, committed_only: bool = True
    ) -> list[Record]:
        """All a topic holds, partition by partition, as a consumer would get it."""
        return inspection.records(
            self._running, topic, partition=partition, committed_only=committed_only
        )

    def offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """What a group has committed, by topic and partition."""
        return inspection.offsets(self._running, group_id)
