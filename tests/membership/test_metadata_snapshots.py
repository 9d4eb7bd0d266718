"""Snapshots and restarts of the metadata follower under controllers of the model."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from pykbroker.membership import quorum_fetch
from pykbroker.membership.metadata_follower import CannotFollowMetadata
from pykbroker.testing.simulation.controller_model import StartController
from pykbroker_protocol.messages.fetch_snapshot import FetchSnapshotRequest
from pykbroker_protocol.metadata.cluster import BeginTransactionRecord, EndTransactionRecord
from pykbroker_protocol.metadata.topics import ConfigRecord, TopicRecord
from tests.membership.conftest import Followers
from tests.membership.followed_cluster import ACL, DEADLINE_SECONDS, PARTITION, Cluster, is_true

if TYPE_CHECKING:
    from pykbroker.metadata.image import ImageDelta


@pytest.fixture
async def cluster(controller_model: StartController, followers: Followers) -> Cluster:
    return Cluster(await controller_model(controller_ids=(3000, 3001)), followers)


@pytest.mark.parametrize("part_bytes", [100, 1 << 20])
async def test_a_late_joiner_loads_a_snapshot_in_parts(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, part_bytes: int
) -> None:
    monkeypatch.setattr(quorum_fetch, "SNAPSHOT_PART_BYTES_MAX", part_bytes)
    await cluster.create_topic("orders")
    cluster.model.take_snapshot()
    await cluster.create_topic("payments")
    follower = await cluster.follow()
    await cluster.applied()
    assert set(follower.image.topics) == {"orders", "payments"}
    assert follower.image.topics == cluster.model.image.topics
    snapshot = cluster.model.log.snapshot
    assert snapshot is not None
    assert follower.log.start_offset == snapshot.name.end_offset
    installed = cluster.followers.metadata / snapshot.name.file_name
    assert installed.read_bytes() == snapshot.data
    parts = cluster.controllers.requests(FetchSnapshotRequest)
    assert len(parts) == -(-len(snapshot.data) // part_bytes)


@pytest.mark.parametrize("elections", [0, 3])
async def test_a_snapshot_delivers_the_difference_to_the_image_before(
    cluster: Cluster, elections: int
) -> None:
    """The epoch of the log before the snapshot must not outlive it."""
    await cluster.create_topic("orders")
    await cluster.create_topic("old")
    follower = await cluster.follow()
    deltas: list[ImageDelta] = []
    image = follower.subscribe(deltas.append)
    for server in cluster.controllers.servers:
        for connection in list(server.connections):
            connection.close()
    for _ in range(elections):
        cluster.model.elect()
    await cluster.delete_topic("old")
    await cluster.create_topic("new")
    cluster.model.take_snapshot()
    await cluster.applied()
    await cluster.create_topic("newer")
    await cluster.applied()
    for delta in deltas:
        image.apply(delta)
    assert set(image.topics) == {"orders", "new", "newer"}
    assert image.topics == cluster.model.image.topics
    assert image.offset == follower.offset


async def test_a_snapshot_replaces_records_of_a_deposed_leader(cluster: Cluster) -> None:
    """Their epoch is newer than that of the snapshot."""
    follower = await cluster.follow()
    await cluster.create_topic("orders")
    await cluster.applied()
    committed = cluster.model.log.high_watermark
    cluster.model.commit_delay_seconds = None
    cluster.model.elect()
    change = ConfigRecord(resource_type=4, resource_name="7", name="a", value="1")
    last = cluster.append(change)
    await is_true(lambda: follower.log.end_offset == last + 1)
    assert follower.high_watermark == committed
    await cluster.followers.stop()
    log = cluster.model.log
    log.truncate(committed)
    cluster.model.image = cluster.model._replayed()
    log.take_snapshot(cluster.model.image, 0)
    cluster.model.commit_delay_seconds = 0.0
    cluster.model.elect()
    await cluster.create_topic("payments")
    follower = await cluster.follow()
    await cluster.applied()
    assert set(follower.image.topics) == {"orders", "payments"}
    assert (4, "7") not in follower.image.configurations


async def test_an_unfinished_snapshot_is_deleted_by_the_next_start(cluster: Cluster) -> None:
    await cluster.follow()
    await cluster.followers.stop()
    left = cluster.followers.metadata / f"{9:020d}-{1:010d}.checkpoint.part"
    left.write_bytes(b"x")
    await cluster.follow()
    assert not left.exists()


async def test_a_large_replay_leaves_the_event_loop_responsive(cluster: Cluster) -> None:
    """The replay yields to the event loop after each slice of records."""
    for number in range(100):
        topic_id = number.to_bytes(16, "big")
        partitions = [
            PARTITION.replace(partition_id=index, topic_id=topic_id) for index in range(100)
        ]
        records = [TopicRecord(name=f"topic-{number}", topic_id=topic_id), *partitions]
        await cluster.execute(*records)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.ensure_future(count_turns())
    follower = await cluster.follow()
    counting.cancel()
    assert len(follower.image.topics) == 100
    assert turns >= 70


async def test_a_corrupt_snapshot_is_not_installed(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.create_topic("orders")
    cluster.model.take_snapshot()
    log = cluster.model.log
    whole = log.snapshot
    assert whole is not None
    log.snapshot = whole._replace(data=whole.data[:-20] + b"x" + whole.data[-19:])
    follower = await cluster.begin()
    await is_true(lambda: "is corrupt" in caplog.text)
    assert not list(cluster.followers.metadata.glob("*.checkpoint"))
    log.snapshot = whole
    async with asyncio.timeout(DEADLINE_SECONDS):
        await follower.caught_up()
    assert set(follower.image.topics) == {"orders"}


@pytest.mark.parametrize("is_clean", [True, False])
async def test_a_restart_fetches_only_newer_records(cluster: Cluster, *, is_clean: bool) -> None:
    await cluster.create_topic("orders")
    await cluster.follow()
    await cluster.applied()
    await (cluster.followers.stop() if is_clean else cluster.followers.crash())
    end = cluster.model.log.end_offset
    await cluster.create_topic("payments")
    cluster.model.received.clear()
    follower = await cluster.follow()
    await cluster.applied()
    assert min(cluster.fetched_offsets()) == end
    assert set(follower.image.topics) == {"orders", "payments"}


async def test_a_local_snapshot_shortens_the_log_and_the_next_start(cluster: Cluster) -> None:
    follower = await cluster.follow(snapshot_after_bytes=2000)
    for number in range(30):
        await cluster.create_topic(f"topic-{number}")
    await cluster.applied()
    await is_true(lambda: follower.log.start_offset > 0)
    snapshot = follower.log.snapshot
    assert snapshot is not None
    await cluster.followers.stop()
    cluster.model.received.clear()
    follower = await cluster.begin()
    assert follower.offset == snapshot.end_offset - 1
    assert len(follower.image.topics) > 10
    async with asyncio.timeout(DEADLINE_SECONDS):
        await follower.caught_up()
    assert follower.image.topics == cluster.model.image.topics
    assert min(cluster.fetched_offsets()) >= snapshot.end_offset


async def test_a_damaged_local_snapshot_is_fetched_again(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.create_topic("orders")
    cluster.model.take_snapshot()
    await cluster.follow()
    await cluster.followers.stop()
    (found,) = cluster.followers.metadata.glob("*.checkpoint")
    found.write_bytes(found.read_bytes()[:-10])
    follower = await cluster.follow()
    assert set(follower.image.topics) == {"orders"}
    assert "fetching all metadata again" in caplog.text


async def test_a_log_without_its_snapshot_is_fetched_again(cluster: Cluster) -> None:
    await cluster.create_topic("orders")
    cluster.model.take_snapshot()
    await cluster.create_topic("payments")
    await cluster.follow()
    await cluster.applied()
    await cluster.followers.stop()
    (found,) = cluster.followers.metadata.glob("*.checkpoint")
    found.unlink()
    follower = await cluster.follow()
    assert set(follower.image.topics) == {"orders", "payments"}


async def test_no_snapshot_is_taken_inside_of_a_transaction(cluster: Cluster) -> None:
    follower = await cluster.follow(snapshot_after_bytes=500)
    cluster.append(BeginTransactionRecord())
    for number in range(20):
        cluster.append(TopicRecord(name=f"topic-{number}", topic_id=number.to_bytes(16, "big")))
    cluster.model.commit()
    end = cluster.model.log.end_offset
    await is_true(lambda: follower.high_watermark == end and follower.is_caught_up)
    await cluster.followers.stop()
    cluster.append(EndTransactionRecord())
    cluster.model.commit()
    follower = await cluster.follow(snapshot_after_bytes=500)
    assert len(follower.image.topics) == 20


async def test_no_snapshot_loses_the_restrictions_of_the_cluster(cluster: Cluster) -> None:
    follower = await cluster.follow(snapshot_after_bytes=500)
    cluster.append(ACL)
    cluster.model.commit()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await follower.until_failed()
    for number in range(20):
        last = cluster.append(
            TopicRecord(name=f"topic-{number}", topic_id=number.to_bytes(16, "big"))
        )
    cluster.model.commit()
    await cluster.applied(last)
    await cluster.followers.stop()
    with pytest.raises(CannotFollowMetadata, match="ACLs"):
        await cluster.follow()
