"""What a broker says of the offsets that an archive lacks: whether there was ever a record."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Final, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from pykbroker.pipeline.archive.batch_record import OffsetRange

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ANSWER_TIMEOUT_SECONDS: Final = 30.0
SILENCE_MAX_S: Final = 60.0
POLL_S: Final = 1.0
NEAR_OFFSETS: Final = 5000
"""What lies between two gaps is read rather than leapt over, if it is no more than this."""


class BrokerUnavailable(Exception):
    """The broker did not answer, or not to the end."""


class Topics(Protocol):
    """What is asked of a cluster."""

    def partitions(self, topic: str) -> list[int]:
        """Empty if there is no such topic."""

    def bounds(self, topic: str, partition: int) -> OffsetRange:
        """The first offset that is still there, and the high watermark."""

    def first_records(
        self, topic: str, partition: int, spans: Sequence[OffsetRange]
    ) -> list[int | None]:
        """For each of these ascending ranges, the offset of the first committed record in it."""


class Cluster:
    """A real one; `closing` ends it."""

    def __init__(self, bootstrap: str, settings: Mapping[str, str]) -> None:
        client = {
            **settings,
            "bootstrap.servers": bootstrap,
            "group.id": "pykbroker.verify",  # nothing is ever committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
        self._consumer = Consumer({**client, "isolation.level": "read_committed"})
        # For who reads committed records alone, a topic ends where a transaction is open.
        self._uncommitted = Consumer({**client, "isolation.level": "read_uncommitted"})

    def close(self) -> None:
        self._consumer.close()
        self._uncommitted.close()

    def partitions(self, topic: str) -> list[int]:
        try:
            found = self._consumer.list_topics(topic, ANSWER_TIMEOUT_SECONDS).topics[topic]
        except KafkaException as failure:
            raise BrokerUnavailable(failure.args[0].str()) from failure
        return sorted(found.partitions)

    def bounds(self, topic: str, partition: int) -> OffsetRange:
        where = TopicPartition(topic, partition)
        try:
            return OffsetRange(
                *self._uncommitted.get_watermark_offsets(where, ANSWER_TIMEOUT_SECONDS)
            )
        except KafkaException as failure:
            raise BrokerUnavailable(failure.args[0].str()) from failure

    def first_records(
        self, topic: str, partition: int, spans: Sequence[OffsetRange]
    ) -> list[int | None]:
        """Markers, and what was taken back, a consumer does not see."""
        found: list[int | None] = []
        position = None
        while len(found) < len(spans):
            span = spans[len(found)]
            if position is None or span.first - position > NEAR_OFFSETS:
                self._consumer.assign([TopicPartition(topic, partition, span.first)])
            offset = self._next_offset()
            if offset is None:
                break
            while len(found) < len(spans) and spans[len(found)].last < offset:
                found.append(None)
            if len(found) < len(spans) and spans[len(found)].first <= offset:
                found.append(offset)
            position = offset + 1
        self._consumer.unassign()
        return found + [None] * (len(spans) - len(found))

    def _next_offset(self) -> int | None:
        """Of the next committed record; None at the end."""
        deadline = time.monotonic() + SILENCE_MAX_S
        while time.monotonic() < deadline:
            message = self._consumer.poll(POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                return message.offset()
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # its public name
                return None
            if error.fatal() or error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001  # likewise
                raise BrokerUnavailable(error.str())
        raise BrokerUnavailable(f"no record and no end came within {SILENCE_MAX_S:.0f} s")


def cluster(bootstrap: str, settings: Mapping[str, str]) -> closing[Cluster]:
    return closing(Cluster(bootstrap, settings))
