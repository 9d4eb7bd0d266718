"""Snapshots, forks and saved copies of a broker's data."""

import gc
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykbroker import AsyncBroker, Broker, CannotStart
from pykbroker.testing.async_broker import NotRunning
from pykbroker.testing.data_copy import ASIDE
from pykbroker.testing.snapshot_restore import replace_content
from pykbroker.testing.temporary_directory import make_directory, remove_directory

MANY = 100_000
COPY_SECONDS_MAX = 0.1  # of processor time: the machine may have other work


def texts(kafka: Broker | AsyncBroker, topic: str = "trucks") -> list[str]:
    return [it.text for it in kafka.records(topic)]


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with Broker(topics={"trucks": 2}) as broker:
        broker.produce("trucks", ["seed"])
        yield broker
        assert left_of_copies(broker.directory) == []


def left_of_copies(directory: Path) -> list[Path]:
    beside = directory.parent.glob(f"{directory.name}-*")
    return [*beside, *directory.glob(f"*{ASIDE}")]


def test_a_snapshot_undoes_changes(kafka: Broker) -> None:
    address = kafka.bootstrap
    with kafka.snapshot():
        kafka.produce("trucks", ["more"])
        kafka.create_topics(["new"])
        assert texts(kafka) == ["seed", "more"]
    assert texts(kafka) == ["seed"]
    assert kafka.bootstrap == address
    with pytest.raises(LookupError):
        kafka.records("new")
    kafka.produce("trucks", ["after"], partition=0)
    assert texts(kafka) == ["seed", "after"]


def test_snapshots_can_be_nested(kafka: Broker) -> None:
    with kafka.snapshot():
        kafka.produce("trucks", ["outer"], partition=0)
        with kafka.snapshot():
            kafka.produce("trucks", ["inner"], partition=0)
        assert texts(kafka) == ["seed", "outer"]
    assert texts(kafka) == ["seed"]


def test_a_snapshot_restores_deleted_topics(kafka: Broker) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    with kafka.snapshot():
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for done in admin.delete_records([TopicPartition("trucks", 0, 1)]).values():
            done.result(timeout=10)
        assert texts(kafka) == []
        for done in admin.delete_topics(["trucks"]).values():
            done.result(timeout=10)
        with pytest.raises(LookupError):
            kafka.records("trucks")
    assert texts(kafka) == ["seed"]


def test_a_snapshot_restores_committed_offsets(kafka: Broker) -> None:
    from confluent_kafka import Consumer

    def read(count: int) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["trucks"])
        assert len(consumer.consume(count, timeout=10)) == count
        consumer.close()  # commits

    read(1)
    with kafka.snapshot():
        kafka.produce("trucks", ["more"], partition=0)
        read(1)
        assert kafka.offsets("readers")["trucks", 0] == 2
    assert kafka.offsets("readers")["trucks", 0] == 1


def test_clients_reconnect_after_a_snapshot(kafka: Broker) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    with kafka.snapshot():
        producer.produce("trucks", b"inside", partition=0)
        producer.flush(10)
        assert texts(kafka) == ["seed", "inside"]
    producer.produce("trucks", b"outside", partition=0)
    producer.flush(10)
    assert texts(kafka) == ["seed", "outside"]


def test_stop_in_a_snapshot_deletes_the_copy() -> None:
    kafka = Broker(topics=["t"])
    kafka.start()
    directory = kafka.directory
    with kafka.snapshot():
        kafka.stop()
    assert list(directory.parent.glob(f"{directory.name}*")) == []


def test_a_snapshot_restores_records_after_stop_and_start_in_it() -> None:
    with Broker(topics=["trucks"]) as kafka:
        kafka.produce("trucks", ["seed"])
        with kafka.snapshot():
            kafka.stop()
            kafka.start()
            assert texts(kafka) == []
        assert texts(kafka) == ["seed"]


def test_a_snapshot_restores_a_broker_that_is_down(kafka: Broker) -> None:
    with kafka.snapshot():
        kafka.produce("trucks", ["inside"])
        with kafka.faults.disk_full(), pytest.raises(CannotStart):
            kafka.crash()
    assert texts(kafka) == ["seed"]


def test_a_fork_and_its_original_are_independent(kafka: Broker) -> None:
    with kafka.fork() as other:
        assert other.bootstrap != kafka.bootstrap
        other.produce("trucks", ["there"], partition=0)
        kafka.produce("trucks", ["here"], partition=0)
        assert texts(other) == ["seed", "there"]
        assert texts(kafka) == ["seed", "here"]
        kafka.reset()
        assert texts(kafka) == []
        assert texts(other) == ["seed", "there"]
        with other.fork() as third:
            assert texts(third) == ["seed", "there"]


def test_stop_of_an_unstarted_fork_deletes_its_data(kafka: Broker) -> None:
    other = kafka.fork()
    with pytest.raises(NotRunning):
        _ = other.bootstrap
    assert left_of_copies(kafka.directory)
    other.stop()


def test_garbage_collection_of_an_unstarted_fork_deletes_its_data(kafka: Broker) -> None:
    kafka.fork()
    gc.collect()
    assert left_of_copies(kafka.directory) == []


def test_a_failed_copy_leaves_no_files(kafka: Broker) -> None:
    with kafka.faults.disk_full():
        with pytest.raises(OSError, match="No space left"):
            kafka.fork()
        with pytest.raises(OSError, match="No space left"), kafka.snapshot():
            pass
    assert left_of_copies(kafka.directory) == []
    assert texts(kafka) == ["seed"]


def test_a_fork_detects_duplicates_of_producers(kafka: Broker) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    producer.produce("trucks", b"once", partition=0)
    producer.flush()
    with kafka.fork() as other:
        states = [it._broker._running.partitions.get("trucks", 0) for it in (kafka, other)]
        before, after = (it.log.producers.encode() for it in states if it is not None)
        assert before == after
        assert len(before) > 10


async def test_an_async_broker_supports_snapshot_and_fork() -> None:
    async with AsyncBroker(topics=["trucks"]) as kafka:
        kafka.produce("trucks", ["seed"])
        async with kafka.snapshot():
            kafka.produce("trucks", ["inside"])
        assert texts(kafka) == ["seed"]
        async with kafka.fork() as other:
            other.produce("trucks", ["there"])
            assert texts(other) == ["seed", "there"]
        assert texts(kafka) == ["seed"]


def test_a_snapshot_restores_a_given_directory(tmp_path: Path) -> None:
    with Broker(topics=["trucks"], data=tmp_path / "data") as kafka:
        with kafka.snapshot():
            kafka.produce("trucks", ["inside"])
        assert texts(kafka) == []
        kafka.produce("trucks", ["kept"])
    with Broker(data=tmp_path / "data") as kafka:
        assert texts(kafka) == ["kept"]
    assert [it.name for it in tmp_path.iterdir()] == ["data"]


def test_a_snapshot_keeps_other_files_in_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chapter-1" / "figures").mkdir(parents=True)
    (tmp_path / "sources").mkdir()
    monkeypatch.chdir(tmp_path)
    with Broker(topics=["trucks"], data=".") as kafka:
        with kafka.snapshot():
            kafka.produce("trucks", ["inside"])
            (tmp_path / "notes").write_text("written inside")
        assert texts(kafka) == []
    assert (tmp_path / "notes").read_text() == "written inside"
    assert (tmp_path / "sources").exists()
    assert (tmp_path / "chapter-1" / "figures").exists()
    assert left_of_copies(tmp_path) == []


def test_the_directory_can_be_a_symbolic_link(tmp_path: Path) -> None:
    elsewhere = make_directory()  # in memory
    link = tmp_path / "link"
    link.symlink_to(elsewhere)
    with Broker(topics=["trucks"], data=link) as kafka:
        kafka.produce("trucks", ["before"])
        with kafka.snapshot():
            kafka.produce("trucks", ["inside"])
        assert texts(kafka) == ["before"]
    assert link.is_symlink()
    remove_directory(elsewhere)


def test_a_relative_directory_is_resolved_at_construction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Broker(topics=["trucks"], data="data") as kafka:
        kafka.produce("trucks", ["kept"])
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
        kafka.restart()
        assert texts(kafka) == ["kept"]


def test_a_failed_restore_leaves_the_data_unchanged(tmp_path: Path) -> None:
    its_own = "partition.metadata"
    copied = {f"copy/trucks-0/{its_own}", f"copy/ships-0/{its_own}", "copy/notes/copied"}
    held = {f"trucks-0/{its_own}", f"trucks-1/{its_own}", "notes/in the way"}
    for name in held | copied:
        (tmp_path / name).mkdir(parents=True)
    with pytest.raises(OSError, match="notes"):
        replace_content(tmp_path, tmp_path / "copy")
    innermost = (it for it in tmp_path.rglob("*") if not list(it.iterdir()))
    assert {str(it.relative_to(tmp_path)) for it in innermost} == held | copied


def test_saved_data_can_be_given_to_a_broker(kafka: Broker, tmp_path: Path) -> None:
    kafka.save(tmp_path / "new" / "directory")
    with Broker(data=tmp_path / "new" / "directory") as other:
        assert texts(other) == ["seed"]


def test_save_rejects_a_directory_with_files(kafka: Broker, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(FileExistsError, match="is not empty"):
        kafka.save(tmp_path)
    assert [it.name for it in tmp_path.iterdir()] == ["notes"]


def test_a_fork_gets_its_own_port() -> None:
    from confluent_kafka.admin import AdminClient

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"PLAINTEXT://127.0.0.1:{port}"
    chosen = {"listeners": address, "advertised.listeners": address}
    with Broker(["trucks"], chosen) as kafka:
        kafka.produce("trucks", ["seed"])
        with kafka.fork() as other:
            assert kafka.port == port != other.port
            assert texts(other) == ["seed"]
            described = AdminClient({"bootstrap.servers": other.bootstrap}).list_topics(timeout=10)
            assert [it.port for it in described.brokers.values()] == [other.port]


def test_a_fork_shares_sealed_segments() -> None:
    with Broker(topics={"trucks": 10}) as kafka:
        kafka.produce("trucks", [b"x" * 100] * MANY)
        began = time.process_time()
        other = kafka.fork()
        assert time.process_time() - began < COPY_SECONDS_MAX
        with other:
            assert len(other.records("trucks")) == MANY
        began = time.process_time()
        with kafka.snapshot():
            pass
        assert time.process_time() - began < COPY_SECONDS_MAX
        assert len(kafka.records("trucks")) == MANY
