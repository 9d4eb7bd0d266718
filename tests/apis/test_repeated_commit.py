"""The fast path of OffsetCommit has the effect of the general path."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.apis.fast_path import REQUESTS_MAX
from pykbroker.apis.repeated_commit import (
    FRAME_BYTES_MAX,
    KEPT_BYTES_MAX,
    REPEATS_PER_REQUEST,
    Repeats,
)
from pykbroker.controller_access import NewTopic
from pykbroker.coordination.groups.settings import GroupSettings
from pykbroker.coordinators.repeated_commit import NUMBER, TIME_MARK, mark
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import write_request
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.apis.committing import (
    FIRST_TOPIC_ID,
    GROUP,
    NEWEST,
    anna_is_here,
    classic_member,
    codes,
    commit,
    commit_in_transaction,
    consumer_member,
    delete_group,
    end_transaction,
    groups_on_two_brokers,
    log_of,
    offsets_state,
    timers,
    topic_id_of,
)
from tests.apis.two_brokers import Dice, corrupted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.apis.two_brokers import TwoBrokers

VERSIONS = range(2, NEWEST + 1)
NONE = {int(ErrorCode.NONE)}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("partitions", [1, 3])
async def test_fast_and_general_path_commit_the_same_offsets(
    tmp_path: Path, version: int, partitions: int
) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        for number in (0, 1, 2**31, 2**62, 7, 7, -1):
            offsets = {index: number + index for index in range(partitions)}
            frame = commit(
                offsets,
                version=version,
                topic_id=topic_id_of(brokers),
                correlation_id=number % 1000,
            )
            assert codes(brokers.ask(frame), version) == NONE
        assert brokers.fast_count == brokers.asked - 1
        committed = log_of(brokers.fast).state.offsets.of_group(GROUP)["trucks"]
        assert {index: it.offset for index, it in committed.items()} == offsets


async def test_offsets_of_the_fast_path_survive_a_crash(tmp_path: Path) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        for number in range(5):
            brokers.ask(commit({0: number}, topic_id=topic_id_of(brokers)))
        before = log_of(brokers.fast)
        partition = before.partition
        coordinator = brokers.fast.broker.groups
        again = coordinator._new_log(partition)
        await again.load()
        assert again.state.offsets.of_group(GROUP) == before.state.offsets.of_group(GROUP)
        again.resign()


async def test_commits_of_several_lengths_use_the_fast_path(tmp_path: Path) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        for number in range(4):
            for partitions in ((0,), (0, 1), (2,), (0, 1, 2)):
                offsets = dict.fromkeys(partitions, number)
                brokers.ask(commit(offsets, topic_id=topic_id_of(brokers)))
        assert brokers.fast_count == 3 * 2  # requests of one length replace each other


@pytest.mark.parametrize("version", [9, NEWEST])
async def test_a_recreated_extended_or_deleted_topic_leaves_the_fast_path(
    tmp_path: Path, version: int
) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        first = commit({0: 1, 2: 5}, version=version, topic_id=topic_id_of(brokers))
        for _ in range(2):
            brokers.ask(first)
        await brokers.each(lambda it: it.controller.delete_topics(["trucks"]))
        assert codes(brokers.ask(first), version) != NONE
        for partitions in (1, 3):
            topic = NewTopic(name="trucks", partitions=partitions)
            await brokers.each(lambda it, topic=topic: it.controller.create_topics([topic]))  # type: ignore[misc]
            brokers.ask(first)
            fresh = commit({0: 2, 2: 6}, version=version, topic_id=topic_id_of(brokers))
            for _ in range(2):
                brokers.ask(fresh)
            await brokers.each(lambda it: it.controller.delete_topics(["trucks"]))
            brokers.ask(fresh)


@pytest.mark.parametrize("version", [2, 4])
async def test_a_commit_with_retention_time_uses_the_general_path(
    tmp_path: Path, version: int
) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        for number in range(3):
            frame = commit({0: number}, version=version, retention_time_ms=1000)
            assert codes(brokers.ask(frame), version) == NONE
        assert not brokers.fast_count


@pytest.mark.parametrize("metadata", [None, "", "ü" * 100, "x" * 4096, "x" * 4097])
async def test_metadata_of_a_commit_is_unchanged(tmp_path: Path, metadata: str | None) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        for number in range(3):
            brokers.ask(commit({0: number}, version=9, metadata=metadata))
        assert brokers.fast_count == (2 if len(metadata or "") < 1000 else 0)


async def test_offsets_of_a_repeated_topic_are_committed_in_order(tmp_path: Path) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        for number in range(3):
            brokers.ask(commit({0: number, 1: 9}, version=9, topics=2))
        assert brokers.fast_count == 2


async def test_a_commit_of_a_member_requires_its_generation_and_extends_its_session(
    tmp_path: Path,
) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        member_id, generation = await classic_member(brokers)

        def ask(number: int, generation: int) -> set[int]:
            fields: dict[str, Any] = {
                "member_id": member_id,
                "generation_id_or_member_epoch": generation,
            }
            return codes(brokers.ask(commit({0: number}, version=9, **fields)), 9)

        assert [ask(it, generation) for it in range(3)] == [NONE] * 3
        assert brokers.fast_count == 2
        for side in (brokers.general, brokers.fast):
            timers(side).update(dict.fromkeys(timers(side), 0.0))  # no request for a very long time
        assert ask(3, generation) == NONE
        assert brokers.fast_count == 3
        (session_ends,) = (it for name, it in timers(brokers.fast).items() if member_id in name)
        assert session_ends > brokers.fast.broker.clock.monotonic()
        assert ask(4, generation + 1) == {int(ErrorCode.ILLEGAL_GENERATION)}
        assert ask(5, generation) == NONE
        for side in (brokers.general, brokers.fast):
            log_of(side).state.groups[GROUP].generation += 1  # type: ignore[attr-defined]
        assert ask(6, generation) == {int(ErrorCode.ILLEGAL_GENERATION)}


async def test_a_commit_of_a_consumer_group_member_requires_its_epoch(tmp_path: Path) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        await consumer_member(brokers)

        def ask(number: int, epoch: int) -> set[int]:
            fields: dict[str, Any] = {"member_id": "anna", "generation_id_or_member_epoch": epoch}
            frame = commit({0: number}, topic_id=topic_id_of(brokers), **fields)
            return codes(brokers.ask(frame), NEWEST)

        assert [ask(it, 2) for it in range(3)] == [NONE] * 3
        assert brokers.fast_count == 2
        assert ask(3, 1) == {int(ErrorCode.STALE_MEMBER_EPOCH)}


async def test_deleting_a_topic_named_without_partitions_leaves_the_fast_path(
    tmp_path: Path,
) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        await brokers.each(lambda it: it.controller.create_topics([NewTopic(name="cars")]))
        await consumer_member(brokers)
        for side in (brokers.general, brokers.fast):
            members = log_of(side).state.groups[GROUP].state.members  # type: ignore[attr-defined]
            members["anna"] = members["anna"]._replace(epoch=3)
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=5, committed_metadata=""
        )
        message = OffsetCommitRequest(
            group_id=GROUP,
            member_id="anna",
            generation_id_or_member_epoch=2,
            topics=[
                OffsetCommitRequestTopic(name="trucks", partitions=[partition]),
                OffsetCommitRequestTopic(name="cars", partitions=[]),
            ],
        )
        frame = b"".join(write_request(message, 9, 1, "fleet"))
        assert [codes(brokers.ask(frame), 9) for _ in range(2)] == [NONE] * 2
        assert brokers.fast_count == 1
        await brokers.each(lambda it: it.controller.delete_topics(["cars"]))
        assert codes(brokers.ask(frame), 9) == {int(ErrorCode.STALE_MEMBER_EPOCH)}


async def test_a_commit_recreates_a_deleted_group(tmp_path: Path) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        for number in range(2):
            brokers.ask(commit({0: number}, version=9))
        delete_group(brokers)
        assert not log_of(brokers.fast).state.groups
        assert codes(brokers.ask(commit({0: 9}, version=9)), 9) == NONE
        assert set(log_of(brokers.fast).state.groups) == {GROUP}
        assert brokers.fast_count == 2


async def test_changed_settings_leave_the_fast_path(tmp_path: Path) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        frame = commit({0: 1}, version=9, metadata="ten letters")
        for _ in range(2):
            brokers.ask(frame)
        for side in (brokers.general, brokers.fast):
            groups = side.broker.groups
            stricter = GroupSettings(offset_metadata_length_max=5)
            groups.configure(stricter, groups.consumer_settings)
        for _ in range(2):
            assert codes(brokers.ask(frame), 9) == {int(ErrorCode.OFFSET_METADATA_TOO_LARGE)}


@pytest.mark.parametrize("trouble", ["a full disk", "a log that is too strict", "loading"])
async def test_both_paths_reject_a_commit_that_cannot_be_appended(
    tmp_path: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        frame = commit({0: 1}, version=9)
        for _ in range(2):
            brokers.ask(frame)
        with monkeypatch.context() as troubled:
            for side in (brokers.general, brokers.fast):
                log = log_of(side)
                if trouble == "a full disk":
                    troubled.setattr(type(log.partition.log), "append", no_space)
                elif trouble == "loading":
                    troubled.setattr(log, "status", type(log.status).LOADING)
                else:
                    settings = log.partition.settings.replaced(max_message_bytes=10)
                    troubled.setattr(log.partition, "settings", settings)
            assert codes(brokers.ask(frame), 9) != NONE
        assert codes(brokers.ask(frame), 9) == NONE
        assert brokers.fast_count == 2


def no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


async def test_a_partition_with_several_replicas_leaves_the_fast_path(tmp_path: Path) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        frame = commit({0: 1}, version=9)
        for _ in range(2):
            brokers.ask(frame)
        fast_count = brokers.fast_count
        for side in (brokers.general, brokers.fast):
            partition = log_of(side).partition
            partition.lead_or_follow(replace(partition.leadership, replicas=(1, 2), in_sync=(1,)))
        assert codes(brokers.ask(frame), 9) == NONE
        assert brokers.fast_count == fast_count


@pytest.mark.parametrize("looks_like", [mark(0), TIME_MARK])
@pytest.mark.parametrize("version", [9, NEWEST])
async def test_a_topic_id_equal_to_an_offset_marker_is_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks_like: int, version: int
) -> None:
    topic_id = NUMBER.pack(looks_like) * 2
    throw = Dice.uuid_bytes

    def uuid_bytes(dice: Dice) -> bytes:
        thrown = throw(dice)
        return topic_id if thrown == FIRST_TOPIC_ID else thrown

    monkeypatch.setattr(Dice, "uuid_bytes", uuid_bytes)
    async with groups_on_two_brokers(tmp_path) as brokers:
        assert topic_id_of(brokers) == topic_id
        for number in range(4):
            frame = commit({0: number}, version=version, topic_id=topic_id)
            assert codes(brokers.ask(frame), version) == NONE
        assert not brokers.fast_count
        committed = log_of(brokers.fast).state.offsets.of_partition(GROUP, "trucks", 0)
        assert committed is not None
        assert (committed.offset, committed.topic_id) == (3, topic_id)


async def test_unknown_tagged_fields_do_not_prevent_the_fast_path(tmp_path: Path) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        end_of_first = NUMBER.pack(5) + b"\xff\xff\xff\xff\1\0"
        tagged = end_of_first[:-1] + b"\1\x63\1\0"
        for number in range(3):
            frame = commit({0: 5, 1: number}, version=9)
            assert frame.count(end_of_first) == 1
            assert codes(brokers.ask(frame.replace(end_of_first, tagged)), 9) == NONE
        assert brokers.fast_count == 2


async def test_a_request_with_a_longer_encoding_is_not_stored(tmp_path: Path) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        for number in range(3):
            frame = commit({0: number}, version=9)
            longer = frame.replace(b"\x08readers", b"\x88\0readers")
            assert len(longer) == len(frame) + 1
            assert codes(brokers.ask(longer), 9) == NONE
        assert not brokers.fast_count


async def test_a_connection_stores_a_bounded_number_of_requests(tmp_path: Path) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        for number in range(REQUESTS_MAX + 10):
            brokers.ask(commit({0: 1}, version=9, metadata=f"{number:05}"))
        brokers.ask(commit({0: 1}, version=9, metadata=f"{number:05}"))
        assert not brokers.fast_count


async def test_served_repeats_allow_storing_more_requests(tmp_path: Path) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        for number in range(REQUESTS_MAX + 10):
            for _ in range(1 + REPEATS_PER_REQUEST):
                brokers.ask(commit({0: 1}, version=9, metadata=f"{number:05}"))
        assert brokers.fast_count == (REQUESTS_MAX + 10) * REPEATS_PER_REQUEST


async def test_a_connection_examines_a_bounded_number_of_requests(
    tmp_path: Path,
) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        for number in range(REQUESTS_MAX):
            brokers.ask(commit({0: number}, version=2, retention_time_ms=1000))
        for _ in range(2):
            brokers.ask(commit({0: 1}, version=2))
        assert not brokers.fast_count


async def test_a_connection_keeps_the_latest_requests(tmp_path: Path) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        lengths = range(800, 840)
        for length in lengths:
            brokers.ask(commit({0: 1}, version=9, metadata="x" * length))
        assert not brokers.fast_count
        repeats = brokers.fast.peer.repeats
        assert isinstance(repeats, Repeats)
        assert sum(repeats._known) <= KEPT_BYTES_MAX
        for length in lengths[-3:]:
            brokers.ask(commit({0: 2}, version=9, metadata="x" * length))
        assert brokers.fast_count == 3  # type: ignore[comparison-overlap]  # it changes in between


async def test_a_long_commit_uses_the_general_path(tmp_path: Path) -> None:
    async with groups_on_two_brokers(tmp_path) as brokers:
        for _ in range(2):
            brokers.ask(commit({0: 1}, version=9, metadata="x" * FRAME_BYTES_MAX))
        assert not brokers.fast_count


async def test_both_paths_answer_corrupt_frames_equally(tmp_path: Path) -> None:
    dice = random.Random(21)
    async with groups_on_two_brokers(tmp_path) as brokers:
        for version in (2, 7, 9, NEWEST):
            frame = commit({0: 5, 2: 6}, version=version, topic_id=topic_id_of(brokers))
            for number in range(400):
                if number % 20 == 0:
                    brokers.fast.peer.repeats = None  # corrupt, valid requests are stored
                brokers.ask(frame)
                brokers.ask(corrupted(frame, dice))
                brokers.ask(frame)
        assert brokers.fast_count > 1000


async def test_random_conversations_have_equal_responses_on_both_paths(tmp_path: Path) -> None:
    """Creates and removes members, groups and topics between commits, with open transactions."""
    dice = random.Random(22)
    async with groups_on_two_brokers(tmp_path) as brokers:
        for _ in range(1_500):
            match dice.randrange(60):
                case 0:
                    delete_group(brokers)
                case 1 | 2:
                    await consumer_member(brokers)
                case 3 | 4:
                    anna_is_here(brokers, -1)
                case 5 if dice.randrange(3) == 0:
                    await brokers.each(lambda it: it.controller.delete_topics(["trucks"]))
                    topic = NewTopic(name="trucks", partitions=3)
                    await brokers.each(lambda it, topic=topic: it.controller.create_topics([topic]))  # type: ignore[misc]
                case 6 | 7:
                    commit_in_transaction(brokers, partition=dice.randrange(3))
                case 8 | 9:
                    end_transaction(brokers, committed=dice.random() < 0.7)
                case 10:
                    brokers.fast.peer.repeats = None  # it continues to store requests
                case _:
                    brokers.ask(commit_of_conversation(brokers, dice))
            assert offsets_state(brokers.fast) == offsets_state(brokers.general)
        assert brokers.fast_count > 400


def commit_of_conversation(brokers: TwoBrokers, dice: random.Random) -> bytes:
    """Commits as member anna if she exists, sometimes with a stale epoch or another member id."""
    group = log_of(brokers.fast).state.consumer.find(GROUP)
    anna = None if group is None else group.state.members.get("anna")
    fields: dict[str, Any] = {"topic_id": topic_id_of(brokers), "metadata": "x" * dice.randrange(2)}
    if anna is not None or not dice.randrange(9):
        epoch = 2 if anna is None else anna.epoch - (not dice.randrange(5))
        fields |= {"member_id": "anna", "generation_id_or_member_epoch": epoch}
    offsets = {it: dice.randrange(-1, 9) for it in dice.choice(((0,), (0, 2)))}
    return commit(offsets, version=dice.choice((9, 9, 9, 5, NEWEST)), **fields)
