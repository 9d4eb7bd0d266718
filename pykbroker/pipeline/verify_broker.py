"""Reads from a broker which offsets of a topic have committed records."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Final, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from pykbroker.pipeline.archive.batch_record import OffsetRange

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RESPONSE_TIMEOUT_SECONDS: Final = 30.0
POLL_TIMEOUT_SECONDS: Final = 60.0
POLL_S: Final = 1.0
SKIP_OFFSETS_MIN: Final = 5000
"""A shorter distance between two gaps is read; a longer one is skipped with a seek."""


class BrokerUnavailable(Exception):
    """Raised if the broker does not respond or a topic cannot be read to its end."""


class Topics(Protocol):
    """Interface to the topics of a cluster."""

    def partitions(self, topic: str) -> list[int]:
        """Returns an empty list if the topic does not exist."""

    def bounds(self, topic: str, partition: int) -> OffsetRange:
        """Returns log start offset and high watermark."""

    def first_records(
        self, topic: str, partition: int, spans: Sequence[OffsetRange]
    ) -> list[int | None]:
        """Returns the offset of the first committed record in each of these ascending ranges."""


class Cluster:
    """Topics of a running cluster; the caller closes it."""

    def __init__(self, bootstrap: str, settings: Mapping[str, str]) -> None:
        client = {
            **settings,
            "bootstrap.servers": bootstrap,
            "group.id": "pykbroker.verify",  # the consumer never commits
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
        self._consumer = Consumer({**client, "isolation.level": "read_committed"})
        # With read_committed the topic ends at an open transaction.
        self._uncommitted = Consumer({**client, "isolation.level": "read_uncommitted"})

    def close(self) -> None:
        self._consumer.close()
        self._uncommitted.close()

    def partitions(self, topic: str) -> list[int]:
        try:
            found = self._consumer.list_topics(topic, RESPONSE_TIMEOUT_SECONDS).topics[topic]
        except KafkaException as failure:
            raise BrokerUnavailable(failure.args[0].str()) from failure
        return sorted(found.partitions)

    def bounds(self, topic: str, partition: int) -> OffsetRange:
        where = TopicPartition(topic, partition)
        try:
            return OffsetRange(
                *self._uncommitted.get_watermark_offsets(where, RESPONSE_TIMEOUT_SECONDS)
            )
        except KafkaException as failure:
            raise BrokerUnavailable(failure.args[0].str()) from failure

    def first_records(
        self, topic: str, partition: int, spans: Sequence[OffsetRange]
    ) -> list[int | None]:
        """Reads with read_committed, which skips markers and aborted records."""
        found: list[int | None] = []
        position = None
        while len(found) < len(spans):
            span = spans[len(found)]
            if position is None or span.first - position > SKIP_OFFSETS_MIN:
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
        """Returns the offset of the next committed record, or None at the end."""
        deadline = time.monotonic() + POLL_TIMEOUT_SECONDS
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
        raise BrokerUnavailable(
            f"no record and no end of the partition within {POLL_TIMEOUT_SECONDS:.0f} s"
        )


def cluster(bootstrap: str, settings: Mapping[str, str]) -> closing[Cluster]:
    return closing(Cluster(bootstrap, settings))
