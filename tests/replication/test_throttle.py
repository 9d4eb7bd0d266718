"""A throttled follower copies at most follower.replication.throttled.rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pykbroker.partitions.replication_quota import ReplicationQuota, is_throttled
from tests.replication.nodes import until
from tests.replication.scripted_leader import TOPIC, TOPIC_ID

if TYPE_CHECKING:
    from tests.replication.nodes import Follower
    from tests.replication.scripted_leader import ScriptedLeader


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ((), False),
        (("*",), True),
        (("3:7",), True),
        (("3:8", "2:7"), False),
        (("0:1", "3:7"), True),
    ],
)
def test_a_list_of_replicas_selects_partitions_of_a_broker(
    replicas: tuple[str, ...],
    expected: bool,  # noqa: FBT001
) -> None:
    assert is_throttled(replicas, 3, 7) is expected


def test_the_rate_is_that_of_the_last_windows() -> None:
    quota = ReplicationQuota(windows=3, window_seconds=1)
    assert quota.rate(0) == 0
    quota.record(600, 0)
    assert quota.rate(0.5) == 600
    quota.record(400, 0.5)
    assert quota.rate(2) == 500
    quota.record(500, 2)
    assert quota.rate(2.5) == 600
    assert quota.rate(3) == 500
    assert quota.rate(10) == 0
    assert not quota.is_exceeded(0, 10)


async def test_a_throttled_partition_waits_while_the_rate_is_exceeded(
    leader: ScriptedLeader, follower: Follower
) -> None:
    throttled, free = leader.lead(0), leader.lead(1)
    for led in (throttled, free):
        for _ in range(30):
            led.append(b"x" * 300)
    follower.settings = follower.settings.replaced(follower_replication_throttled_rate=1_000)
    follower.follow(
        TOPIC,
        TOPIC_ID,
        partitions=2,
        configuration={"follower.replication.throttled.replicas": "0:2"},
    )
    copy = follower.partition(TOPIC, 0)
    await until(lambda: follower.partition(TOPIC, 1).high_watermark == 30)
    end = copy.log.log_end_offset
    assert 0 < end < 30
    count = len(leader.fetches)
    free.append(b"y")
    await until(lambda: len(leader.fetches) > count + 2)
    assert copy.log.log_end_offset == end
    assert [it.partition for it in leader.fetches[-1][1].topics[0].partitions] == [1]
    follower.settings = follower.settings.replaced(follower_replication_throttled_rate=1_000_000)
    await until(lambda: copy.high_watermark == 30)


async def test_a_throttled_partition_that_is_in_sync_is_not_held_back(
    leader: ScriptedLeader, follower: Follower
) -> None:
    led = leader.lead()
    led.append(b"x")
    follower.follow(
        TOPIC,
        TOPIC_ID,
        configuration={"follower.replication.throttled.replicas": "*"},
    )
    copy = follower.partition(TOPIC, 0)
    await until(lambda: copy.high_watermark == 1)
    follower.settings = follower.settings.replaced(follower_replication_throttled_rate=1)
    for count in range(2, 6):
        led.append(b"x" * 300)
        await until(lambda count=count: copy.high_watermark == count)  # type: ignore[misc]
