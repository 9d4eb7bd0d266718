"""Scenarios with deleted records, a recreated topic, or a broker that stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import TopicPartition

from tests.end_to_end.spark.spark_fixture import (
    Batches,
    phrase_in,
    settle,
    wait_until,
    when_possible,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.end_to_end.spark.spark_fixture import SparkFixture

MAY_BE_LOST = "Some data may have been lost"
WENT_BACK = "offset was changed from 170 to 9"


def deleted_unread_records(fixture: SparkFixture) -> object:
    """Of 50 records after the checkpoint, the first 40 are deleted."""
    return {
        f"failOnDataLoss={strict}": after_deletion(fixture, strict) for strict in ("true", "false")
    }


def after_deletion(fixture: SparkFixture, strict: str) -> object:
    topic, checkpoint = fixture.topic(), fixture.name("kept")
    fixture.write_numbers(topic, 100)
    fixture.drain(fixture.stream(topic), checkpoint)
    fixture.write_numbers(topic, 50)
    settle(fixture.admin.delete_records([TopicPartition(topic, 0, 140)]))
    return rows_or_error(fixture, topic, strict, checkpoint, MAY_BE_LOST)


def a_recreated_topic(fixture: SparkFixture) -> object:
    """The checkpoint is at offset 170; the recreated topic has 9 records."""
    return {f"failOnDataLoss={strict}": recreated(fixture, strict) for strict in ("true", "false")}


def recreated(fixture: SparkFixture, strict: str) -> object:
    topic, checkpoint = fixture.topic(), fixture.name("kept")
    fixture.write_numbers(topic, 170)
    fixture.drain(fixture.stream(topic), checkpoint)
    fixture.delete(topic)
    when_possible(lambda: fixture.create(topic))
    fixture.write_numbers(topic, 9)
    return rows_or_error(fixture, topic, strict, checkpoint, WENT_BACK)


def rows_or_error(
    fixture: SparkFixture, topic: str, strict: str, checkpoint: str, expected_error: str
) -> object:
    try:
        return fixture.drain(fixture.stream(topic, failOnDataLoss=strict), checkpoint).summary()
    except Exception as error:  # noqa: BLE001  # the error is the result
        return phrase_in(error, expected_error)


def a_restart(fixture: SparkFixture) -> object:
    return streaming_while(fixture, fixture.broker.stop)


def a_kill(fixture: SparkFixture) -> object:
    return streaming_while(fixture, fixture.broker.kill)


def streaming_while(fixture: SparkFixture, end: Callable[[], object]) -> object:
    topic, batches = fixture.topic(4), Batches()
    fixture.write_numbers(topic, 500, partitions=4)
    with fixture.running(fixture.stream(topic), batches) as query:
        wait_until(lambda: len(batches.all) >= 500, query)
        end()
        fixture.broker.start()
        fixture.write_numbers(topic, 500, partitions=4)
        wait_until(lambda: len(batches.all) >= 1000, query)
        is_active = query.isActive
    return {**batches.summary(), "the query is active": is_active}
