"""A follower copies logs, truncates them where they diverge, and follows leadership."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.partitions import follower as follower_side
from tests.replication.nodes import FOLLOWER, Follower, following, until
from tests.replication.scripted_leader import TOPIC, TOPIC_ID
from tests.storage.batches import ONE_SEGMENT, records_from
from tests.storage.disks import FailingDisk, SmallDisk

if TYPE_CHECKING:
    from pathlib import Path

    from pykbroker.partitions.partition import Partition
    from tests.replication.scripted_leader import LedPartition, ScriptedLeader


async def until_equal(follower: Follower, led: LedPartition, index: int = 0) -> None:
    copy = follower.partition(TOPIC, index).log
    await until(
        lambda: (
            copy.log_end_offset == led.log.log_end_offset
            and records_from(copy, copy.log_start_offset)
            == records_from(led.log, copy.log_start_offset)
        )
    )


async def test_epochs_producers_and_high_watermark_are_those_of_the_leader(
    leader: ScriptedLeader, follower: Follower
) -> None:
    led = leader.lead()
    led.append(b"a", b"b", producer_id=7, sequence=0)
    led.epoch = 2
    led.append(b"c", producer_id=7, sequence=2)
    led.high_watermark = 2
    follower.follow(TOPIC, TOPIC_ID, leader_epoch=2)
    await until_equal(follower, led)
    copy = follower.partition(TOPIC)
    await until(lambda: copy.high_watermark == 2)
    assert copy.log.leader_epochs.entries() == [(0, 0), (2, 2)]
    assert list(copy.log.producers.last_written()) == list(led.log.producers.last_written())
    led.high_watermark = None
    await until(lambda: copy.high_watermark == 3)


async def test_the_high_watermark_of_a_new_leader_does_not_lower_that_of_the_follower(
    leader: ScriptedLeader, follower: Follower
) -> None:
    led = leader.lead()
    led.append(b"a", b"b")
    follower.follow(TOPIC, TOPIC_ID)
    await until(lambda: follower.partition(TOPIC).high_watermark == 2)
    led.epoch, led.high_watermark = 1, 1
    follower.follow(TOPIC, TOPIC_ID, leader_epoch=1)
    led.append(b"c")
    await until_equal(follower, led)
    assert follower.partition(TOPIC).high_watermark == 2


async def test_records_that_the_new_leader_does_not_have_are_truncated(
    leader: ScriptedLeader, follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    led = leader.lead()
    led.append(b"common")
    follower.follow(TOPIC, TOPIC_ID)
    await until_equal(follower, led)
    led.high_watermark = 1
    led.append(b"lost", producer_id=5, sequence=0)
    led.append(b"lost, too")
    await until_equal(follower, led)
    led.log.truncate_to(1, 0)
    led.epoch = 2
    led.append(b"new")
    follower.follow(TOPIC, TOPIC_ID, leader_epoch=2)
    await until_equal(follower, led)
    copy = follower.partition(TOPIC).log
    assert copy.leader_epochs.entries() == [(0, 0), (2, 1)]
    assert 5 not in copy.producers
    assert "orders-0: truncated from offset 3 to 1" in caplog.text
    assert "unclean" not in caplog.text


async def test_an_epoch_in_which_the_follower_led_without_appending_is_removed(
    leader: ScriptedLeader, follower: Follower
) -> None:
    led = leader.lead()
    led.append(b"a")
    follower.follow(TOPIC, TOPIC_ID)
    await until_equal(follower, led)
    follower.follow(TOPIC, TOPIC_ID, leader=FOLLOWER, leader_epoch=1)
    copy = follower.partition(TOPIC).log
    copy.leader_epochs.assign(1, copy.log_end_offset)
    led.epoch = 2
    led.append(b"b")
    follower.follow(TOPIC, TOPIC_ID, leader_epoch=2)
    await until_equal(follower, led)
    assert copy.leader_epochs.entries() == [(0, 0), (2, 1)]


async def test_truncation_below_the_high_watermark_is_a_warning(
    leader: ScriptedLeader, follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    led = leader.lead()
    led.append(b"a")
    led.append(b"b")
    follower.follow(TOPIC, TOPIC_ID)
    copy = follower.partition(TOPIC)
    await until(lambda: copy.high_watermark == 2)
    led.log.truncate_to(1, 0)
    led.epoch = 1
    follower.follow(TOPIC, TOPIC_ID, leader_epoch=1)
    await until(lambda: copy.log.log_end_offset == 1)
    assert copy.high_watermark == 1
    assert "below the high watermark 2: an unclean election lost records" in caplog.text


async def test_a_follower_behind_the_log_start_of_its_leader_starts_a_new_log_there(
    leader: ScriptedLeader, follower: Follower
) -> None:
    led = leader.lead()
    led.append(b"a")
    follower.follow(TOPIC, TOPIC_ID)
    await until_equal(follower, led)
    await follower.fetchers.close()
    for _ in range(5):
        led.append(b"b")
    led.log.advance_log_start(4, 0)
    await restart(follower, leader)
    await until(lambda: follower.partition(TOPIC).log.log_end_offset == 6)
    assert follower.partition(TOPIC).log.log_start_offset == 4
    versions = [version for version, _ in leader.list_offsets]
    assert versions == [11, 11]


async def test_a_log_start_within_a_batch_is_copied_with_the_whole_batch(
    leader: ScriptedLeader, follower: Follower
) -> None:
    led = leader.lead()
    led.append(b"a", b"b", b"c", b"d")
    led.log.advance_log_start(2, 0)
    follower.follow(TOPIC, TOPIC_ID)
    copy = follower.partition(TOPIC).log
    await until(lambda: copy.log_end_offset == 4)
    await until(lambda: copy.log_start_offset == 2)
    assert records_from(copy, 2) == [(2, b"c"), (3, b"d")]


async def test_a_leader_that_ends_before_its_follower_truncates_it(
    leader: ScriptedLeader, follower: Follower
) -> None:
    """The leader has no epoch in common, after an unclean election of an empty replica."""
    led = leader.lead()
    led.epoch = 3
    led.append(b"a")
    led.append(b"b")
    follower.follow(TOPIC, TOPIC_ID, leader_epoch=3)
    await until_equal(follower, led)
    led.log.truncate_fully_and_start_at(0, 0)
    led.epoch = 4
    follower.follow(TOPIC, TOPIC_ID, leader_epoch=4)
    await until(lambda: follower.partition(TOPIC).log.log_end_offset == 0)
    led.append(b"c")
    await until_equal(follower, led)


async def test_the_log_start_offset_follows_that_of_the_leader(
    leader: ScriptedLeader, follower: Follower
) -> None:
    led = leader.lead()
    for _ in range(4):
        led.append(b"a")
    follower.follow(TOPIC, TOPIC_ID)
    await until_equal(follower, led)
    led.log.advance_log_start(3, 0)
    await until(lambda: follower.partition(TOPIC).log.log_start_offset == 3)
    await until(lambda: leader.last_request().log_start_offset == 3)


async def test_nothing_is_appended_after_the_partition_became_leader(
    leader: ScriptedLeader, follower: Follower
) -> None:
    led = leader.lead()
    led.append(b"a")
    follower.follow(TOPIC, TOPIC_ID)
    await until_equal(follower, led)
    follower.follow(TOPIC, TOPIC_ID, leader=FOLLOWER, leader_epoch=1)
    led.append(b"b")
    count = len(leader.fetches)
    follower.follow("other", b"x" * 16)  # the fetcher goes on with another partition
    leader.partitions[0].epoch = 0
    await until(lambda: len(leader.fetches) > count + 2)
    assert follower.partition(TOPIC).log.log_end_offset == 1
    assert follower.partition(TOPIC).leads


async def test_a_large_response_is_appended_only_while_the_epoch_stays(
    leader: ScriptedLeader, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    led = leader.lead(configuration=ONE_SEGMENT)
    for _ in range(300):
        led.append(b"a")
    ends: list[int] = []

    def append_once(partition: Partition, *given: Any) -> int:
        used = append_slice(partition, *given)
        if partition.topic == TOPIC:
            ends.append(partition.log.log_end_offset)
            follower.follow(TOPIC, TOPIC_ID, leader=FOLLOWER, leader_epoch=1)
        return used

    append_slice = follower_side.append_slice
    monkeypatch.setattr(follower_side, "append_slice", append_once)
    follower.follow(TOPIC, TOPIC_ID)
    await until(lambda: ends)
    count = len(leader.fetches)
    follower.follow("other", b"x" * 16)
    await until(lambda: len(leader.fetches) > count + 1)
    assert follower.partition(TOPIC).log.log_end_offset == ends[0] < 300
    assert len(ends) == 1


async def test_a_deleted_partition_is_no_longer_fetched(
    leader: ScriptedLeader, follower: Follower
) -> None:
    leader.lead(0)
    other = leader.lead(1)
    follower.follow(TOPIC, TOPIC_ID, partitions=2)
    await until(lambda: leader.fetches)
    follower.partitions.drop_partition(follower.image.topics[TOPIC], 0)
    other.append(b"a")
    await until(lambda: follower.partition(TOPIC, 1).high_watermark == 1)
    count = len(leader.fetches)
    await until(lambda: len(leader.fetches) > count + 1)
    assert [it.partition for it in leader.fetches[-1][1].topics[0].partitions] == [1]


async def restart(follower: Follower, leader: ScriptedLeader, *, is_clean: bool = True) -> None:
    await (follower.stop() if is_clean else follower.crash())
    follower.open()
    follower.know(1, leader.port)
    epoch = leader.partitions[0].epoch
    follower.follow(TOPIC, TOPIC_ID, partitions=len(leader.partitions), leader_epoch=epoch)


@pytest.mark.parametrize("ending", ["clean", "unclean"])
async def test_a_restart_continues_at_the_log_end(
    ending: str, leader: ScriptedLeader, follower: Follower
) -> None:
    led = leader.lead()
    led.append(b"a")
    led.append(b"b")
    led.high_watermark = 1
    follower.follow(TOPIC, TOPIC_ID)
    await until_equal(follower, led)
    count = len(leader.fetches)
    await restart(follower, leader, is_clean=ending == "clean")
    copy = follower.partition(TOPIC).log
    assert copy.log_end_offset == 2  # records above the high watermark are kept
    led.append(b"c")
    await until_equal(follower, led)
    first = leader.fetches[count][1].topics[0].partitions[0]
    assert (first.fetch_offset, first.last_fetched_epoch) == (2, 0)


async def test_a_full_disk_stops_only_its_partition_until_space_is_free(
    tmp_path: Path, leader: ScriptedLeader, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    disk = SmallDisk(1 << 30)
    async with following(tmp_path / "copy", disk) as follower:
        follower.know(1, leader.port)
        full, small = leader.lead(0), leader.lead(1)
        follower.follow(TOPIC, TOPIC_ID, partitions=2)
        await until(lambda: leader.fetches)
        small.append(b"first")
        await until_equal(follower, small, 1)
        disk.room_bytes = 1_000
        full.append(b"x" * 10_000)
        await until(lambda: "orders-0: replication from leader 1 stopped" in caplog.text)
        disk.room_bytes = 1_000
        small.append(b"a")
        await until_equal(follower, small, 1)
        disk.room_bytes = 1 << 30
        await until_equal(follower, full)
        assert "orders-0: replication from leader 1 continues" in caplog.text
        assert "No space left on device" in caplog.text
        assert "orders-1: replication" not in caplog.text


async def test_flush_messages_flushes_before_the_next_fetch(
    tmp_path: Path, leader: ScriptedLeader
) -> None:
    disk = FailingDisk()
    async with following(tmp_path / "copy", disk, log_flush_interval_messages=1) as follower:
        follower.know(1, leader.port)
        led = leader.lead()
        disk.broken = {"fdatasync"}
        led.append(b"a")
        follower.follow(TOPIC, TOPIC_ID)
        (followed,) = follower.fetchers.fetchers[0].followed
        await until(lambda: followed.state.failures)
        delayed_until = followed.state.delayed_until
        await until(lambda: follower.clock.monotonic() > delayed_until + 0.1)
        assert all(
            it.topics[0].partitions[0].fetch_offset == 0 for _, it in leader.fetches if it.topics
        )
        disk.broken = set()
        copy = follower.partition(TOPIC)
        copy.flushing.begin()
        await until(lambda: copy.log.recovery_point == 1)
        led.append(b"b")
        await until(lambda: copy.log.recovery_point == 2)
        await until(lambda: leader.last_request().fetch_offset == 2)
