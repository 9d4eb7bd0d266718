"""Slots of a batch are published exactly once, without Spark."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import pytest
from confluent_kafka import KafkaException

from pykbroker import Broker
from pykbroker.pipeline import exactly_once_slots
from pykbroker.pipeline.exactly_once_output import TopicOutput
from pykbroker.pipeline.exactly_once_slot_count import CHANGING, decide_slot_count, write
from pykbroker.pipeline.exactly_once_slots import Outgoing, SlotOfBatch, publish_slot
from pykbroker.pipeline.topic_target import CannotPublish, TopicTarget


@pytest.fixture
def output(kafka: Broker) -> TopicOutput:
    kafka.create_topics({"out": 3})
    return TopicOutput(target=TopicTarget(bootstrap=kafka.bootstrap, topic="out"), query="q")


def slot_of(output: TopicOutput, *, batch: int = 0, slot: int = 0, slots: int = 3) -> SlotOfBatch:
    return SlotOfBatch(output=output, batch_id=batch, slot=slot, slots=slots)


def records(*values: str) -> list[Outgoing]:
    return [Outgoing(key=None, value=value.encode(), partition=0) for value in values]


def committed(kafka: Broker) -> list[str | None]:
    return [record.text for record in kafka.records("out")]


def test_record_is_published_unchanged(kafka: Broker, output: TopicOutput) -> None:
    sent = Outgoing(
        key=b"k", value=None, headers=[("h", b"1"), ("n", None)], partition=2, timestamp_ms=5
    )
    assert publish_slot(slot_of(output), [sent]) == 1
    (record,) = kafka.records("out")
    assert (record.key, record.value, record.partition, record.timestamp_ms) == (b"k", None, 2, 5)
    assert list(record.headers) == [("h", b"1"), ("n", None)]


def test_broker_limits_the_size_of_records(output: TopicOutput) -> None:
    [large, larger] = (Outgoing(key=None, value=bytes(size)) for size in (1_040_000, 1_060_000))
    assert publish_slot(slot_of(output), [large]) == 1
    with pytest.raises(KafkaException, match="Message size too large"):
        publish_slot(slot_of(output, batch=1), [larger])


def test_repeated_batch_publishes_only_missing_slots(kafka: Broker, output: TopicOutput) -> None:
    assert publish_slot(slot_of(output, slot=1), records("a")) == 1
    assert publish_slot(slot_of(output, slot=1), records("a")) == 0
    assert publish_slot(slot_of(output, slot=2), records("b")) == 1
    assert publish_slot(slot_of(output, slot=1, batch=1), records("c")) == 1
    assert committed(kafka) == ["a", "b", "c"]


def test_batch_older_than_the_output_is_rejected(kafka: Broker, output: TopicOutput) -> None:
    publish_slot(slot_of(output, batch=7), records("a"))
    with pytest.raises(CannotPublish, match=r"contains batch 7 .* continues with batch 3"):
        publish_slot(slot_of(output, batch=3), records("b"))
    assert committed(kafka) == ["a"]


def test_failed_slot_is_aborted_and_can_be_retried(kafka: Broker, output: TopicOutput) -> None:
    def failing() -> Iterator[Outgoing]:
        yield from records("a", "b")
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError, match="the source is gone"):
        publish_slot(slot_of(output), failing())
    assert committed(kafka) == []
    assert publish_slot(slot_of(output), records("a", "b")) == 2
    assert committed(kafka) == ["a", "b"]


@pytest.mark.parametrize("fails", [False, True], ids=["in a request", "in the abort"])
def test_fenced_attempt_waits_for_the_other_and_succeeds(
    kafka: Broker, output: TopicOutput, *, fails: bool
) -> None:
    begun, taken = Event(), Event()

    def slowly() -> Iterator[Outgoing]:
        yield from records("a")
        begun.set()
        assert taken.wait(60)
        if fails:
            raise RuntimeError("the source is gone")
        yield from records("b")

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(publish_slot, slot_of(output), slowly())
        assert begun.wait(60)
        assert publish_slot(slot_of(output), records("a", "b")) == 2
        taken.set()
        assert first.result(60) == 0
    assert committed(kafka) == ["a", "b"]


def test_fenced_attempt_fails_if_the_other_does_not_succeed(
    kafka: Broker, output: TopicOutput, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exactly_once_slots, "SUCCESSOR_TIMEOUT_SECONDS", 0)

    def losing() -> Iterator[Outgoing]:
        yield from records("a")
        output.transactional_producer(0)

    with pytest.raises(Exception, match=r"FENCED|fenced"):
        publish_slot(slot_of(output), losing())
    assert committed(kafka) == []


def test_slot_count_is_limited_by_partitions(kafka: Broker) -> None:
    kafka.create_topics({"out": 3})
    for slots, expected in ((None, 3), (2, 2), (9, 3), (1, 1)):
        target = TopicTarget(bootstrap=kafka.bootstrap, topic="out", slots=slots)
        assert decide_slot_count(TopicOutput(target=target, query="q"), 0) == expected


def test_partly_published_batch_keeps_its_slot_count(kafka: Broker, output: TopicOutput) -> None:
    two = TopicOutput(
        target=TopicTarget(bootstrap=kafka.bootstrap, topic="out", slots=2), query="q"
    )
    assert decide_slot_count(two, 4) == 2
    publish_slot(slot_of(two, batch=4, slot=1, slots=2), records("a"))

    assert decide_slot_count(output, 4) == 2  # three are configured now
    publish_slot(slot_of(output, batch=4, slot=0, slots=2), records("b"))
    publish_slot(slot_of(output, batch=4, slot=1, slots=2), records("a"))
    assert decide_slot_count(output, 5) == 3
    assert committed(kafka) == ["a", "b"]


def test_run_with_the_old_slot_count_publishes_nothing(kafka: Broker, output: TopicOutput) -> None:
    two = TopicOutput(
        target=TopicTarget(bootstrap=kafka.bootstrap, topic="out", slots=2), query="q"
    )
    decide_slot_count(two, 0)
    changed = False

    def slot_count_changes() -> Iterator[Outgoing]:
        nonlocal changed
        yield from records("a")
        assert decide_slot_count(output, 0) == 3
        changed = True

    with pytest.raises(CannotPublish, match="number of slots is 2 in this run and 3 in another"):
        publish_slot(slot_of(two, slots=2), slot_count_changes())
    assert changed
    with pytest.raises(CannotPublish, match="number of slots is 2 in this run and 3 in another"):
        publish_slot(slot_of(two, slots=2), records("a"))
    assert committed(kafka) == []


def test_interrupted_change_of_the_slot_count_is_repeated(output: TopicOutput) -> None:
    decide_slot_count(output, 0)
    with output.member(output.slots_group) as consumer:
        write(output.slot_count_producer(), consumer, "out", 1, CHANGING)
    with pytest.raises(CannotPublish, match="is 3 in this run and changing in another"):
        publish_slot(slot_of(output, batch=1), records("a"))
    assert decide_slot_count(output, 1) == 3
    assert publish_slot(slot_of(output, batch=1), records("a")) == 1


def test_earlier_change_of_the_slot_count_is_fenced(output: TopicOutput) -> None:
    with output.member(output.slots_group) as consumer:
        earlier = output.slot_count_producer()
        write(earlier, consumer, "out", 0, CHANGING)
        assert decide_slot_count(output, 0) == 3
        with pytest.raises(CannotPublish, match="another run of this query changes the number"):
            write(earlier, consumer, "out", 0, "2")
    assert decide_slot_count(output, 0) == 3


def test_slot_count_is_not_changed_for_a_published_batch(output: TopicOutput) -> None:
    one = TopicOutput(target=replace(output.target, slots=1), query="q")
    for batch in range(2):
        assert decide_slot_count(one, batch) == 1
        publish_slot(slot_of(one, batch=batch, slots=1), records("a"))
    with pytest.raises(CannotPublish, match=r"contains batch 1 .* continues with batch 0"):
        decide_slot_count(output, 0)


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("OffsetFetch", "NOT_COORDINATOR"),
        ("OffsetFetch", "UNSTABLE_OFFSET_COMMIT"),
        ("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("TxnOffsetCommit", "NOT_COORDINATOR"),
        ("EndTxn", "COORDINATOR_NOT_AVAILABLE"),
    ],
)
def test_retriable_coordinator_errors_are_retried(
    kafka: Broker, output: TopicOutput, api: str, error: str
) -> None:
    kafka.faults.refuse(api, error, times=2)
    decide_slot_count(output, 0)
    assert publish_slot(slot_of(output), records("a")) == 1
    assert publish_slot(slot_of(output), records("a")) == 0
    assert committed(kafka) == ["a"]
