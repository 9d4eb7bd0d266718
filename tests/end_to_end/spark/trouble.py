"""Scenarios in which something is lost, made anew, or down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import TopicPartition

from tests.end_to_end.spark.stage import Batches, phrase_in, settle, wait_until, when_possible

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.end_to_end.spark.stage import Stage

MAY_BE_LOST = "Some data may have been lost"
WENT_BACK = "offset was changed from 170 to 9"


def records_deleted_before_they_were_read(stage: Stage) -> object:
    """100 records were read, 50 came, and the first 40 of these are deleted."""
    return {
        f"failOnDataLoss={strict}": after_deletion(stage, strict) for strict in ("true", "false")
    }


def after_deletion(stage: Stage, strict: str) -> object:
    topic, checkpoint = stage.topic(), stage.name("kept")
    stage.write_numbers(topic, 100)
    stage.drain(stage.stream(topic), checkpoint)
    stage.write_numbers(topic, 50)
    settle(stage.admin.delete_records([TopicPartition(topic, 0, 140)]))
    return rows_or_complaint(stage, topic, strict, checkpoint, MAY_BE_LOST)


def a_topic_made_anew(stage: Stage) -> object:
    """170 records were read; the topic of that name now has 9."""
    return {
        f"failOnDataLoss={strict}": after_renewal(stage, strict) for strict in ("true", "false")
    }


def after_renewal(stage: Stage, strict: str) -> object:
    topic, checkpoint = stage.topic(), stage.name("kept")
    stage.write_numbers(topic, 170)
    stage.drain(stage.stream(topic), checkpoint)
    stage.delete(topic)
    when_possible(lambda: stage.create(topic))
    stage.write_numbers(topic, 9)
    return rows_or_complaint(stage, topic, strict, checkpoint, WENT_BACK)


def rows_or_complaint(
    stage: Stage, topic: str, strict: str, checkpoint: str, complaint: str
) -> object:
    try:
        return stage.drain(stage.stream(topic, failOnDataLoss=strict), checkpoint).summary()
    except Exception as error:  # noqa: BLE001  # whatever Spark makes of it is the outcome
        return phrase_in(error, complaint)


def a_restart_in_the_middle(stage: Stage) -> object:
    return streaming_while(stage, stage.broker.stop)


def a_kill_in_the_middle(stage: Stage) -> object:
    return streaming_while(stage, stage.broker.kill)


def streaming_while(stage: Stage, end: Callable[[], object]) -> object:
    topic, batches = stage.topic(4), Batches()
    stage.write_numbers(topic, 500, partitions=4)
    with stage.running(stage.stream(topic), batches) as query:
        wait_until(lambda: len(batches.all) >= 500, query)
        end()
        stage.broker.start()
        stage.write_numbers(topic, 500, partitions=4)
        wait_until(lambda: len(batches.all) >= 1000, query)
        is_active = query.isActive
    return {**batches.summary(), "the query is active": is_active}
