"""Corrupt or missing cluster metadata loses no record: the broker refuses to start."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pykbroker.broker import Broker, CannotStart
from pykbroker.controller_access import NewTopic
from pykbroker.settings import load_settings
from pykbroker_storage.log import Log
from tests.storage.batches import NOW, append, records_from

METADATA = "__cluster_metadata-0"
TOPICS = ("orders", "payments", "trucks")


@dataclass
class Node:
    """A data directory with three topics, one record in each."""

    path: Path

    @property
    def log(self) -> Path:
        return self.path / METADATA / f"{0:020d}.log"

    async def start(self) -> Broker:
        values = {"log.dirs": str(self.path), "listeners": "PLAINTEXT://127.0.0.1:0"}
        return await Broker.start(load_settings({"node.id": "1", **values}))

    async def fill(self, *, cleanly: bool) -> None:
        broker = await self.start()
        for topic in TOPICS:
            await broker.controller.create_topics([NewTopic(name=topic)])
            append(the_log(broker, topic), topic.encode())
        await broker.stop()
        if not cleanly:
            (self.path / ".kafka_cleanshutdown").unlink()
            (self.path / "recovery-point-offset-checkpoint").unlink()

    def content(self) -> dict[str, bytes]:
        return {
            str(it.relative_to(self.path)): it.read_bytes()
            for it in self.path.rglob("*.log")
            if METADATA not in it.parts
        }


def the_log(broker: Broker, topic: str) -> Log:
    partition = broker.partitions.get(topic, 0)
    assert partition is not None
    return partition.log


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "data")


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def batch_starts(path: Path) -> list[int]:
    content, starts, at = path.read_bytes(), [], 0
    while at < len(content):
        starts.append(at)
        at += 12 + int.from_bytes(content[at + 8 : at + 12], "big")
    return starts


def flip_a_bit(node: Node) -> None:
    flip(node.log, 300)


def flip_a_length(node: Node) -> None:
    flip(node.log, batch_starts(node.log)[3] + 10)


def lose_the_folder(node: Node) -> None:
    shutil.rmtree(node.path / METADATA)


def lose_all_in_the_folder(node: Node) -> None:
    for path in (node.path / METADATA).iterdir():
        path.unlink()


def lose_the_log(node: Node) -> None:
    node.log.unlink()


def empty_the_log(node: Node) -> None:
    node.log.write_bytes(b"")


def zero_the_log(node: Node) -> None:
    node.log.write_bytes(bytes(node.log.stat().st_size))


def lose_meta_properties(node: Node) -> None:
    (node.path / "meta.properties").unlink()


def lose_the_first_batch(node: Node) -> None:
    content = node.log.read_bytes()
    node.log.write_bytes(content[batch_starts(node.log)[1] :])


DAMAGES = [
    flip_a_bit,
    flip_a_length,
    lose_the_folder,
    lose_all_in_the_folder,
    lose_the_log,
    empty_the_log,
    zero_the_log,
    lose_meta_properties,
    lose_the_first_batch,
]


@pytest.mark.parametrize("cleanly", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda it: str(it.__name__))
async def test_a_broker_with_lost_metadata_refuses_to_start_with_one_line(
    node: Node,
    damage: Callable[[Node], None],
    cleanly: bool,  # noqa: FBT001 - by name
) -> None:
    await node.fill(cleanly=cleanly)
    damage(node)
    before = node.content()
    for _ in range(2):
        with pytest.raises(CannotStart) as refusal:
            await node.start()
        assert "\n" not in str(refusal.value)
        assert "restore" in str(refusal.value)
    assert node.content() == before


async def test_a_metadata_log_below_its_recovery_point_is_refused(node: Node) -> None:
    await node.fill(cleanly=True)
    starts = batch_starts(node.log)
    node.log.write_bytes(node.log.read_bytes()[: starts[-2]])
    with pytest.raises(CannotStart, match="were flushed"):
        await node.start()
    (node.path / "recovery-point-offset-checkpoint").unlink()  # an older copy on purpose
    await (await node.start()).stop()


async def test_a_torn_end_of_the_metadata_log_is_truncated(node: Node) -> None:
    await node.fill(cleanly=False)
    node.log.write_bytes(node.log.read_bytes()[:-10])
    broker = await node.start()
    assert list(broker.image.topics) == ["orders", "payments"]
    await broker.stop()


# --- partitions that the metadata does not contain


async def start_without_topic(node: Node, topic: str) -> Broker:
    """Starts with a metadata log that ends before this topic was created."""
    await node.fill(cleanly=False)
    content = node.log.read_bytes()
    cut = max(at for at in batch_starts(node.log) if at < content.index(topic.encode()))
    node.log.write_bytes(content[:cut])
    return await node.start()


async def test_a_partition_missing_in_the_metadata_is_kept_as_a_stray(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    broker = await start_without_topic(node, "trucks")
    orders = the_log(broker, "orders")  # known topics are served
    assert [value for _, value in records_from(orders, 0)] == [b"orders"]
    (stray,) = node.path.glob("trucks-0.*-stray")
    assert f"; renamed to {stray}" in caplog.text
    await broker.controller.create_topics([NewTopic(name="trucks")])
    append(the_log(broker, "trucks"), b"new")
    broker.directory.sweep(NOW * 2)
    await broker.stop()
    caplog.clear()
    again = await node.start()
    assert [value for _, value in records_from(the_log(again, "trucks"), 0)] == [b"new"]
    assert b"trucks" in (stray / f"{0:020d}.log").read_bytes()
    assert f"folders of partitions that are not in the metadata: 1 ({stray.name})" in caplog.text
    await again.stop()


async def test_a_partition_with_another_topic_id_is_kept_as_a_stray(node: Node) -> None:
    await node.fill(cleanly=True)
    (node.path / "orders-0" / "partition.metadata").write_text(
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    )
    broker = await node.start()
    assert records_from(the_log(broker, "orders"), 0) == []
    (stray,) = node.path.glob("orders-0.*-stray")
    assert b"orders" in (stray / f"{0:020d}.log").read_bytes()
    await broker.stop()


async def test_two_strays_of_one_topic_id_have_different_folders(node: Node) -> None:
    broker = await start_without_topic(node, "trucks")
    await broker.stop()
    (stray,) = node.path.glob("trucks-0.*-stray")
    shutil.copytree(stray, node.path / "trucks-0")
    await (await node.start()).stop()
    assert len(list(node.path.glob("trucks-0.*-stray"))) == 2


@pytest.mark.parametrize("content", [None, b"", bytes(40)], ids=["missing", "empty", "zeros"])
async def test_a_lost_partition_metadata_file_is_written_again(
    node: Node, content: bytes | None
) -> None:
    await node.fill(cleanly=True)
    path = node.path / "orders-0" / "partition.metadata"
    before = path.read_bytes()
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    broker = await node.start()
    assert [value for _, value in records_from(the_log(broker, "orders"), 0)] == [b"orders"]
    await broker.stop()
    assert path.read_bytes() == before


async def test_the_records_of_a_stray_can_be_moved_into_a_new_topic(node: Node) -> None:
    """Follows the procedure in docs/operations.md."""
    broker = await start_without_topic(node, "trucks")
    await broker.controller.create_topics([NewTopic(name="trucks")])
    await broker.stop()
    (stray,) = node.path.glob("trucks-0.*-stray")
    folder = node.path / "trucks-0"
    topic_id = (folder / "partition.metadata").read_bytes()
    shutil.rmtree(folder)
    stray.rename(folder)
    (folder / "partition.metadata").write_bytes(topic_id)
    (node.path / ".kafka_cleanshutdown").unlink()
    again = await node.start()
    append(the_log(again, "trucks"), b"next")
    values = [value for _, value in records_from(the_log(again, "trucks"), 0)]
    assert values == [b"trucks", b"next"]
    await again.stop()


async def test_folders_without_partitions_are_not_touched(node: Node) -> None:
    (node.path / "chapter-1" / "figures").mkdir(parents=True)
    (node.path / "chapter-2").write_text("notes")
    await node.fill(cleanly=True)
    await (await node.start()).stop()
    assert (node.path / "chapter-1" / "figures").exists()
    assert (node.path / "chapter-2").exists()
