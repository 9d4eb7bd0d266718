"""The fast path of Produce has the effect of the general path."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.apis.answers import Waiting
from pykbroker.apis.fast_path import REQUESTS_MAX
from pykbroker.apis.repeated_produce import KEY_BYTES_MAX, is_plain
from pykbroker.controller_access import ConfigurationChange, NewTopic
from pykbroker.metadata.image import TOPIC_RESOURCE
from pykbroker.partitions.admission import COMPRESSED_ON_LOOP_BYTES_MAX
from pykbroker.settings import AlterOperation
from pykbroker_protocol.frame import write_request
from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.varint import uvarint
from tests.apis.two_brokers import NOW_MS, corrupted, two_brokers

if TYPE_CHECKING:
    from pathlib import Path

    from pykbroker.partitions.partition import Partition
    from tests.apis.two_brokers import TwoBrokers

NEWEST = 13
SIZES = (1, 10, 55, 56, 57, 58, 59, 60, 300, 16_000, 17_000)
"""Value sizes at which the length of the records needs one more byte."""


def batch(size: int = 10, **fields: Any) -> bytes:
    builder = BatchBuilder(**fields)
    builder.append(timestamp=NOW_MS, key=b"truck-17", value=b"x" * size)
    return builder.build()


def request(
    records: bytes | None,
    *,
    version: int = NEWEST,
    partition: int = 0,
    acks: int = 1,
    topic_id: bytes = ZERO_UUID,
    correlation_id: int = 0,
) -> bytes:
    data = TopicProduceData(
        name="trucks",
        topic_id=topic_id,
        partition_data=[PartitionProduceData(index=partition, records=records)],
    )
    message = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data])
    return b"".join(write_request(message, version, correlation_id, "fleet"))


def id_of(brokers: TwoBrokers) -> bytes:
    return brokers.fast.broker.image.topics["trucks"].id


@pytest.mark.parametrize("version", range(3, NEWEST + 1))
@pytest.mark.parametrize("acks", [1, -1])
async def test_both_paths_answer_records_of_any_size_equally(
    tmp_path: Path, version: int, acks: int
) -> None:
    async with two_brokers(tmp_path) as brokers:
        for number, size in enumerate(SIZES * 2):
            brokers.ask(
                request(
                    batch(size),
                    version=version,
                    partition=number % 3,
                    acks=acks,
                    topic_id=id_of(brokers),
                    correlation_id=number - 3,
                )
            )
        assert brokers.fast_count == (brokers.asked - 3 if version >= 5 else 0)


async def test_acks_0_has_no_response_on_both_paths(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as brokers:
        for _ in range(3):
            assert brokers.ask(request(batch(), acks=0, topic_id=id_of(brokers))) is None


@pytest.mark.parametrize(
    "settings",
    [
        {"message.timestamp.type": "LogAppendTime"},
        {"compression.type": "gzip"},
        {"cleanup.policy": "compact"},
        {"min.insync.replicas": "2"},
        {"max.message.bytes": "200"},
    ],
    ids=str,
)
async def test_both_paths_apply_the_topic_settings(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    async with two_brokers(tmp_path, configuration=settings) as brokers:
        for acks in (1, 1, -1, -1):
            for size in SIZES:
                if size < COMPRESSED_ON_LOOP_BYTES_MAX:  # larger ones: in a thread
                    brokers.ask(request(batch(size), acks=acks, topic_id=id_of(brokers)))


ODD: dict[str, bytes | None] = {
    "nothing": None,
    "no bytes": b"",
    "less than a header": batch()[:20],
    "less than a batch": batch()[:-1],
    "a byte behind it": batch() + b"\0",
    "two batches": batch() * 2,
    "a changed byte": batch()[:-2] + b"!" + batch()[-1:],
    "of a transaction": batch(
        producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True
    ),
    "a marker": batch(is_control=True),
    "an old format": batch()[:16] + b"\1" + batch()[17:],
    "not at 0": b"\1" * 8 + batch()[8:],
}


@pytest.mark.parametrize("version", [8, 11, NEWEST])
@pytest.mark.parametrize("records", ODD.values(), ids=ODD)
async def test_both_paths_answer_unusual_requests_equally(
    tmp_path: Path, version: int, records: bytes | None
) -> None:
    async with two_brokers(tmp_path) as brokers:
        for it in (batch(), records, batch(), records, records):
            brokers.ask(request(it, version=version, topic_id=id_of(brokers)))
        assert brokers.fast_count


async def test_both_paths_check_sequence_numbers(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as brokers:
        for sequence, epoch in ((0, 0), (1, 0), (1, 0), (0, 0), (5, 0), (2, 0), (0, 1), (3, 0)):
            of_producer = {"producer_id": 7, "producer_epoch": epoch, "base_sequence": sequence}
            brokers.ask(request(batch(**of_producer), topic_id=id_of(brokers)))
        assert brokers.fast_count == 7


@pytest.mark.parametrize("version", [12, NEWEST])
async def test_a_recreated_topic_leaves_the_fast_path(tmp_path: Path, version: int) -> None:
    async with two_brokers(tmp_path) as brokers:
        before = id_of(brokers)
        first = request(batch(), version=version, topic_id=before)
        brokers.ask(first)
        brokers.ask(first)
        await brokers.each(lambda it: it.controller.delete_topics(["trucks"]))
        brokers.ask(first)
        await brokers.each(
            lambda it: it.controller.create_topics([NewTopic(name="trucks", partitions=3)])
        )
        assert id_of(brokers) != before
        brokers.ask(first)
        brokers.ask(request(batch(), version=version, topic_id=id_of(brokers)))
        brokers.ask(first)


async def test_a_partition_with_another_leader_rejects_appends(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as brokers:
        query = request(batch(), topic_id=id_of(brokers))
        brokers.ask(query)
        for side in (brokers.general, brokers.fast):
            partition = side.broker.partitions.get("trucks", 0)
            assert partition is not None
            partition.lead_or_follow(replace(partition.leadership, leader=2))
        brokers.ask(query)


async def test_a_connection_without_repeats_stores_a_bounded_number_of_requests(
    tmp_path: Path,
) -> None:
    async with two_brokers(tmp_path, partitions=REQUESTS_MAX + 10) as brokers:
        for _ in range(2):
            for partition in range(REQUESTS_MAX + 10):
                brokers.ask(request(batch(), partition=partition, topic_id=id_of(brokers)))
        assert brokers.fast_count == REQUESTS_MAX


@pytest.mark.parametrize("version", [8, NEWEST])
async def test_a_request_with_bytes_after_its_records_uses_the_general_path(
    tmp_path: Path, version: int
) -> None:
    """Kafka ignores unknown bytes; here they look like a length and records."""
    async with two_brokers(tmp_path) as brokers:
        stamped = bytearray(batch())
        stamped[12:16] = bytes(4)  # leader epoch 0: both batches are equal
        for trailer in (bytes(stamped), batch(11)):
            frame = request(bytes(stamped), version=version, topic_id=id_of(brokers))
            length = len(trailer).to_bytes(4, "big") if version < 9 else uvarint(len(trailer) + 1)
            if version < 9:
                frame += length + trailer
            else:  # a tagged field of the partition
                tag = b"\1\x63" + uvarint(len(length) + len(trailer) + 1) + length + trailer + b"\0"
                frame = frame[:-3] + tag + b"\0\0"
            brokers.ask(frame)
        assert not brokers.fast_count


async def test_a_request_with_many_bytes_before_its_records_is_not_stored(
    tmp_path: Path,
) -> None:
    async with two_brokers(tmp_path) as brokers:
        frame = request(batch(), topic_id=id_of(brokers))
        head = len(b"\0\0\0\0\0\0\0\0\0\x05fleet")
        assert frame[head] == 0
        tags = b"\1\x63" + uvarint(KEY_BYTES_MAX) + bytes(KEY_BYTES_MAX)
        for _ in range(2):
            brokers.ask(frame[:head] + tags + frame[head + 1 :])
        assert not brokers.fast_count


async def test_both_paths_answer_corrupt_frames_equally(tmp_path: Path) -> None:
    dice = random.Random(20)
    async with two_brokers(tmp_path) as brokers:
        for version in (7, 11, NEWEST):
            frame = request(batch(70), version=version, topic_id=id_of(brokers))
            brokers.ask(frame)
            for _ in range(700):
                brokers.ask(corrupted(frame, dice))
                brokers.ask(frame)
        assert brokers.fast_count > 1500


ID, OTHER_ID = b"i" * 16, b"o" * 16
PLAIN = {"leader": 1, "replicas": (1,), "settled": True, "topic_id": ID}


@pytest.mark.parametrize(
    ("changes", "plain"),
    [
        ({}, True),
        ({"topic_id": None}, True),
        ({"topic_id": OTHER_ID}, False),
        ({"leader": 2}, False),
        ({"settled": False}, False),
        ({"replicas": (1, 2)}, True),
    ],
    ids=str,
)
def test_the_fast_path_serves_only_leaders_without_waits_for_flushes(
    changes: dict[str, Any],
    plain: bool,  # noqa: FBT001  # a column of the table
) -> None:
    case = {**PLAIN, **changes}
    leadership = SimpleNamespace(leader=case["leader"], replicas=case["replicas"])
    partition: Any = SimpleNamespace(
        leadership=leadership,
        node_id=1,
        never_waits_for_flushes=case["settled"],
        topic_id=ID,
    )
    assert is_plain(partition, case["topic_id"]) == plain


def topic_partition(brokers: TwoBrokers, index: int = 0) -> Partition:
    partition = brokers.fast.broker.partitions.get("trucks", index)
    assert partition is not None
    return partition


async def test_a_change_of_leadership_sends_the_next_request_through_the_general_path(
    tmp_path: Path,
) -> None:
    async with two_brokers(tmp_path) as brokers:
        frame = request(batch(), topic_id=id_of(brokers))
        for _ in range(3):
            brokers.ask(frame)
        assert brokers.fast_count == 2
        here = topic_partition(brokers).leadership
        for side in (brokers.fast, brokers.general):
            partition = side.broker.partitions.get("trucks", 0)
            assert partition is not None
            partition.lead_or_follow(replace(here, leader=7))
        brokers.ask(frame)
        for side in (brokers.fast, brokers.general):
            partition = side.broker.partitions.get("trucks", 0)
            assert partition is not None
            partition.lead_or_follow(here)
        brokers.ask(frame)
        assert brokers.fast_count == 2
        brokers.ask(frame)
        assert brokers.fast_count == 3


async def test_renewing_a_request_does_not_count_as_storing_one(
    tmp_path: Path,
) -> None:
    async with two_brokers(tmp_path) as brokers:
        frame = request(batch(), topic_id=id_of(brokers))
        for _ in range(REQUESTS_MAX + 2):
            brokers.ask(frame)
            brokers.fast.broker.generation.advance()
        fast_count = brokers.fast_count
        brokers.ask(frame)
        brokers.ask(frame)
        assert brokers.fast_count == fast_count + 1


async def test_a_request_that_waits_for_a_flush_leaves_the_fast_path(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as brokers:
        frame = request(batch(), topic_id=id_of(brokers))
        side = brokers.fast
        side.answer(frame)
        side.answer(frame)
        assert side.dispatcher.handled == 1
        partition = topic_partition(brokers)
        waiting = replace(partition.log.configuration, flush_messages=1)
        partition.configure(partition.settings, waiting)
        answer = side.dispatcher.serve(memoryview(bytearray(frame)), side.peer)
        if isinstance(answer, Waiting):  # the flush can be faster
            await answer.awaitable
        assert side.dispatcher.handled == 2
        brokers.general.answer(frame)
        brokers.general.answer(frame)
        brokers.general.answer(frame)


async def test_records_inspected_in_a_thread_wait_for_replicas_added_meanwhile(
    tmp_path: Path,
) -> None:
    gzip = {"compression.type": "gzip"}
    async with two_brokers(tmp_path, configuration=gzip) as brokers:
        side = brokers.fast
        small = request(batch(), version=8, acks=-1)
        large = request(batch(2 * COMPRESSED_ON_LOOP_BYTES_MAX), version=8, acks=-1)
        side.answer(small)
        pending = side.dispatcher.serve(memoryview(bytearray(large)), side.peer)
        assert side.dispatcher.handled == 1, "the fast path serves it"
        assert isinstance(pending, Waiting)
        partition = topic_partition(brokers)
        alone = partition.leadership
        both = (partition.node_id, 7)
        partition.lead_or_follow(replace(alone, replicas=both, in_sync=both))
        response = asyncio.ensure_future(pending.awaitable)
        while not partition.waiting.commits:
            assert not response.done()
            await asyncio.sleep(0.001)
        partition.lead_or_follow(alone)
        assert await response
        general = brokers.general
        general.answer(small)
        other = general.dispatcher.serve(memoryview(bytearray(large)), general.peer)
        assert isinstance(other, Waiting)
        await other.awaitable


CHANGES: tuple[tuple[str, str | None], ...] = (
    ("max.message.bytes", "200"),
    ("max.message.bytes", None),
    ("message.timestamp.type", "LogAppendTime"),
    ("message.timestamp.type", None),
    ("min.insync.replicas", "2"),
    ("min.insync.replicas", None),
    ("compression.type", "gzip"),
    ("compression.type", None),
)


async def test_random_conversations_about_a_changing_topic_have_equal_responses_on_both_paths(
    tmp_path: Path,
) -> None:
    """Settings, leadership, log start and existence of the topic change between requests."""
    dice = random.Random(15)
    async with two_brokers(tmp_path) as brokers:
        for number in range(3_000):
            match dice.randrange(150):
                case 0:
                    await recreate(brokers)
                case 1:
                    await change_settings(brokers, *dice.choice(CHANGES))
                case 2:
                    set_leader(brokers, dice.randrange(3), leads=dice.random() < 0.7)
                case 3:
                    delete_records(brokers, dice.randrange(3), dice)
                case 4:
                    fail_flushes(brokers, dice.randrange(3), fails=dice.random() < 0.3)
                case _:
                    brokers.ask(random_request(brokers, dice, number))
        assert brokers.fast_count > 1_000


async def recreate(brokers: TwoBrokers) -> None:
    topic = NewTopic(name="trucks", partitions=3)
    await brokers.each(lambda it: it.controller.delete_topics(["trucks"]))
    await brokers.each(lambda it: it.controller.create_topics([topic]))


async def change_settings(brokers: TwoBrokers, name: str, value: str | None) -> None:
    operation = AlterOperation.DELETE if value is None else AlterOperation.SET
    change = ConfigurationChange(
        resource_type=TOPIC_RESOURCE, name="trucks", operations=[(name, operation, value)]
    )
    await brokers.each(lambda it: it.controller.alter_configurations([change]))


def partitions_of(brokers: TwoBrokers, index: int) -> list[Partition]:
    found = [it.broker.partitions.get("trucks", index) for it in (brokers.general, brokers.fast)]
    return [it for it in found if it is not None]


def set_leader(brokers: TwoBrokers, index: int, *, leads: bool) -> None:
    for partition in partitions_of(brokers, index):
        leader = partition.node_id if leads else 7
        partition.lead_or_follow(replace(partition.leadership, leader=leader))


def delete_records(brokers: TwoBrokers, index: int, dice: random.Random) -> None:
    partitions = partitions_of(brokers, index)
    offset = dice.randint(0, partitions[0].high_watermark)
    for partition in partitions:
        partition.delete_records_before(offset, NOW_MS)


def fail_flushes(brokers: TwoBrokers, index: int, *, fails: bool) -> None:
    for partition in partitions_of(brokers, index):
        partition.log.flush_failure = "planted" if fails else None


def random_request(brokers: TwoBrokers, dice: random.Random, number: int) -> bytes:
    """Records without a producer, or of an idempotent one: next, repeated or with an old epoch."""
    index, producer_id = dice.randrange(3), dice.choice((-1, 5, 6))
    fields: dict[str, int] = {}
    if producer_id >= 0:
        known = partitions_of(brokers, index)[0].log.producers.get(producer_id)
        epoch, sequence = (0, 0) if known is None else (known.epoch, known.last_sequence + 1)
        match dice.randrange(30):
            case 0:
                epoch, sequence = epoch + 1, 0
            case 1:
                epoch = max(0, epoch - 1)
            case 2:
                sequence = max(0, sequence - 1)
        fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    return request(
        batch(dice.choice((10, 10, 100, 400)), **fields),
        version=NEWEST if number // 500 % 2 else 9,
        partition=index,
        acks=dice.choice((1, -1)),
        topic_id=id_of(brokers),
        correlation_id=number,
    )
