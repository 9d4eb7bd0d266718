"""The requests of followers have the versions and fields that leaders expect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pykbroker.replication.fetch_versions import fetch_version, list_offsets_version
from tests.replication.nodes import FOLLOWER, until
from tests.replication.scripted_leader import TOPIC, TOPIC_ID

if TYPE_CHECKING:
    from tests.replication.nodes import Follower
    from tests.replication.scripted_leader import ScriptedLeader

# metadata.version, Fetch, ListOffsets: printed by MetadataVersion of Apache Kafka 4.3.1.
VERSIONS = (
    (7, 13, 7),
    (8, 13, 7),
    (9, 14, 8),
    (10, 15, 8),
    (18, 15, 8),
    (19, 16, 8),
    (20, 16, 8),
    (21, 17, 9),
    (24, 17, 9),
    (25, 17, 10),
    (26, 17, 10),
    (27, 18, 10),
    (28, 18, 10),
    (29, 18, 11),
    (30, 18, 11),
)


@pytest.mark.parametrize(("level", "fetch", "list_offsets"), VERSIONS)
def test_metadata_version_determines_the_versions(
    level: int, fetch: int, list_offsets: int
) -> None:
    assert (fetch_version(level), list_offsets_version(level)) == (fetch, list_offsets)


@pytest.mark.parametrize(("level", "version"), [(7, 13), (10, 15), (30, 18)])
async def test_a_fetch_names_the_follower_and_its_epochs(
    level: int, version: int, leader: ScriptedLeader, follower: Follower
) -> None:
    led = leader.lead()
    led.epoch = 3
    led.append(b"a")
    follower.image.features["metadata.version"] = level
    follower.follow(TOPIC, TOPIC_ID, leader_epoch=3)
    await until(lambda: follower.partition(TOPIC).high_watermark == 1)
    count = len(leader.fetches)
    await until(lambda: len(leader.fetches) > count + 1)
    sent_version, request = leader.fetches[-1]
    assert sent_version == version
    if version >= 15:
        assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 7)
    else:
        assert request.replica_id == FOLLOWER
    assert (request.min_bytes, request.max_bytes) == (1, 10 << 20)
    partition = leader.last_request()
    assert partition.current_leader_epoch == 3
    assert (partition.fetch_offset, partition.last_fetched_epoch) == (1, 3)
    assert (partition.log_start_offset, partition.partition_max_bytes) == (0, 1 << 20)


async def test_an_upgrade_of_metadata_version_changes_the_version_of_the_next_fetch(
    leader: ScriptedLeader, follower: Follower
) -> None:
    leader.lead()
    follower.image.features["metadata.version"] = 20
    follower.follow(TOPIC, TOPIC_ID)
    await until(lambda: leader.fetches)
    follower.image.features["metadata.version"] = 30
    await until(lambda: leader.fetches[-1][0] == 18)
    assert leader.fetches[0][0] == 16


async def test_one_request_has_all_partitions_of_a_leader(
    leader: ScriptedLeader, follower: Follower
) -> None:
    for index in range(5):
        leader.lead(index).append(b"a")
    follower.follow(TOPIC, TOPIC_ID, partitions=5)
    await until(lambda: all(follower.partition(TOPIC, it).high_watermark for it in range(5)))
    _, request = leader.fetches[0]
    assert [it.partition for it in request.topics[0].partitions] == [0, 1, 2, 3, 4]
    assert len(leader.connections) == 1


async def test_num_replica_fetchers_divides_the_partitions(
    leader: ScriptedLeader, follower: Follower
) -> None:
    for index in range(4):
        leader.lead(index)
    follower.follow(TOPIC, TOPIC_ID, partitions=4)
    await until(lambda: leader.fetches)
    follower.settings = follower.settings.replaced(num_replica_fetchers=2)
    follower.fetchers.configure(follower.settings)
    assert len(follower.fetchers.fetchers) == 2
    followed = [{it.key[1] for it in one.followed} for one in follower.fetchers.fetchers]
    assert sorted(map(sorted, followed)) == [[0, 2], [1, 3]]
    for led in leader.partitions.values():
        led.append(b"a")
    await until(lambda: all(follower.partition(TOPIC, it).high_watermark for it in range(4)))
