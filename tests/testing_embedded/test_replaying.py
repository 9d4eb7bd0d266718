"""Replaying recorded sessions to clients, and reporting differences."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from compat.apache import ApacheKafka
from pykbroker import AsyncBroker, Broker, CannotStart
from pykbroker.testing.async_broker import NotRunning
from pykbroker.testing.loop_thread import LoopThread
from pykbroker.testing.recording.proxy import Recorder
from pykbroker.testing.replaying.differences import (
    DIFFERENCES_MAX,
    Difference,
    Differences,
    ReplayDiffers,
    differing_fields,
)
from pykbroker.testing.replaying.request_matching import comparable
from pykbroker_protocol.messages.api_versions import ApiVersionsRequest
from pykbroker_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pykbroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

pytestmark = [
    pytest.mark.usefixtures("sockets_left_open"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

SECONDS = 60
COUNT = 5

Program = Callable[..., list[bytes]]


def rows(count: int = COUNT) -> list[tuple[bytes, bytes]]:
    return [(b"truck-%d" % number, b"speed %d" % (10 * number)) for number in range(count)]


def kafka_python(bootstrap: str, topic: str = "trucks", given: Any = None) -> list[bytes]:
    from kafka import KafkaConsumer, KafkaProducer

    given = rows() if given is None else given
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for key, value in given:
        producer.send(topic, key=key, value=value).get(SECONDS)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id="depot",
        auto_offset_reset="earliest",
        consumer_timeout_ms=SECONDS * 1000,
    )
    # Otherwise its threads decide whether it joins its group before or after it knows the topic.
    assert consumer.partitions_for_topic(topic)
    found = [next(consumer).value for _ in given]
    consumer.close()
    return sorted(found)


def librdkafka(bootstrap: str, topic: str = "trucks", given: Any = None) -> list[bytes]:
    from confluent_kafka import Consumer, Producer

    given = rows() if given is None else given
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for key, value in given:
        producer.produce(topic, key=key, value=value)
    assert producer.flush(SECONDS) == 0
    settings = {"group.id": "depot", "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    found = []
    for _ in given:
        message = consumer.poll(SECONDS)
        assert message is not None
        found.append(message.value() or b"")
    consumer.close()
    return sorted(found)


def librdkafka_in_transactions(
    bootstrap: str, topic: str = "trucks", given: Any = None
) -> list[bytes]:
    from confluent_kafka import Consumer, Producer, TopicPartition

    given = rows() if given is None else given
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", "log_level": 0})
    producer.init_transactions(SECONDS)
    for is_meant in (True, False, True):
        producer.begin_transaction()
        for key, value in given:
            producer.produce(topic, key=key, value=value if is_meant else b"never", partition=0)
        producer.flush(SECONDS)
        if is_meant:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)
    settings = {"group.id": "depot", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    # librdkafka looks up the coordinator in the background: wait for it, or a fast run ends before.
    consumer.committed([TopicPartition(topic, 0)], SECONDS)
    found = []
    for _ in range(2 * len(given)):
        message = consumer.poll(SECONDS)
        assert message is not None
        found.append(message.value() or b"")
    consumer.close()
    return found


def aiokafka(bootstrap: str, topic: str = "trucks", given: Any = None) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    given = rows() if given is None else given

    async def main() -> list[bytes]:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for key, value in given:
                await producer.send_and_wait(topic, key=key, value=value)
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id="depot", auto_offset_reset="earliest"
        ) as consumer:
            found = [(await consumer.getone()).value for _ in given]
        return sorted(it or b"" for it in found)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, main()).result()


PROGRAMS = (kafka_python, librdkafka, librdkafka_in_transactions, aiokafka)


class Studio:
    """Records programs against a broker, with the recorder in its own loop."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "session.jsonl"
        self._loop = LoopThread(asyncio.new_event_loop, "recorder")
        self._loop.start()

    def record(self, bootstrap: str, program: Program, *given: Any) -> list[bytes]:
        host, _, port = bootstrap.partition(":")
        recorder = Recorder(self.file, [(host, int(port))], "127.0.0.1", 0)
        self._loop.run(recorder.open())
        try:
            return program(recorder.bootstrap, *given)
        finally:
            self._loop.run(recorder.close())

    def close(self) -> None:
        self._loop.stop()


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    studio = Studio(tmp_path)
    yield studio
    studio.close()


@pytest.fixture
def recorded(studio: Studio) -> Callable[..., list[bytes]]:
    def record(program: Program, *given: Any) -> list[bytes]:
        with Broker(topics={"trucks": 2}) as kafka:
            return studio.record(kafka.bootstrap, program, *given)

    return record


# --- clients that do the same


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_gets_the_recorded_responses(
    recorded: Callable[..., list[bytes]], studio: Studio, program: Program
) -> None:
    found = recorded(program)
    for _ in range(2):
        with Broker(replay=studio.file) as kafka:
            assert program(kafka.bootstrap) == found
            assert kafka.replay.differences == []


@pytest.mark.oracle
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_session_with_apache_kafka_is_replayed(
    apache: ApacheKafka, studio: Studio, program: Program
) -> None:
    topic = f"replayed-{program.__name__}"
    command = ["-m", "pykbroker", "topics", "create", topic, "--partitions", "2"]
    subprocess.run(
        [sys.executable, *command, "--bootstrap", apache.bootstrap], check=True, timeout=SECONDS
    )
    found = studio.record(apache.bootstrap, program, topic)
    with Broker(replay=studio.file) as kafka:
        assert program(kafka.bootstrap, topic) == found


def test_records_can_be_batched_differently(
    recorded: Callable[..., list[bytes]], studio: Studio
) -> None:
    from confluent_kafka import Producer

    recorded(librdkafka)
    with Broker(replay=studio.file) as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "compression.type": "gzip"})
        for key, value in rows():
            producer.produce("trucks", key=key, value=value)
            assert producer.flush(SECONDS) == 0
        assert kafka.replay.differences == []
        kafka.replay.check()


def test_records_without_keys_can_go_to_other_partitions(
    recorded: Callable[..., list[bytes]], studio: Studio
) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    def spread(bootstrap: str, partitions: list[int]) -> list[bytes]:
        producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        for number, partition in enumerate(partitions):
            producer.produce("trucks", value=b"%d" % number, partition=partition)
        assert producer.flush(SECONDS) == 0
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0})
        consumer.assign([TopicPartition("trucks", it, 0) for it in (0, 1)])
        found = [consumer.poll(SECONDS) for _ in partitions]
        consumer.close()
        return sorted(it.value() or b"" for it in found if it is not None)

    found = recorded(spread, [0, 1, 0, 1, 0])
    assert len(found) == 5
    with Broker(replay=studio.file) as kafka:
        assert spread(kafka.bootstrap, [1, 1, 1, 1, 1]) == found


async def test_an_async_broker_replays(
    recorded: Callable[..., list[bytes]], studio: Studio
) -> None:
    found = await asyncio.to_thread(recorded, aiokafka)
    async with AsyncBroker(replay=studio.file) as kafka:
        assert await asyncio.to_thread(aiokafka, kafka.bootstrap) == found


# --- clients that do something else


def test_a_different_record_is_reported_with_the_recorded_one(
    recorded: Callable[..., list[bytes]], studio: Studio
) -> None:
    from confluent_kafka import KafkaError, Producer

    refused = []

    def drive_too_fast() -> None:
        """INVALID_RECORD is not retried: the test ends before the delivery timeout."""
        with Broker(replay=studio.file) as kafka:
            producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
            producer.produce(
                "trucks",
                key=b"truck-0",
                value=b"too fast",
                on_delivery=lambda error, _: refused.append(error.code() if error else 0),
            )
            assert producer.flush(SECONDS) == 0

    recorded(librdkafka)
    with pytest.raises(ReplayDiffers) as failure:
        drive_too_fast()
    text = str(failure.value)
    assert refused == [KafkaError.INVALID_RECORD]
    assert text.count(" differs from line ") == 1
    assert "recorded key=b'truck-0' value=b'speed 0'" in text
    assert "now      key=b'truck-0' value=b'too fast'" in text


def test_missing_records_are_reported(recorded: Callable[..., list[bytes]], studio: Studio) -> None:
    recorded(kafka_python)
    with (
        pytest.raises(ReplayDiffers, match=r"records to trucks-\d are missing"),
        Broker(replay=studio.file),
    ):
        pass


def test_an_exception_of_the_client_gets_the_differences_as_a_note(
    recorded: Callable[..., list[bytes]], studio: Studio
) -> None:
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    def describe_the_cluster() -> None:
        with Broker(replay=studio.file) as kafka:
            admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap, request_timeout_ms=4000)
            try:
                admin.describe_cluster()
            finally:
                admin.close()

    recorded(kafka_python)
    with pytest.raises(KafkaError) as failed:
        describe_the_cluster()
    assert "no such request was recorded" in "".join(failed.value.__notes__)


# --- what is alike


def metadata(*names: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=it) for it in names])


def creation(timeout_ms: int, partitions: int = 1) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name="a", num_partitions=partitions, replication_factor=1, assignments=(), configs=()
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)


def software(version: str) -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="app", client_software_version=version)


@pytest.mark.parametrize(
    ("one", "other", "version"),
    [
        (metadata("a", "b"), metadata("b", "a"), 12),
        (creation(1000), creation(900), 7),
        (software("1.0"), software("1.1"), 3),
    ],
)
def test_timeouts_and_row_order_are_ignored(one: Any, other: Any, version: int) -> None:
    assert comparable(one, version) == comparable(other, version)


@pytest.mark.parametrize(
    ("one", "other", "version", "expected"),
    [
        (metadata("a"), metadata("b"), 12, ("topics[0].name: recorded 'a', now 'b'",)),
        (
            creation(1, 1),
            creation(1, 3),
            7,
            ("topics[0].num_partitions: recorded 1, now 3",),
        ),
    ],
)
def test_a_difference_lists_fields(
    one: Any, other: Any, version: int, expected: tuple[str, ...]
) -> None:
    assert differing_fields(comparable(one, version), comparable(other, version)) == expected


def test_a_repeated_difference_is_reported_once_with_its_count() -> None:
    often = Difference(what="Metadata differs from line 3:", fields=("topics: now 't'",))
    found = Differences([often, Difference(what="a frame that is no request"), often, often])
    assert str(ReplayDiffers("session.jsonl", found)) == (
        "requests differ from the recording session.jsonl:\n"
        "Metadata differs from line 3:\n"
        "    topics: now 't'\n"
        "    (3 times)\n"
        "a frame that is no request"
    )


def test_the_number_of_stored_differences_is_limited() -> None:
    found = Differences(Difference(what=f"number {it}") for it in range(DIFFERENCES_MAX + 1))
    assert len(found) == DIFFERENCES_MAX
    assert str(found).splitlines()[-2:] == ["number 9", f"… and {DIFFERENCES_MAX - 10} more"]


def test_missing_and_additional_rows_are_reported() -> None:
    assert differing_fields({"a": [1, 2]}, {"a": [2]}) == ("a: recorded 1, now missing",)
    assert differing_fields({"a": []}, {"a": [3]}) == ("a: now 3, not recorded",)


# --- a broker that only plays


def test_a_replay_has_no_records(recorded: Callable[..., list[bytes]], studio: Studio) -> None:
    recorded(kafka_python, "trucks", [])
    with Broker(replay=studio.file) as kafka, pytest.raises(NotRunning, match="replays"):
        kafka.records("trucks")


def test_replay_cannot_be_combined_with_other_arguments(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be combined"):
        Broker(topics=["trucks"], replay=tmp_path / "session.jsonl")


def test_a_file_that_is_not_a_recording_raises_cannot_start(tmp_path: Path) -> None:
    (tmp_path / "session.jsonl").write_text("nonsense\n")
    for name in ("session.jsonl", "nothing.jsonl"):
        with pytest.raises(CannotStart, match="cannot replay"):
            Broker(replay=tmp_path / name).start()
