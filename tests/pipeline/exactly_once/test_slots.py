"""A slot's records and the mark of its batch, at a broker, without Spark."""

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


def test_a_record_comes_as_it_was_sent(kafka: Broker, output: TopicOutput) -> None:
    sent = Outgoing(
        key=b"k", value=None, headers=[("h", b"1"), ("n", None)], partition=2, timestamp_ms=5
    )
    assert publish_slot(slot_of(output), [sent]) == 1
    (record,) = kafka.records("out")
    assert (record.key, record.value, record.partition, record.timestamp_ms) == (b"k", None, 2, 5)
    assert list(record.headers) == [("h", b"1"), ("n", None)]


def test_a_record_is_as_large_as_the_broker_allows(output: TopicOutput) -> None:
    [large, larger] = (Outgoing(key=None, value=bytes(size)) for size in (1_040_000, 1_060_000))
    assert publish_slot(slot_of(output), [large]) == 1
    with pytest.raises(KafkaException, match="Message size too large"):
        publish_slot(slot_of(output, batch=1), [larger])


def test_a_batch_that_comes_again_is_recognised_slot_by_slot(
    kafka: Broker, output: TopicOutput
) -> None:
    assert publish_slot(slot_of(output, slot=1), records("a")) == 1
    assert publish_slot(slot_of(output, slot=1), records("a")) == 0
    assert publish_slot(slot_of(output, slot=2), records("b")) == 1
    assert publish_slot(slot_of(output, slot=1, batch=1), records("c")) == 1
    assert committed(kafka) == ["a", "b", "c"]


def test_a_batch_older_than_what_was_published_is_refused(
    kafka: Broker, output: TopicOutput
) -> None:
    publish_slot(slot_of(output, batch=7), records("a"))
    with pytest.raises(CannotPublish, match="has batch 7 of this query, and now comes batch 3"):
        publish_slot(slot_of(output, batch=3), records("b"))
    assert committed(kafka) == ["a"]


def test_what_fails_in_the_middle_leaves_nothing_and_may_be_tried_again(
    kafka: Broker, output: TopicOutput
) -> None:
    def failing() -> Iterator[Outgoing]:
        yield from records("a", "b")
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError, match="the source is gone"):
        publish_slot(slot_of(output), failing())
    assert committed(kafka) == []
    assert publish_slot(slot_of(output), records("a", "b")) == 2
    assert committed(kafka) == ["a", "b"]


def test_of_two_attempts_at_once_the_one_that_lost_its_slot_waits_and_succeeds(
    kafka: Broker, output: TopicOutput
) -> None:
    begun, taken = Event(), Event()

    def slowly() -> Iterator[Outgoing]:
        yield from records("a")
        begun.set()
        assert taken.wait(60)
        yield from records("b")

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(publish_slot, slot_of(output), slowly())
        assert begun.wait(60)
        assert publish_slot(slot_of(output), records("a", "b")) == 2
        taken.set()
        assert first.result(60) == 0
    assert committed(kafka) == ["a", "b"]


def test_an_attempt_whose_successor_never_succeeds_fails(
    kafka: Broker, output: TopicOutput, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exactly_once_slots, "SUCCESSOR_TIMEOUT_SECONDS", 0)

    def losing() -> Iterator[Outgoing]:
        yield from records("a")
        output.transactional_producer(0)

    with pytest.raises(Exception, match=r"FENCED|fenced"):
        publish_slot(slot_of(output), losing())
    assert committed(kafka) == []


def test_as_many_slots_as_wanted_but_no_more_than_partitions(kafka: Broker) -> None:
    kafka.create_topics({"out": 3})
    for wanted, got in ((None, 3), (2, 2), (9, 3), (1, 1)):
        target = TopicTarget(bootstrap=kafka.bootstrap, topic="out", slots=wanted)
        assert decide_slot_count(TopicOutput(target=target, query="q"), 0) == got


def test_a_batch_that_began_with_two_slots_ends_with_two(
    kafka: Broker, output: TopicOutput
) -> None:
    two = TopicOutput(
        target=TopicTarget(bootstrap=kafka.bootstrap, topic="out", slots=2), query="q"
    )
    assert decide_slot_count(two, 4) == 2
    publish_slot(slot_of(two, batch=4, slot=1, slots=2), records("a"))

    assert decide_slot_count(output, 4) == 2  # three are wanted now
    publish_slot(slot_of(output, batch=4, slot=0, slots=2), records("b"))
    publish_slot(slot_of(output, batch=4, slot=1, slots=2), records("a"))
    assert decide_slot_count(output, 5) == 3
    assert committed(kafka) == ["a", "b"]


def test_a_run_that_lives_on_after_the_slots_were_changed_publishes_nothing(
    kafka: Broker, output: TopicOutput
) -> None:
    two = TopicOutput(
        target=TopicTarget(bootstrap=kafka.bootstrap, topic="out", slots=2), query="q"
    )
    decide_slot_count(two, 0)
    settled = False

    def overtaken() -> Iterator[Outgoing]:
        nonlocal settled
        yield from records("a")
        assert decide_slot_count(output, 0) == 3
        settled = True

    with pytest.raises(CannotPublish, match="among 3 slots, and this one among 2"):
        publish_slot(slot_of(two, slots=2), overtaken())
    assert settled
    with pytest.raises(CannotPublish, match="among 3 slots, and this one among 2"):
        publish_slot(slot_of(two, slots=2), records("a"))
    assert committed(kafka) == []


def test_a_change_of_slots_that_was_broken_off_is_begun_anew(output: TopicOutput) -> None:
    decide_slot_count(output, 0)
    with output.member(output.slots_group) as sharing:
        write(output.slot_count_producer(), sharing, "out", 1, CHANGING)
    with pytest.raises(CannotPublish, match="among changing slots"):
        publish_slot(slot_of(output, batch=1), records("a"))
    assert decide_slot_count(output, 1) == 3
    assert publish_slot(slot_of(output, batch=1), records("a")) == 1


def test_whoever_settles_last_is_heard_alone(output: TopicOutput) -> None:
    with output.member(output.slots_group) as sharing:
        earlier = output.slot_count_producer()
        write(earlier, sharing, "out", 0, CHANGING)
        assert decide_slot_count(output, 0) == 3
        with pytest.raises(CannotPublish, match="another run of this query has begun to settle"):
            write(earlier, sharing, "out", 0, "2")
    assert decide_slot_count(output, 0) == 3


def test_slots_are_not_settled_anew_for_a_batch_that_is_done(output: TopicOutput) -> None:
    one = TopicOutput(target=replace(output.target, slots=1), query="q")
    for batch in range(2):
        assert decide_slot_count(one, batch) == 1
        publish_slot(slot_of(one, batch=batch, slots=1), records("a"))
    with pytest.raises(CannotPublish, match="has batch 1 of this query, and now comes batch 0"):
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
def test_a_coordinator_that_cannot_answer_yet_is_asked_again(
    kafka: Broker, output: TopicOutput, api: str, error: str
) -> None:
    kafka.faults.refuse(api, error, times=2)
    decide_slot_count(output, 0)
    assert publish_slot(slot_of(output), records("a")) == 1
    assert publish_slot(slot_of(output), records("a")) == 0
    assert committed(kafka) == ["a"]
