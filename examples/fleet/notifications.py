"""The notification service: reads alerts and reports, writes each notification exactly once.

A transaction contains the notifications for a batch of records and commits the offsets of the
batch. After a crash the service continues from its committed offsets. It stores no files: it reads
earlier notifications from their topic. Services with different names share the trucks.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from . import alerts, notification_rules, reports
from .notification_rules import Notification, NotificationHistory
from .topics import ALERTS, NOTIFICATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Event

GROUP = "notification-service"
BATCH_RECORDS = 1000
POLL_SECONDS = 0.3
TRANSACTION_SECONDS = 30
SESSION_SECONDS = 10
"""Session timeout; afterwards the other services get the trucks of this one."""
RESTART_SECONDS = 1

log = logging.getLogger("notifications")


def run(bootstrap: str, name: str, stopped: Event) -> None:
    """Runs until `stopped` is set; restarts from the committed offsets after an error."""
    while not stopped.is_set():
        try:
            with Service(bootstrap, name).running() as service:
                while not stopped.is_set():
                    service.process_batch()
        except KafkaException as refused:
            if refused.args[0].fatal():  # fenced by another service with this name
                raise
            log.warning("restarting (%s)", refused.args[0].str())
            stopped.wait(RESTART_SECONDS)


class Service:
    """A member of the group until it leaves or fails."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._common = {
            "bootstrap.servers": bootstrap,
            "client.id": name,
            # Otherwise librdkafka 2.16 bootstraps again when all brokers are unreachable, and
            # does not find the coordinator of its open transaction afterwards.
            "metadata.recovery.strategy": "none",
        }
        self._history = NotificationHistory()
        self._producer = Producer({**self._common, "transactional.id": f"{GROUP}-{name}"})
        self._consumer = Consumer(
            {
                **self._common,
                "group.id": GROUP,
                "session.timeout.ms": SESSION_SECONDS * 1000,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                # Assigns partitions with the same number in both topics to the same member.
                "partition.assignment.strategy": "range",
            }
        )

    @contextmanager
    def running(self) -> Iterator[Service]:
        try:
            # Fences the previous service with this name and aborts its open transaction.
            self._producer.init_transactions(TRANSACTION_SECONDS)
            self._consumer.subscribe([reports.TRUCKS, ALERTS], on_assign=self._load_history)
            yield self
        finally:
            self._consumer.close()
            self._producer.close()

    def process_batch(self) -> None:
        """Processes a batch of records in one transaction."""
        found = self._consumer.consume(BATCH_RECORDS, timeout=POLL_SECONDS)
        records = [it for it in found if it.error() is None]
        if not records:
            return
        self._producer.begin_transaction()
        try:
            notifications = self._produce(records)
            self._producer.send_offsets_to_transaction(
                self._consumer.position(self._consumer.assignment()),
                self._consumer.consumer_group_metadata(),
                TRANSACTION_SECONDS,
            )
            self._producer.commit_transaction(TRANSACTION_SECONDS)
        except KafkaException:
            self._producer.abort_transaction(TRANSACTION_SECONDS)
            raise
        for notification in notifications:
            log.info("%s", notification.text)

    def _produce(self, records: list[Message]) -> list[Notification]:
        notifications = [found for it in records for found in self._notifications_for(it)]
        for notification in notifications:
            key = " ".join(notification.incident)
            self._producer.produce(NOTIFICATIONS, notification.encode(), key)
        return notifications

    def _notifications_for(self, record: Message) -> list[Notification]:
        """Skips broken records; the pipeline writes them to the dead-letter topic."""
        try:
            if record.topic() == ALERTS:
                return self._history.for_alert(alerts.decode(record.value()))
            return self._history.for_report(reports.decode(record.value()))
        except (ValueError, KeyError, TypeError):
            return []

    def _load_history(self, _: Consumer, __: list[TopicPartition]) -> None:
        """Reads earlier notifications after a change of the assignment."""
        self._history = NotificationHistory(notifications_so_far(self._common))


def notifications_so_far(common: dict[str, str]) -> Iterator[Notification]:
    """Yields committed notifications, at least the last one of each incident."""
    reader = Consumer(
        {
            **common,
            "group.id": f"{GROUP}-history",  # required by the client; never commits
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    try:
        partitions = reader.list_topics(NOTIFICATIONS, TRANSACTION_SECONDS).topics[NOTIFICATIONS]
        assignment = [
            TopicPartition(NOTIFICATIONS, it, OFFSET_BEGINNING) for it in partitions.partitions
        ]
        reader.assign(assignment)
        yield from read_to_the_end(reader, assignment)
    finally:
        reader.close()


def read_to_the_end(reader: Consumer, assignment: list[TopicPartition]) -> Iterator[Notification]:
    """Reads to the end offset, which is after open transactions; waits until they end."""
    ends = {
        it.partition: reader.get_watermark_offsets(it, TRANSACTION_SECONDS)[1] for it in assignment
    }
    deadline = time.monotonic() + 3 * TRANSACTION_SECONDS
    while any(
        it.offset < ends[it.partition] for it in reader.position(assignment) if ends[it.partition]
    ):
        if time.monotonic() > deadline:
            raise TimeoutError(f"timed out reading {NOTIFICATIONS} to its end")
        record = reader.poll(POLL_SECONDS)
        if record is not None and record.error() is None:
            with suppress(ValueError, KeyError, TypeError):
                yield notification_rules.decode(record.value())
