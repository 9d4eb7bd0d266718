"""The notification service: reads alerts and reports, writes each notification exactly once.

A batch of records, the notifications that follow from it and the offsets behind it are one
transaction: after a crash at any moment either all of it has happened or nothing, and the service
goes on from its committed offsets. It keeps no file: what has been told is read back from the topic
of notifications. Services with different names share the trucks among them.
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
from .notification_rules import Notification, Told
from .topics import ALERTS, NOTIFICATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Event

GROUP = "notification-service"
RECORDS_AT_ONCE = 1000
POLL_SECONDS = 0.3
TRANSACTION_SECONDS = 30
SESSION_SECONDS = 10
"""A service that is not heard of for so long has lost its trucks to the others."""
PAUSE_SECONDS = 1

log = logging.getLogger("notifications")


def run(bootstrap: str, name: str, stopped: Event) -> None:
    """Works until it is told to stop; whatever fails is begun again from what is committed."""
    while not stopped.is_set():
        try:
            with Service(bootstrap, name).working() as service:
                while not stopped.is_set():
                    service.work_once()
        except KafkaException as refused:
            if refused.args[0].fatal():  # another service has our name, and our trucks
                raise
            log.warning("begins again: %s", refused.args[0].str())
            stopped.wait(PAUSE_SECONDS)


class Service:
    """One member of the group, from its joining to its leaving or its first failure."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._common = {
            "bootstrap.servers": bootstrap,
            "client.id": name,
            # librdkafka 2.16 begins anew when all brokers are gone for a moment, and then never
            # finds the coordinator of its open transaction again
            "metadata.recovery.strategy": "none",
        }
        self._told = Told()
        self._producer = Producer({**self._common, "transactional.id": f"{GROUP}-{name}"})
        self._consumer = Consumer(
            {
                **self._common,
                "group.id": GROUP,
                "session.timeout.ms": SESSION_SECONDS * 1000,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                # topics that are cut alike: a truck's alerts come to whom its reports come
                "partition.assignment.strategy": "range",
            }
        )

    @contextmanager
    def working(self) -> Iterator[Service]:
        try:
            # whoever had this name before is shut out, and its open transaction aborted
            self._producer.init_transactions(TRANSACTION_SECONDS)
            self._consumer.subscribe([reports.TRUCKS, ALERTS], on_assign=self._remember)
            yield self
        finally:
            self._consumer.close()
            self._producer.close()

    def work_once(self) -> None:
        """One batch, one transaction."""
        found = self._consumer.consume(RECORDS_AT_ONCE, timeout=POLL_SECONDS)
        records = [it for it in found if it.error() is None]
        if not records:
            return
        self._producer.begin_transaction()
        try:
            told = self._tell(records)
            self._producer.send_offsets_to_transaction(
                self._consumer.position(self._consumer.assignment()),
                self._consumer.consumer_group_metadata(),
                TRANSACTION_SECONDS,
            )
            self._producer.commit_transaction(TRANSACTION_SECONDS)
        except KafkaException:
            self._producer.abort_transaction(TRANSACTION_SECONDS)
            raise
        for notification in told:
            log.info("%s", notification.text)

    def _tell(self, records: list[Message]) -> list[Notification]:
        told = [notification for it in records for notification in self._news_of(it)]
        for notification in told:
            key = " ".join(notification.matter)
            self._producer.produce(NOTIFICATIONS, notification.encode(), key)
        return told

    def _news_of(self, record: Message) -> list[Notification]:
        """What cannot be read is no news: the pipeline puts it aside for others to look at."""
        try:
            if record.topic() == ALERTS:
                return self._told.news_of_alert(alerts.decode(record.value()))
            return self._told.news_of_report(reports.decode(record.value()))
        except (ValueError, KeyError, TypeError):
            return []

    def _remember(self, _: Consumer, __: list[TopicPartition]) -> None:
        """Other trucks are ours now: learns what has been told of them."""
        self._told = Told(notifications_so_far(self._common))


def notifications_so_far(common: dict[str, str]) -> Iterator[Notification]:
    """All that was committed, the last of each matter at least."""
    reader = Consumer(
        {
            **common,
            "group.id": f"{GROUP}-memory",  # demanded by the client; nothing is committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    try:
        partitions = reader.list_topics(NOTIFICATIONS, TRANSACTION_SECONDS).topics[NOTIFICATIONS]
        places = [TopicPartition(NOTIFICATIONS, it) for it in partitions.partitions]
        for place in places:
            place.offset = OFFSET_BEGINNING
        reader.assign(places)
        yield from read_to_the_end(reader, places)
    finally:
        reader.close()


def read_to_the_end(reader: Consumer, places: list[TopicPartition]) -> Iterator[Notification]:
    """The end is behind transactions that are still open: what they tell is waited for."""
    ends = {it.partition: reader.get_watermark_offsets(it, TRANSACTION_SECONDS)[1] for it in places}
    deadline = time.monotonic() + 3 * TRANSACTION_SECONDS
    while any(
        it.offset < ends[it.partition] for it in reader.position(places) if ends[it.partition]
    ):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{NOTIFICATIONS} cannot be read to its end")
        record = reader.poll(POLL_SECONDS)
        if record is not None and record.error() is None:
            with suppress(ValueError, KeyError, TypeError):  # that has told nobody anything
                yield notification_rules.decode(record.value())
