"""Outcomes of commands are in the log, and the log loads the image."""

import asyncio
import errno
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykbroker.controller.controller import Controller
from pykbroker.controller.decision import Decision
from pykbroker.controller.leader_log import LeaderLog
from pykbroker.controller_access import (
    BrokerRegistration,
    ConfigurationChange,
    FeatureUpdate,
    NewPartitions,
    NewTopic,
    UpgradeType,
)
from pykbroker.generators import run_to_end
from pykbroker.metadata.batches import records_of
from pykbroker.metadata.image import ClusterImage, ImageDelta, TopicImage
from pykbroker.metadata.replay import InconsistentRecord, replay
from pykbroker.metadata_log.metadata_log import CannotLoadMetadata
from pykbroker.metadata_log.snapshot_files import newest_snapshot
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.metadata.cluster import FeatureLevelRecord
from pykbroker_protocol.metadata.security import ClientQuotaRecord
from pykbroker_protocol.metadata.topics import TopicRecord
from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_storage.filesystem import LOCAL_DISK, FileSystem
from tests.controller.conftest import CLUSTER_ID
from tests.metadata.replaying import apply
from tests.storage.disks import without_descriptors

TOPIC, BROKER = 2, 4


def contents(image: ClusterImage) -> dict[str, object]:
    return {name: getattr(image, name) for name in ClusterImage.__slots__ if name != "offset"}


def reloaded(controller: Controller) -> ClusterImage:
    """Returns the image that the log loads."""
    image = ClusterImage(
        cluster_id=controller.image.cluster_id, controller_id=controller.image.controller_id
    )
    controller.log.load(image)
    return image


def epochs(controller: Controller) -> list[tuple[str, int, int]]:
    return [
        (topic.name, partition.index, partition.leader_epoch)
        for topic in controller.image.topics.values()
        for partition in topic.partitions
    ]


async def test_a_topic_exists_after_a_restart(node: Any) -> None:
    controller = await node.start()
    (made,) = await controller.create_topics([NewTopic(name="kept", partitions=2)])
    await node.stop(controller)
    again = await node.start()
    assert again.image.topics == {"kept": made}
    assert again.image.topics_by_id == {made.id: made}


async def test_validate_only_appends_no_records(node: Any) -> None:
    controller = await node.start()
    end = controller.log.end_offset
    (made,) = await controller.create_topics([NewTopic(name="maybe")], validate_only=True)
    assert isinstance(made, TopicImage)
    assert controller.log.end_offset == end
    assert not controller.image.topics


async def test_a_delta_is_delivered_before_the_command_returns(node: Any) -> None:
    controller = await node.start()
    seen: list[ImageDelta] = []
    controller.subscribe(seen.append)
    (made,) = await controller.create_topics(
        [NewTopic(name="watched", configuration={"retention.ms": "5"})]
    )
    assert list(seen[0].topics) == ["watched"]
    assert seen[0].configurations == {(TOPIC, "watched"): {"retention.ms": "5"}}
    await controller.create_partitions([NewPartitions(name="watched", count=3)])
    assert [len(it.partitions) for it in seen[1].topics.values()] == [3]
    await controller.delete_topics([made.id])
    assert [it.name for it in seen[2].topics_deleted] == ["watched"]
    assert len(seen) == 3


async def test_a_command_succeeds_if_a_subscriber_fails(
    node: Any, caplog: pytest.LogCaptureFixture
) -> None:
    controller = await node.start()
    seen: list[ImageDelta] = []

    def fail(_: ImageDelta) -> None:
        raise OSError(28, "No space left on device")

    controller.subscribe(fail)
    controller.subscribe(seen.append)
    (made,) = await controller.create_topics([NewTopic(name="stubborn")])
    assert isinstance(made, TopicImage)
    assert len(seen) == 1
    assert "is committed but the broker did not apply it" in caplog.text


async def test_a_rejected_command_delivers_no_delta(node: Any) -> None:
    controller = await node.start()
    seen: list[ImageDelta] = []
    controller.subscribe(seen.append)
    (refused,) = await controller.delete_topics(["never"])
    assert isinstance(refused, Refusal)
    assert not seen


async def test_concurrent_commands_are_decided_one_after_the_other(node: Any) -> None:
    controller = await node.start()
    outcomes = await asyncio.gather(
        *(controller.create_topics([NewTopic(name="contested")]) for _ in range(5))
    )
    assert [isinstance(it, TopicImage) for (it,) in outcomes] == [True] + [False] * 4


async def test_producer_id_blocks_do_not_overlap_after_a_crash(node: Any) -> None:
    controller = await node.start()
    first = await controller.allocate_producer_ids()
    assert isinstance(first, range)
    assert await controller.allocate_producer_ids() == range(first.stop, first.stop + 1000)
    node.crash()
    again = await node.start()
    assert await again.allocate_producer_ids() == range(2000, 3000)


async def test_dynamic_broker_properties_apply_to_later_commands(node: Any) -> None:
    controller = await node.start()
    lag = ("log.cleaner.min.compaction.lag.ms", 0, "1000")
    change = ConfigurationChange(resource_type=BROKER, name="", operations=[lag])
    assert await controller.alter_configurations([change]) == [None]
    (refused,) = await controller.create_topics(
        [NewTopic(name="lagging", configuration={"max.compaction.lag.ms": "10"})]
    )
    assert isinstance(refused, Refusal)
    assert "min.compaction.lag.ms (1000) > max.compaction.lag.ms (10)" in (refused.message or "")


async def test_a_volatile_metadata_log_is_not_flushed(
    node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LeaderLog, "commit", None)
    controller = await node.start(durable=False)
    await controller.create_topics([NewTopic(name="brief")])
    node.crash()  # of the process; the machine still has it
    assert list((await node.start(durable=False)).image.topics) == ["brief"]


# --- restarts


async def test_each_start_is_a_new_epoch_and_incarnation_of_the_broker(node: Any) -> None:
    first = await node.start()
    before, epoch = first.image.brokers[1], first.log.epoch
    await node.stop(first)
    second = await node.start()
    after = second.image.brokers[1]
    assert second.log.epoch == epoch + 1
    assert after.epoch > before.epoch
    assert after.incarnation_id != before.incarnation_id
    assert after.directories == before.directories
    assert not after.fenced


async def test_leader_epochs_stay_after_a_clean_stop(node: Any) -> None:
    controller = await node.start()
    await controller.create_topics([NewTopic(name="led", partitions=2)])
    await node.stop(controller)
    assert epochs(await node.start()) == [("led", 0, 0), ("led", 1, 0)]


async def test_leader_epochs_grow_after_a_crash(node: Any) -> None:
    controller = await node.start()
    await controller.create_topics([NewTopic(name="led", partitions=2)])
    node.crash()
    assert epochs(await node.start()) == [("led", 0, 1), ("led", 1, 1)]


async def test_leader_epochs_of_2500_partitions_grow_after_a_crash(node: Any) -> None:
    controller = await node.start()
    await controller.create_topics([NewTopic(name="wide", partitions=2_500)])
    node.crash()
    assert {epoch for _, _, epoch in epochs(await node.start())} == {1}


@pytest.mark.parametrize("cut", [1, 40, 120])
async def test_a_torn_log_tail_loses_the_last_command_completely(node: Any, cut: int) -> None:
    controller = await node.start()
    await controller.create_topics([NewTopic(name="safe")])
    await controller.create_topics([NewTopic(name="torn", partitions=2)])
    node.crash()
    log = node.metadata / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-cut])
    again = await node.start()
    assert list(again.image.topics) == ["safe"]
    assert contents(reloaded(again)) == contents(again.image)


async def test_a_missing_quorum_state_is_restored_from_the_log(node: Any) -> None:
    controller = await node.start()
    epoch = controller.log.epoch
    await node.stop(controller)
    (node.metadata / "quorum-state").unlink()
    assert (await node.start()).log.epoch == epoch + 1


async def test_a_start_with_a_corrupt_quorum_state_fails(node: Any) -> None:
    await node.stop(await node.start())
    (node.metadata / "quorum-state").write_text("{}")
    with pytest.raises(CannotLoadMetadata, match="quorum-state"):
        await node.start()


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (ClientQuotaRecord(entity=[], key="k", value=1.0, remove=False), "ClientQuotaRecord"),
        (
            FeatureLevelRecord(name="share.version", feature_level=2),
            "share.version is finalized at level 2; this node supports levels 0 to 1",
        ),
        (
            FeatureLevelRecord(name="metadata.version", feature_level=31),
            "metadata.version is finalized at level 31; this node supports levels 30 to 30",
        ),
    ],
)
async def test_a_start_with_unsupported_metadata_fails(
    node: Any, record: Any, message: str
) -> None:
    controller = await node.start()
    run_to_end(controller.log.append([record], now_ms=0))
    node.crash()
    with pytest.raises(CannotLoadMetadata, match=message):
        await node.start()


async def test_the_batches_of_the_log_replay_to_the_image_of_a_subscriber(node: Any) -> None:
    """A broker in another process reads the batches in place of the deltas."""
    controller = await node.start()
    delivered: ClusterImage = controller.subscribe(lambda delta: delivered.apply(delta))  # noqa: PLW0108
    await controller.create_topics(
        [NewTopic(name=name, partitions=2, configuration={"retention.ms": "5"}) for name in "abc"]
    )
    await controller.delete_topics(["b"])
    await controller.create_partitions([NewPartitions(name="a", count=3)])
    await controller.register_broker(registration(2))
    await controller.allocate_producer_ids()
    image = ClusterImage(cluster_id=CLUSTER_ID, controller_id=1)
    found = controller.log.log.read(0, bytes_max=1 << 20, end_offset=controller.log.end_offset)
    for batch in iterate_batches(found.view):
        delta = replay(image, records_of(batch), last_offset=batch.next_offset - 1)
        image.apply(run_to_end(delta))
    assert contents(image) == contents(delivered)
    assert image.offset == delivered.offset == controller.log.end_offset - 1


# --- file descriptors


async def test_metadata_changes_need_no_free_descriptor(node: Any) -> None:
    controller = await node.start()
    with without_descriptors():
        await controller.create_topics([NewTopic(name="a")])
        await controller.allocate_producer_ids()
    assert list(controller.image.topics) == ["a"]


async def test_other_logs_do_not_use_the_descriptors_of_the_metadata_log(node: Any) -> None:
    controller = await node.start()
    while node.directory._open_files.release_least_recent():
        pass
    with without_descriptors():
        await controller.create_topics([NewTopic(name="a")])
    assert list(controller.image.topics) == ["a"]


async def test_a_commit_waits_for_a_file_descriptor(
    node: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The new segment's name must be flushed, and a directory cannot be kept open."""
    controller = await node.start()
    monkeypatch.setattr("pykbroker.controller.controller.FLUSH_RETRY_SECONDS", 0)
    failures = [errno.EMFILE, errno.ENFILE, errno.EMFILE]
    sync_directory = FileSystem.sync_directory

    def sync(disk: FileSystem, path: str) -> None:
        if failures:
            raise OSError(failures.pop(), "no descriptor")
        sync_directory(disk, path)

    monkeypatch.setattr(FileSystem, "sync_directory", sync)
    controller.log.log.roll(now_ms=0)
    for name in ("a", "b"):
        (created,) = await controller.create_topics([NewTopic(name=name)])
        assert not isinstance(created, Refusal)
    assert not failures
    assert caplog.text.count("no file descriptor") == 1
    node.crash()
    assert list((await node.start()).image.topics) == ["a", "b"]


async def test_metadata_changes_are_rejected_after_a_failed_fsync(
    node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = await node.start()

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(FileSystem, "fdatasync", staticmethod(fail))
        await controller.create_topics([NewTopic(name="a")])
    (refusal,) = await controller.create_topics([NewTopic(name="b")])
    assert isinstance(refusal, Refusal)
    assert refusal.code == ErrorCode.KAFKA_STORAGE_ERROR


# --- snapshots


async def test_a_snapshot_and_later_records_load_the_same_image(node: Any) -> None:
    controller = await node.start(snapshot_after_bytes=2_000)
    for number in range(40):
        await controller.create_topics(
            [NewTopic(name=f"t{number}", partitions=2, configuration={"retention.ms": "9"})]
        )
    await controller.close()
    assert newest_snapshot(LOCAL_DISK, str(node.metadata)) is not None
    assert len(list(node.metadata.glob("*.checkpoint"))) == 1
    assert controller.log.log.log_start_offset > 0
    assert contents(reloaded(controller)) == contents(controller.image)
    node.crash()
    again = await node.start()
    assert list(again.image.topics) == [f"t{number}" for number in range(40)]


async def test_a_log_shorter_than_its_snapshot_continues_after_it(node: Any) -> None:
    controller = await node.start(snapshot_after_bytes=1)
    await controller.create_topics([NewTopic(name="covered")])
    await controller.close()
    end = controller.log.end_offset
    node.crash()
    for segment in node.metadata.glob("*.log"):
        segment.unlink()
    again = await node.start()
    assert list(again.image.topics) == ["covered"]
    assert again.log.end_offset > end


async def test_a_large_image_fits_into_a_snapshot(node: Any) -> None:
    controller = await node.start(snapshot_after_bytes=50_000)
    (node.metadata / "00000000000000000009-0000000001.checkpoint.part").touch()
    await controller.create_topics([NewTopic(name="wide", partitions=3_000)])
    await controller.allocate_producer_ids()
    await controller.close()
    assert newest_snapshot(LOCAL_DISK, str(node.metadata)) is not None
    assert not list(node.metadata.glob("*.part"))
    assert contents(reloaded(controller)) == contents(controller.image)


async def test_a_failed_snapshot_deletes_no_records(
    node: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    controller = await node.start(snapshot_after_bytes=2_000)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(controller.log), "write_snapshot", fail)
    await controller.create_topics([NewTopic(name="wide", partitions=100)])
    await controller.close()
    assert "metadata log: snapshot failed (" in caplog.text
    assert controller.log.log.log_start_offset == 0
    assert contents(reloaded(controller)) == contents(controller.image)


@pytest.mark.parametrize("damage", ["missing", "cut", "flipped"])
async def test_a_start_with_a_corrupt_snapshot_fails(node: Any, damage: str) -> None:
    controller = await node.start(snapshot_after_bytes=1)
    await controller.create_topics([NewTopic(name="covered")])
    await controller.close()
    node.crash()
    (snapshot,) = node.metadata.glob("*.checkpoint")
    data = bytearray(snapshot.read_bytes())
    if damage == "missing":
        snapshot.unlink()
    elif damage == "cut":
        snapshot.write_bytes(data[: -len(data) // 3])
    else:
        data[200] ^= 1
        snapshot.write_bytes(data)
    with pytest.raises(CannotLoadMetadata):
        await node.start()


# --- failures during a command


async def test_a_cancelled_command_is_committed_and_replayed(
    node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = await node.start()
    may_commit, is_committing = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def commit_later() -> None:
        loop.call_soon_threadsafe(is_committing.set)
        assert may_commit.wait(timeout=10)

    monkeypatch.setattr(type(controller.log), "commit", lambda _: commit_later())
    sender = asyncio.create_task(controller.create_topics([NewTopic(name="orphan")]))
    await is_committing.wait()
    sender.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sender
    assert not controller.image.topics
    may_commit.set()
    await controller.close()
    assert list(controller.image.topics) == ["orphan"]
    assert contents(reloaded(controller)) == contents(controller.image)


async def is_refused_with_storage_error(controller: Controller, topic: str) -> bool:
    (outcome,) = await controller.create_topics([NewTopic(name=topic)])
    return isinstance(outcome, Refusal) and outcome.code is ErrorCode.KAFKA_STORAGE_ERROR


async def test_records_of_a_failed_flush_can_be_in_the_log_after_a_crash(
    node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = await node.start()

    def fail(_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(type(controller.log), "commit", fail)
        assert await is_refused_with_storage_error(controller, "unanswered")
    assert not controller.image.topics
    # The image may be behind the log from here on.
    assert await is_refused_with_storage_error(controller, "another")
    node.crash()
    assert list((await node.start()).image.topics) == ["unanswered"]


async def test_a_failed_append_has_no_effect(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    controller = await node.start()

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(type(controller.log), "append", fail)
        assert await is_refused_with_storage_error(controller, "no-room")
        assert await is_refused_with_storage_error(controller, "room")
        refusal = await controller.allocate_producer_ids()
        assert isinstance(refusal, Refusal)
        assert refusal.code is ErrorCode.KAFKA_STORAGE_ERROR
    await controller.create_topics([NewTopic(name="room")])
    assert contents(reloaded(controller)) == contents(controller.image)


@pytest.mark.parametrize(
    "command",
    [
        lambda it: it.unregister_broker(2),
        lambda it: it.update_features(
            [
                FeatureUpdate(
                    name="transaction.version", level=1, upgrade_type=UpgradeType.SAFE_DOWNGRADE
                )
            ]
        ),
        lambda it: it.register_broker(registration(3)),
    ],
    ids=["unregister broker", "update features", "register broker"],
)
async def test_a_command_that_cannot_be_committed_returns_a_refusal(
    node: Any, monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    controller = await node.start()
    await controller.register_broker(registration(2))

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(controller.log), "append", fail)
    refusal = await command(controller)
    assert isinstance(refusal, Refusal)
    assert refusal.code is ErrorCode.KAFKA_STORAGE_ERROR


def registration(broker_id: int) -> BrokerRegistration:
    return BrokerRegistration(
        broker_id=broker_id,
        incarnation_id=bytes(16),
        listeners={},
        rack=None,
        directories=(bytes(15) + bytes([broker_id]),),
    )


# --- any commands in any order

names = st.sampled_from(["a", "b", "c.d", "c_d", "bad name"])
values = st.sampled_from(["5", "-1", "x"])
commands = st.lists(
    st.one_of(
        st.tuples(st.just("create"), names, st.integers(-1, 3)),
        st.tuples(st.just("delete"), names, st.none()),
        st.tuples(st.just("grow"), names, st.integers(0, 5)),
        st.tuples(st.just("configure"), names, values),
        st.tuples(st.just("unconfigure"), names, st.none()),
        st.tuples(st.just("number"), names, st.none()),
        st.tuples(st.just("restart"), names, st.booleans()),
    ),
    max_size=20,
)


async def run(controller: Controller, command: tuple[str, str, Any]) -> None:
    kind, name, argument = command
    match kind:
        case "create":
            await controller.create_topics([NewTopic(name=name, partitions=argument)])
        case "delete":
            await controller.delete_topics([name])
        case "grow":
            await controller.create_partitions([NewPartitions(name=name, count=argument)])
        case "configure" | "unconfigure":
            operation = ("retention.ms", 0 if kind == "configure" else 1, argument)
            await controller.alter_configurations(
                [ConfigurationChange(resource_type=TOPIC, name=name, operations=[operation])]
            )
        case "number":
            await controller.allocate_producer_ids()


@given(commands, st.sampled_from([300, 1 << 30]))
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_the_log_loads_the_live_image(
    tmp_path_factory: pytest.TempPathFactory,
    node: Any,
    steps: list[tuple[str, str, Any]],
    snapshot_after_bytes: int,
) -> None:
    async def scenario() -> None:
        node.path = tmp_path_factory.mktemp("replay") / "data"
        controller = await node.start(snapshot_after_bytes=snapshot_after_bytes)
        for step in steps:
            if step[0] == "restart":
                before = contents(controller.image)["topics_by_id"]
                await controller.close()
                if step[2]:
                    await node.stop(controller)
                else:
                    node.crash()
                controller = await node.start(snapshot_after_bytes=snapshot_after_bytes)
                assert list(controller.image.topics_by_id) == list(before)  # type: ignore[call-overload]  # a dict
            else:
                await run(controller, step)
        await controller.close()
        assert contents(reloaded(controller)) == contents(controller.image)
        node.crash()

    asyncio.run(scenario())


def test_a_topic_record_alone_is_a_topic_without_partitions() -> None:
    image = ClusterImage(cluster_id="test")
    apply(image, TopicRecord(name="bare", topic_id=bytes(16)))
    assert image.topics["bare"].partitions == ()


async def test_a_topic_given_by_name_and_by_id_is_deleted_once(node: Any) -> None:
    controller = await node.start()
    (made,) = await controller.create_topics([NewTopic(name="brief")])
    outcomes = await controller.delete_topics(["brief", made.id])
    assert outcomes == [made, Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")]
    assert reloaded(controller).topics == {}


async def test_records_that_do_not_fit_the_image_are_not_appended(node: Any) -> None:
    controller = await node.start()
    (made,) = await controller.create_topics([NewTopic(name="kept")])
    end = controller.log.end_offset
    inconsistent = Decision([TopicRecord(name="kept", topic_id=bytes(16))], None)
    with pytest.raises(InconsistentRecord):
        await controller._execute(lambda: inconsistent)
    assert controller.log.end_offset == end
    assert reloaded(controller).topics == {"kept": made}
