"""Faults of requests, of the disk and of the process, seen by stock clients."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from pykbroker import AsyncBroker, Broker
from pykbroker.testing.active_fault import ActiveFault, FaultMatchedNothing
from pykbroker.testing.async_broker import NotRunning
from pykbroker.testing.seeding import NotWritten


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with Broker(topics={"trucks": 2, "ships": 1}) as broker:
        yield broker


def texts(kafka: Broker, topic: str = "trucks") -> list[str]:
    return [it.text for it in kafka.records(topic)]


def kafka_python(kafka: Broker, **settings: Any) -> Any:
    from kafka import KafkaProducer

    return KafkaProducer(
        bootstrap_servers=kafka.bootstrap,
        **{"retry_backoff_ms": 10, "reconnect_backoff_ms": 10, **settings},
    )


def librdkafka(kafka: Broker, **settings: Any) -> Any:
    from confluent_kafka import Producer

    return Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "reconnect.backoff.ms": 10,
            "retry.backoff.ms": 10,
            "log_level": 0,
            **settings,
        }
    )


def send_frame(kafka: Broker, frame: bytes) -> bytes:
    """Sends a handwritten request and returns all bytes of the response."""
    with socket.create_connection(("127.0.0.1", kafka.port), timeout=10) as peer:
        peer.sendall(frame)
        peer.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: peer.recv(65536), b""))


def test_a_producer_retries_a_retriable_error(kafka: Broker) -> None:
    producer = kafka_python(kafka)
    with kafka.faults.refuse("PRODUCE", "NOT_LEADER_OR_FOLLOWER", topic="trucks", times=2) as fault:
        producer.send("trucks", b"a", partition=0).get(10)
    producer.close()
    assert fault.hits == 2
    assert texts(kafka) == ["a"]
    assert kafka.story().count("trucks-0 NOT_LEADER_OR_FOLLOWER") == 2


def test_a_fatal_error_is_raised_by_the_producer(kafka: Broker) -> None:
    from kafka.errors import TopicAuthorizationFailedError

    producer = kafka_python(kafka, enable_idempotence=False)
    with (
        kafka.faults.refuse("produce", "TOPIC_AUTHORIZATION_FAILED"),
        pytest.raises(TopicAuthorizationFailedError),
    ):
        producer.send("trucks", b"a").get(10)
    producer.send("trucks", b"b").get(10)
    producer.close()
    assert texts(kafka) == ["b"]


def test_other_partitions_of_the_same_request_are_served(kafka: Broker) -> None:
    from kafka.errors import KafkaError

    producer = kafka_python(kafka, linger_ms=100, retries=0, enable_idempotence=False)
    producer.partitions_for("trucks")
    with kafka.faults.refuse("PRODUCE", "MESSAGE_TOO_LARGE", topic="trucks", partition=1):
        sent = [producer.send("trucks", b"%d" % it, partition=it) for it in (0, 1)]
        sent[0].get(10)
        with pytest.raises(KafkaError):
            sent[1].get(10)
    producer.close()
    assert texts(kafka) == ["0"]


def test_a_fault_can_be_restricted_to_a_client_id(kafka: Broker) -> None:
    first, second = (librdkafka(kafka, **{"client.id": it}) for it in ("first", "second"))
    with kafka.faults.refuse("PRODUCE", "POLICY_VIOLATION", client="first") as fault:
        for producer, value in ((first, "1"), (second, "2")):
            producer.produce("ships", value)
            producer.flush(10)
    assert fault.hits == 1
    assert texts(kafka, "ships") == ["2"]


def test_a_consumer_continues_after_a_fetch_error(kafka: Broker) -> None:
    from kafka import KafkaConsumer

    kafka.produce("trucks", ["a"])
    consumer = KafkaConsumer(
        "trucks",
        bootstrap_servers=kafka.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
        retry_backoff_ms=10,
    )
    with kafka.faults.refuse("FETCH", "NOT_LEADER_OR_FOLLOWER", topic="trucks", times=2) as fault:
        assert next(consumer).value == b"a"
    consumer.close()
    assert fault.hits == 2


def test_metadata_is_refused_for_one_topic(kafka: Broker) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    with kafka.faults.refuse("METADATA", "LEADER_NOT_AVAILABLE", topic="trucks"):
        found = admin.list_topics(timeout=10).topics
    assert found["trucks"].error is not None
    assert found["ships"].error is None


@pytest.mark.parametrize("narrowed", [{"topic": "no-such"}, {"topic": "ships", "partition": 1}])
def test_metadata_of_all_topics_does_not_match_a_missing_partition(
    kafka: Broker, narrowed: Any
) -> None:
    with pytest.raises(FaultMatchedNothing), kafka.faults.drop("METADATA", **narrowed):
        assert librdkafka(kafka).list_topics(timeout=10).topics


def test_metadata_of_no_topics_matches_no_topic(kafka: Broker) -> None:
    """Since version 1, an empty array requests only the brokers."""
    with pytest.raises(FaultMatchedNothing), kafka.faults.drop("METADATA", topic="ships"):
        assert send_frame(kafka, bytes.fromhex("0000000f 0003 0001 00000007 0001 63 00000000"))


def test_metadata_of_all_topics_matches_each_topic(kafka: Broker) -> None:
    of_all_topics = bytes.fromhex("0000000f 0003 0001 00000007 0001 63 ffffffff")
    with kafka.faults.lose_answer("METADATA", topic="ships", times=1) as fault:
        assert send_frame(kafka, of_all_topics) == b""
    assert fault.hits == 1
    assert b"ships" in send_frame(kafka, of_all_topics)


def test_a_consumer_finds_the_coordinator_again_after_not_coordinator(kafka: Broker) -> None:
    from kafka import KafkaConsumer

    kafka.produce("trucks", ["a"])
    with kafka.faults.refuse("JoinGroup", "NOT_COORDINATOR", times=1) as fault:
        consumer = KafkaConsumer(
            "trucks",
            bootstrap_servers=kafka.bootstrap,
            group_id="readers",
            auto_offset_reset="earliest",
            consumer_timeout_ms=10_000,
            retry_backoff_ms=10,
        )
        assert next(consumer).value == b"a"
        consumer.close()
    assert fault.hits == 1


def test_an_idempotent_producer_writes_no_duplicate_after_a_lost_response(kafka: Broker) -> None:
    producer = librdkafka(kafka, **{"enable.idempotence": True})
    with kafka.faults.lose_answer("PRODUCE", topic="ships", times=1) as fault:
        producer.produce("ships", b"once")
        producer.flush(10)
    assert fault.hits == 1
    assert texts(kafka, "ships") == ["once"]


def test_a_producer_without_idempotence_writes_a_duplicate_after_a_lost_response(
    kafka: Broker,
) -> None:
    producer = librdkafka(kafka, **{"enable.idempotence": False})
    with kafka.faults.lose_answer("PRODUCE", times=1):
        producer.produce("ships", b"twice")
        producer.flush(10)
    assert texts(kafka, "ships") == ["twice", "twice"]


def test_a_producer_retries_after_half_a_response(kafka: Broker) -> None:
    producer = librdkafka(kafka, **{"enable.idempotence": True})
    with kafka.faults.cut_answer("PRODUCE", times=1):
        producer.produce("ships", b"once")
        producer.flush(10)
    assert texts(kafka, "ships") == ["once"]


def test_cut_answer_sends_the_first_half_of_the_bytes(kafka: Broker) -> None:
    api_versions_v0 = bytes.fromhex("0000000a 0012 0000 00000007 ffff")
    whole = send_frame(kafka, api_versions_v0)
    with kafka.faults.cut_answer("ApiVersions"):
        half = send_frame(kafka, api_versions_v0)
    assert len(half) == len(whole) // 2
    assert half[:4] == whole[:4]


def test_a_dropped_request_is_not_served(kafka: Broker) -> None:
    producer = librdkafka(kafka, **{"enable.idempotence": False})
    with kafka.faults.drop("PRODUCE", times=2) as fault:
        producer.produce("ships", b"once")
        producer.flush(10)
    assert fault.hits == 2
    assert texts(kafka, "ships") == ["once"]


def test_delay_serves_at_once_and_delays_the_response(kafka: Broker) -> None:
    producer = kafka_python(kafka)
    producer.partitions_for("ships")
    with kafka.faults.delay("PRODUCE", 0.3, topic="ships", times=1):
        began = time.monotonic()
        sent = producer.send("ships", b"a")
        assert [it.text for it in kafka.wait_for("ships", count=1)] == ["a"]
        assert not sent.is_done
        sent.get(10)
        assert time.monotonic() - began >= 0.3
    producer.close()


def test_a_stalled_response_is_sent_when_the_fault_ends(kafka: Broker) -> None:
    producer = kafka_python(kafka)
    with kafka.faults.stall("PRODUCE"):
        sent = producer.send("ships", b"a")
        kafka.wait_for("ships", count=1)
        time.sleep(0.1)
        assert not sent.is_done
    sent.get(10)
    producer.close()


def test_a_stalled_fetch_returns_no_records_until_the_fault_ends(kafka: Broker) -> None:
    from kafka import KafkaConsumer

    kafka.produce("ships", ["a"])
    consumer = KafkaConsumer(
        "ships",
        bootstrap_servers=kafka.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
    )
    with kafka.faults.stall("FETCH", topic="ships") as fault:
        while not fault.hits:
            assert consumer.poll(50) == {}
        assert consumer.poll(50) == {}
    assert next(consumer).value == b"a"
    consumer.close()


def test_do_twice_appends_the_record_twice(kafka: Broker) -> None:
    producer = librdkafka(kafka, **{"enable.idempotence": False})
    with kafka.faults.do_twice("PRODUCE"):
        producer.produce("ships", b"a")
        producer.flush(10)
    assert texts(kafka, "ships") == ["a", "a"]


def test_a_fault_that_is_never_applied_raises(kafka: Broker) -> None:
    with (
        pytest.raises(FaultMatchedNothing) as failure,
        kafka.faults.drop("PRODUCE", topic="trucks", partition=7),
    ):
        librdkafka(kafka).list_topics(timeout=10)
    assert str(failure.value) == (
        "fault was never applied: "
        "close the connection instead of serving (PRODUCE, topic trucks, partition 7)"
    )


def test_an_exception_in_the_block_takes_precedence_over_an_unused_fault() -> None:
    with pytest.raises(ZeroDivisionError), Broker() as kafka, kafka.faults.drop("PRODUCE"):
        _ = 1 / 0


def test_an_unused_fault_raises_at_the_end_of_the_broker(kafka: Broker) -> None:
    with pytest.raises(FaultMatchedNothing), kafka.fork() as other:
        other.faults.drop("PRODUCE")
    with pytest.raises(NotRunning):
        other.records("trucks")


async def test_an_unused_fault_raises_at_the_end_of_an_async_broker() -> None:
    with pytest.raises(FaultMatchedNothing):
        async with AsyncBroker() as kafka:
            kafka.faults.drop("PRODUCE")
    with pytest.raises(NotRunning):
        kafka.records("trucks")


def test_a_reset_ends_all_faults(kafka: Broker) -> None:
    fault = kafka.faults.drop(None)
    with pytest.raises(FaultMatchedNothing):
        kafka.reset()
    kafka.reset()
    assert fault.is_over
    assert librdkafka(kafka).list_topics(timeout=10).topics


def test_stop_does_not_wait_for_a_stalled_response() -> None:
    with Broker(topics=["t"]) as kafka:
        kafka.faults.stall(None)
        client = threading.Thread(target=list_topics_without_response, args=(kafka.bootstrap,))
        client.start()
        time.sleep(0.1)
        began = time.monotonic()
    assert time.monotonic() - began < 3
    client.join()


def list_topics_without_response(bootstrap: str) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    with suppress(KafkaException):
        AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=1)


@pytest.mark.parametrize(
    ("add_fault", "message"),
    [
        (lambda it: it.drop("PRODUCES"), "unknown API 'PRODUCES'; known APIs: PRODUCE, FETCH"),
        (lambda it: it.refuse("PRODUCE", "OOPS"), "unknown error 'OOPS'; known errors: UNKNOWN_"),
        (lambda it: it.delay("PRODUCE", -1), "seconds must be finite and not negative, not -1"),
        (lambda it: it.delay("PRODUCE", float("nan")), "seconds must be finite .*, not nan"),
        (lambda it: it.slow_disk(-1), "seconds must be finite and not negative, not -1"),
        (lambda it: it.slow_disk(float("inf")), "seconds must be finite .*, not inf"),
        (lambda it: it.drop("PRODUCE", times=0), "times must be at least 1, not 0"),
        (lambda it: it.disk_full(times=-1), "times must be at least 1, not -1"),
    ],
)
def test_invalid_fault_arguments_raise_value_error(
    kafka: Broker, add_fault: Callable[[Any], ActiveFault], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        add_fault(kafka.faults)


@pytest.mark.parametrize("name", ["topics", "group", "Topic"])
def test_an_unknown_filter_raises_type_error_and_adds_no_fault(kafka: Broker, name: str) -> None:
    unknown: Any = {name: "u"}
    with pytest.raises(TypeError) as refusal:
        kafka.faults.drop("PRODUCE", **unknown)
    assert str(refusal.value) == (
        f"unknown fault filter {name}; use topic, partition, client, times"
    )
    assert list(kafka.faults) == []


async def test_faults_work_on_an_async_broker() -> None:
    from aiokafka import AIOKafkaProducer

    async with AsyncBroker(["t"]) as kafka:
        async with AIOKafkaProducer(
            bootstrap_servers=kafka.bootstrap, retry_backoff_ms=10
        ) as producer:
            with kafka.faults.refuse("PRODUCE", "NOT_LEADER_OR_FOLLOWER", times=1) as fault:
                await producer.send_and_wait("t", b"a")
        await asyncio.sleep(0)
        assert fault.hits == 1
        assert [it.text for it in kafka.records("t")] == ["a"]


# --- the disk


def test_a_producer_retries_until_the_disk_has_space(kafka: Broker) -> None:
    producer = kafka_python(kafka, retries=1000)
    with kafka.faults.disk_full(topic="ships", times=2) as fault:
        producer.send("ships", b"a").get(10)
    producer.close()
    assert fault.hits == 2
    assert texts(kafka, "ships") == ["a"]
    assert kafka.story().count("ships-0 KAFKA_STORAGE_ERROR") == 2


def test_a_disk_error_can_be_restricted_to_a_topic(kafka: Broker) -> None:
    with kafka.faults.disk_error(topic="ships"):
        kafka.produce("trucks", ["a"])
        with pytest.raises(NotWritten, match="ships-0: KAFKA_STORAGE_ERROR"):
            kafka.produce("ships", ["a"])
    kafka.produce("ships", ["b"])
    assert texts(kafka, "ships") == ["b"]


def test_slow_disk_delays_each_write(kafka: Broker) -> None:
    began = time.monotonic()
    with kafka.faults.slow_disk(0.1, topic="ships"):
        kafka.produce("ships", ["a"])
    assert time.monotonic() - began >= 0.1


def test_a_disk_fault_without_a_write_raises(kafka: Broker) -> None:
    with (
        pytest.raises(FaultMatchedNothing, match=r"disk full \(topic ships\)"),
        kafka.faults.disk_full(topic="ships"),
    ):
        kafka.produce("trucks", ["a"])


# --- the process


@pytest.mark.parametrize("end", [Broker.restart, Broker.crash])
def test_records_groups_and_topics_survive_restart_and_crash(
    kafka: Broker, end: Callable[[Broker], None]
) -> None:
    from confluent_kafka import Consumer

    kafka.create_topics(["late"])
    kafka.produce("ships", ["a", "b"])
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe(["ships"])
    (found,) = consumer.consume(1, timeout=10)
    consumer.commit(message=found, asynchronous=False)
    address = kafka.bootstrap
    end(kafka)
    assert kafka.bootstrap == address
    assert kafka.records("late") == []
    assert texts(kafka, "ships") == ["a", "b"]
    assert kafka.offsets("readers") == {("ships", 0): 1}
    consumer.close()


def test_an_idempotent_producer_loses_nothing_in_crashes(kafka: Broker) -> None:
    producer = librdkafka(kafka, **{"enable.idempotence": True})
    for number in range(30):
        producer.produce("ships", str(number))
        producer.flush(10)
        if number % 10 == 5:
            kafka.crash()
    assert texts(kafka, "ships") == [str(it) for it in range(30)]


def test_connections_are_refused_during_an_outage(kafka: Broker) -> None:
    producer = librdkafka(kafka, **{"enable.idempotence": True, "reconnect.backoff.max.ms": 50})
    producer.produce("ships", b"before")
    producer.flush(10)
    with kafka.outage():
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", kafka.port))
        producer.produce("ships", b"meanwhile")
        assert producer.flush(0.2) == 1
        with pytest.raises(NotRunning):
            kafka.records("ships")
    assert producer.flush(20) == 0
    assert texts(kafka, "ships") == ["before", "meanwhile"]


async def test_an_async_broker_serves_after_an_outage() -> None:
    async with AsyncBroker(["t"]) as kafka:
        kafka.produce("t", ["a"])
        async with kafka.outage():
            assert kafka.bootstrap == f"127.0.0.1:{kafka.port}"
        assert [it.text for it in kafka.records("t")] == ["a"]
