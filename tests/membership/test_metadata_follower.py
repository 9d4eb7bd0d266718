"""The metadata follower under controllers of the model: following, applying and refusing."""

import asyncio
import logging
from collections.abc import Callable, Sequence

import pytest

from pykbroker.address import Address
from pykbroker.membership.metadata_follower import CannotFollowMetadata
from pykbroker.metadata.image import ImageDelta
from pykbroker.testing.simulation.controller_model import StartController
from pykbroker.testing.simulation.controller_model.model import CLUSTER_ID
from pykbroker_protocol.metadata.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    ZkMigrationStateRecord,
)
from pykbroker_protocol.metadata.security import (
    RemoveAccessControlEntryRecord,
)
from pykbroker_protocol.metadata.topics import ConfigRecord, TopicRecord
from pykbroker_protocol.records.builder import BatchBuilder
from tests.membership.conftest import Followers
from tests.membership.followed_cluster import ACL, DEADLINE_SECONDS, Cluster, is_true


@pytest.fixture
async def cluster(controller_model: StartController, followers: Followers) -> Cluster:
    return Cluster(await controller_model(controller_ids=(3000, 3001)), followers)


def names(deltas: list[ImageDelta]) -> list[list[str]]:
    return [sorted(it.topics) for it in deltas]


async def test_deltas_continue_the_image_that_subscribe_returns(cluster: Cluster) -> None:
    follower = await cluster.follow()
    deltas: list[ImageDelta] = []
    image = follower.subscribe(deltas.append)
    await cluster.create_topic("orders")
    await cluster.applied()
    await cluster.create_topic("payments")
    await cluster.applied()
    for delta in deltas:
        image.apply(delta)
    assert names(deltas) == [["orders"], ["payments"]]
    assert image.topics == follower.image.topics
    assert image.offset == follower.offset == cluster.model.log.end_offset - 1


async def test_a_delta_waits_until_the_subscriber_has_applied_the_one_before(
    cluster: Cluster,
) -> None:
    follower = await cluster.follow()
    applying = asyncio.Event()
    deltas: list[ImageDelta] = []

    async def apply(delta: ImageDelta) -> None:
        deltas.append(delta)
        await applying.wait()

    follower.subscribe(apply)
    before = follower.offset
    await cluster.create_topic("orders")
    await is_true(lambda: bool(deltas))
    await cluster.create_topic("payments")
    assert names(deltas) == [["orders"]]
    assert follower.offset == before
    assert not follower.is_caught_up
    applying.set()
    await cluster.applied()
    assert names(deltas) == [["orders"], ["payments"]]


async def test_a_subscriber_that_raises_is_logged_and_gets_the_next_delta(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    follower = await cluster.follow()
    deltas: list[ImageDelta] = []

    def fail(delta: ImageDelta) -> None:
        deltas.append(delta)
        raise RuntimeError("no")

    follower.subscribe(fail)
    await cluster.create_topic("orders")
    await cluster.applied()
    await cluster.create_topic("payments")
    await cluster.applied()
    assert names(deltas) == [["orders"], ["payments"]]
    assert "but the broker did not apply it" in caplog.text


async def test_records_without_an_effect_advance_only_the_offset(cluster: Cluster) -> None:
    follower = await cluster.follow()
    deltas: list[ImageDelta] = []
    follower.subscribe(deltas.append)
    before = follower.image.offset
    last = cluster.append(NoOpRecord(), NoOpRecord(), ZkMigrationStateRecord(zk_migration_state=0))
    cluster.model.commit()
    await cluster.applied(last)
    assert follower.offset == last
    assert follower.image.offset == before
    assert deltas == []


async def test_uncommitted_records_are_on_disk_and_not_applied(cluster: Cluster) -> None:
    follower = await cluster.follow()
    applied = follower.offset
    last = cluster.append(TopicRecord(name="orders", topic_id=b"o" * 16))
    await is_true(lambda: follower.log.end_offset == last + 1)
    assert follower.offset == applied
    assert "orders" not in follower.image.topics
    cluster.model.commit()
    await cluster.applied(last)
    assert "orders" in follower.image.topics


async def test_uncommitted_records_that_a_new_leader_lacks_are_truncated(cluster: Cluster) -> None:
    follower = await cluster.follow()
    last = cluster.append(
        *[ConfigRecord(resource_type=4, resource_name="", name="a", value="1")] * 3
    )
    await is_true(lambda: follower.log.end_offset == last + 1)
    cluster.model.elect(keeps_uncommitted=False)
    await cluster.create_topic("orders")
    await cluster.applied()
    assert "orders" in follower.image.topics
    assert (4, "7") not in follower.image.configurations
    await cluster.followers.stop()
    assert cluster.followers.log_bytes() == cluster.model.log.read(0, 1 << 20)


async def test_a_new_leader_is_followed_and_becomes_the_controller_of_the_image(
    cluster: Cluster,
) -> None:
    follower = await cluster.follow()
    deltas: list[ImageDelta] = []
    image = follower.subscribe(deltas.append)
    assert image.controller_id == 3000
    cluster.model.elect()
    await cluster.create_topic("orders")
    await cluster.applied()
    for delta in deltas:
        image.apply(delta)
    assert (follower.leader_id, follower.leader_epoch) == (3001, 2)
    assert image.controller_id == follower.image.controller_id == 3001


async def test_a_leader_that_cannot_be_reached_is_looked_for_at_all_controllers(
    cluster: Cluster,
) -> None:
    follower = await cluster.follow()
    await cluster.controllers.servers[0].stop()
    cluster.model.elect()
    await cluster.create_topic("orders")
    await cluster.applied()
    assert follower.leader_id == 3001


async def test_one_given_address_is_enough_to_find_the_other_controllers(
    cluster: Cluster,
) -> None:
    follower = cluster.follower = await cluster.followers.start(
        cluster.addresses[0], cluster_id=CLUSTER_ID
    )
    async with asyncio.timeout(DEADLINE_SECONDS):
        await follower.caught_up()
    await cluster.controllers.servers[0].stop()
    cluster.model.elect()
    await cluster.create_topic("orders")
    await cluster.applied()
    assert follower.leader_id == 3001


async def test_records_of_a_transaction_are_applied_at_its_end(cluster: Cluster) -> None:
    follower = await cluster.follow()
    before = follower.offset
    cluster.append(BeginTransactionRecord(), TopicRecord(name="a", topic_id=b"a" * 16))
    last = cluster.append(TopicRecord(name="b", topic_id=b"b" * 16))
    cluster.model.commit()
    await is_true(lambda: follower.high_watermark == last + 1 and follower.is_caught_up)
    assert follower.offset == before
    assert not follower.image.topics
    last = cluster.append(EndTransactionRecord())
    cluster.model.commit()
    await cluster.applied(last)
    assert set(follower.image.topics) == {"a", "b"}


async def test_records_of_an_aborted_transaction_are_dropped(cluster: Cluster) -> None:
    follower = await cluster.follow()
    cluster.append(BeginTransactionRecord(), TopicRecord(name="a", topic_id=b"a" * 16))
    last = cluster.append(AbortTransactionRecord(), TopicRecord(name="b", topic_id=b"b" * 16))
    cluster.model.commit()
    await cluster.applied(last)
    assert set(follower.image.topics) == {"b"}


async def test_another_cluster_is_refused_in_one_line(cluster: Cluster) -> None:
    follower = await cluster.begin(cluster_id="another-cluster-AAAAAA")
    with pytest.raises(CannotFollowMetadata, match=r"does not belong to cluster another[^\n]*$"):
        await asyncio.wait_for(follower.caught_up(), DEADLINE_SECONDS)
    failure = await follower.until_failed()
    assert not failure.follows


async def test_a_cluster_with_acls_is_refused(cluster: Cluster) -> None:
    cluster.append(ACL)
    cluster.model.commit()
    with pytest.raises(CannotFollowMetadata, match=r"ACLs \(number: 1\)"):
        await cluster.follow()


async def test_a_cluster_whose_acls_were_removed_is_accepted(cluster: Cluster) -> None:
    cluster.append(ACL)
    cluster.append(RemoveAccessControlEntryRecord(id=ACL.id))
    cluster.model.commit()
    await cluster.follow()


async def test_an_acl_that_arrives_later_requires_a_controlled_shutdown(cluster: Cluster) -> None:
    follower = await cluster.follow()
    cluster.append(ACL)
    cluster.model.commit()
    async with asyncio.timeout(DEADLINE_SECONDS):
        failure = await follower.until_failed()
    assert failure.follows
    assert "ACLs" in failure.reason
    last = cluster.append(TopicRecord(name="orders", topic_id=b"o" * 16))
    cluster.model.commit()
    await cluster.applied(last)
    assert "orders" in follower.image.topics


async def test_a_record_of_an_unknown_type_is_named(cluster: Cluster) -> None:
    follower = await cluster.follow()
    builder = BatchBuilder(
        base_offset=cluster.model.log.end_offset, partition_leader_epoch=cluster.model.epoch
    )
    builder.append(0, None, bytes([1, 77, 0, 0]))
    cluster.append_bytes(builder.build(), count=1)
    cluster.model.commit()
    async with asyncio.timeout(DEADLINE_SECONDS):
        failure = await follower.until_failed()
    assert not failure.follows
    assert "record type 77 is not supported" in failure.reason


def damaged(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def later(data: bytes) -> bytes:
    return (int.from_bytes(data[:8], "big") + 1).to_bytes(8, "big") + data[8:]


def of_a_newer_epoch(data: bytes) -> bytes:
    return data[:12] + (99).to_bytes(4, "big") + data[16:]


def cut(data: bytes) -> bytes:
    return data[:-1]


@pytest.mark.parametrize("damage", [damaged, later, of_a_newer_epoch, cut])
async def test_an_invalid_batch_is_not_appended_and_fetched_again(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, damage: Callable[[bytes], bytes]
) -> None:
    follower = await cluster.follow()
    end = follower.log.end_offset
    last = cluster.append(TopicRecord(name="orders", topic_id=b"o" * 16))
    log = cluster.model.log
    valid = log.batches[-1]
    log.batches[-1] = valid._replace(data=damage(valid.data))
    cluster.model.commit()
    await is_true(lambda: "Fetch from controller 3000 failed" in caplog.text)
    assert follower.log.end_offset == end
    log.batches[-1] = valid
    await cluster.applied(last)
    assert "orders" in follower.image.topics


async def test_a_disk_that_is_full_is_logged_and_retried(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = await cluster.follow()

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(type(follower.log), "append", fail)
        await cluster.create_topic("orders")
        await is_true(lambda: "No space left on device" in caplog.text)
    await cluster.applied()
    assert "orders" in follower.image.topics


async def test_controllers_that_lost_committed_records_end_the_follower(cluster: Cluster) -> None:
    follower = await cluster.follow()
    await cluster.create_topic("orders")
    await cluster.applied()
    model = cluster.model
    model.log.high_watermark = 1
    model.log.truncate(2)
    model.elect()
    model.commit()
    async with asyncio.timeout(DEADLINE_SECONDS):
        failure = await follower.until_failed()
    assert "have lost metadata" in failure.reason


async def test_controllers_that_do_not_answer_are_named_and_closing_ends_at_once(
    followers: Followers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    follower = await followers.start(Address("127.0.0.1", 1), Address("127.0.0.1", 2))
    await is_true(lambda: "no active controller found" in caplog.text)
    (line,) = [it.message for it in caplog.records if "no active controller" in it.message]
    assert "127.0.0.1:1 (connection refused)" in line
    assert "127.0.0.1:2 (connection refused)" in line
    waiting = asyncio.ensure_future(follower.caught_up())
    await asyncio.sleep(0)
    async with asyncio.timeout(1):
        await follower.close()
        with pytest.raises(CannotFollowMetadata, match="the broker is stopping"):
            await waiting


async def test_records_of_a_leader_that_was_deposed_meanwhile_are_discarded(
    cluster: Cluster,
) -> None:
    """The new epoch is known from another response before the records of the old one arrive."""
    follower = await cluster.follow()
    requests = cluster.controllers.servers[0].requests
    serve, is_held, is_released = requests.serve, asyncio.Event(), asyncio.Event()

    async def answer_late(frame: memoryview) -> Sequence[bytes | bytearray | memoryview]:
        response = await serve(frame)
        if b"orders" in b"".join(response):
            is_held.set()
            await is_released.wait()
        return response

    requests.serve = answer_late  # type: ignore[method-assign,assignment]
    end = follower.log.end_offset
    await cluster.create_topic("orders")
    if not is_held.is_set():  # the Fetch before it was served already
        await is_true(lambda: is_held.is_set() or follower.log.end_offset > end)
    if not is_held.is_set():
        end = follower.log.end_offset
        await cluster.create_topic("orders2")
        await is_held.wait()
    cluster.model.elect()
    host, port = cluster.model.endpoints[3001]
    follower._quorum.observed(3001, cluster.model.epoch, [(3001, Address(host, port))])
    is_released.set()
    await cluster.applied()
    assert "orders" in follower.image.topics
    fetched = cluster.fetched_offsets()
    assert fetched[fetched.index(end) :].count(end) >= 2  # again, from the new leader
