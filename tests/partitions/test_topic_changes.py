"""Partitions of a node when topics are created and deleted."""

import errno
from pathlib import Path

import pytest

from pykbroker.generation import Generation
from pykbroker.metadata.image import ClusterImage, PartitionImage, TopicImage
from pykbroker.partitions.partition_registry import Partitions, log_configuration
from tests.partitions.local_partitions import LocalPartitions

HERE, TOPIC = 1, "trucks"


@pytest.fixture
def partitions(tmp_path: Path) -> Partitions:
    local = LocalPartitions(tmp_path)
    return Partitions(
        node_id=HERE,
        directory=local.directory,
        settings=local.settings,
        clock=local.clock,
        generation=Generation(),
    )


def topic(topic_id: bytes) -> TopicImage:
    return TopicImage(
        name=TOPIC,
        id=topic_id,
        partitions=(
            PartitionImage(
                index=0,
                replicas=(HERE,),
                in_sync=(HERE,),
                leader=HERE,
                leader_epoch=0,
                partition_epoch=0,
                directories=(bytes(16),),
            ),
        ),
    )


def test_a_deleted_topic_is_unknown_by_name_and_by_id(partitions: Partitions) -> None:
    image, first = ClusterImage(cluster_id="c", controller_id=HERE), topic(b"1" * 16)
    partitions.apply_metadata(image, [first])
    assert partitions.topic_name(first.id) == TOPIC
    assert partitions.get(TOPIC, 0) is not None
    partitions.drop(first)
    assert partitions.topic_name(first.id) is None
    assert partitions.get(TOPIC, 0) is None
    assert len(partitions) == 0
    partitions.directory.abandon()


def test_a_recreated_topic_survives_the_deletion_of_the_previous_one(
    partitions: Partitions,
) -> None:
    image = ClusterImage(cluster_id="c", controller_id=HERE)
    first, second = topic(b"1" * 16), topic(b"2" * 16)
    partitions.apply_metadata(image, [first])
    partitions.drop(first)
    partitions.apply_metadata(image, [second])
    partitions.drop(first)  # repeated
    assert partitions.topic_name(second.id) == TOPIC
    assert partitions.topic_name(first.id) is None
    found = partitions.get(TOPIC, 0)
    assert found is not None
    assert found.topic_id == second.id
    partitions.directory.abandon()


def test_a_log_whose_topic_id_was_never_restored_is_deleted_with_its_topic(
    partitions: Partitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a new topic with the same name would serve the old records."""
    image, first = ClusterImage(cluster_id="c", controller_id=HERE), topic(b"1" * 16)
    directory = partitions.directory
    directory.create_log(
        (TOPIC, 0),
        topic_id=first.id,
        configuration=log_configuration(partitions.settings.topic_defaults),
        now_ms=0,
    )
    directory._topic_ids[TOPIC, 0] = None  # partition.metadata is corrupt

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(directory, "write_topic_id", fail)
    partitions.apply_metadata(image, [first])
    assert partitions.get(TOPIC, 0) is None
    partitions.drop(first)
    assert (TOPIC, 0) not in directory
    directory.abandon()


def test_the_log_of_a_partition_is_deleted_after_a_reassignment_to_other_brokers(
    partitions: Partitions,
) -> None:
    image, ours = ClusterImage(cluster_id="c", controller_id=HERE), topic(b"1" * 16)
    partitions.apply_metadata(image, [ours])
    led = partitions.get(TOPIC, 0)
    assert led is not None
    moved = moved_away(ours)
    for _ in range(2):  # the second time there is nothing to delete
        partitions.apply_metadata(image, [moved])
        assert partitions.get(TOPIC, 0) is None
        assert (TOPIC, 0) not in partitions.directory
        assert led.log.is_closed
        assert not led.leads
    partitions.directory.abandon()


def moved_away(before: TopicImage) -> TopicImage:
    (partition,) = before.partitions
    after = PartitionImage(
        index=0,
        replicas=(2,),
        in_sync=(2,),
        leader=2,
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
        directories=(bytes(16),),
    )
    return TopicImage(name=before.name, id=before.id, partitions=(after,))
