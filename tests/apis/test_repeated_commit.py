"""Commits that differ by their offsets alone go a shorter way, and lead to the same."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest

from pykbroker.apis.repeated_commit import (
    ANSWERS_FOR_A_TRY,
    FRAME_BYTES_MAX,
    KEPT_BYTES_MAX,
    KNOWN_MAX,
    Repeats,
)
from pykbroker.controller.topics import NewTopic
from pykbroker.coordinators.repeated_commit import NUMBER, TIME_MARK, mark
from pykbroker.internal_topics import CONSUMER_OFFSETS
from pykbroker_protocol.compiler import decode
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import read_response_header, write_request
from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pykbroker_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from pykbroker_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pykbroker_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.apis.both_ways import Dice, both_ways, damaged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from pykbroker.coordinators.group_log import GroupLog
    from pykbroker_protocol.message import Message
    from tests.apis.both_ways import BothWays, Side

AnyMessage = TypeVar("AnyMessage", bound="Message")

GROUP = "readers"
NEWEST = 10
VERSIONS = range(2, NEWEST + 1)
FIRST_TOPIC_ID = bytes(15) + b"\x04"
PRODUCER_ID = 7
NONE = {int(ErrorCode.NONE)}


@asynccontextmanager
async def groups_both_ways(directory: Path, **topic: Any) -> AsyncIterator[BothWays]:
    async with both_ways(directory, **topic) as ways:
        offsets = NewTopic(
            name=CONSUMER_OFFSETS, partitions=1, configuration={"cleanup.policy": "compact"}
        )
        await ways.each(lambda it: it.controller.create_topics([offsets]))
        yield ways
        assert told(ways.mindful) == told(ways.forgetful)
        assert timers(ways.mindful) == pytest.approx(timers(ways.forgetful), abs=5)


def log_of(side: Side) -> GroupLog:
    log = side.broker.groups.find(GROUP)
    assert not isinstance(log, ErrorCode), log
    return cast("GroupLog", log)


def told(side: Side) -> tuple[object, ...]:
    log = log_of(side)
    return vars(log.state.offsets), set(log.state.groups), log._last_written


def timers(side: Side) -> dict[tuple[str, ...], float]:
    return log_of(side)._timers._due_seconds


def commit(
    offsets: Mapping[int, int],
    *,
    version: int = NEWEST,
    topic_id: bytes = FIRST_TOPIC_ID,
    correlation_id: int = 1,
    metadata: str | None = "",
    topics: int = 1,
    **fields: Any,
) -> bytes:
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=metadata
        )
        for index, offset in offsets.items()
    ]
    topic = OffsetCommitRequestTopic(name="trucks", topic_id=topic_id, partitions=partitions)
    message = OffsetCommitRequest(
        **{"group_id": GROUP, "member_id": "", "topics": [topic] * topics, **fields}
    )
    return b"".join(write_request(message, version, correlation_id, "fleet"))


def understood(answer: object, message: type[AnyMessage], version: int) -> AnyMessage:
    assert isinstance(answer, bytes)
    _, position = read_response_header(answer, message, version)
    return decode(message, version, answer, position)


def codes(answer: object, version: int) -> set[int]:
    response = understood(answer, OffsetCommitResponse, version)
    return {it.error_code for topic in response.topics for it in topic.partitions}


def topic_id_of(ways: BothWays) -> bytes:
    return ways.mindful.broker.controller.image.topics["trucks"].id


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("partitions", [1, 3])
async def test_offsets_are_committed_alike(tmp_path: Path, version: int, partitions: int) -> None:
    async with groups_both_ways(tmp_path) as ways:
        for number in (0, 1, 2**31, 2**62, 7, 7, -1):
            offsets = {index: number + index for index in range(partitions)}
            frame = commit(
                offsets, version=version, topic_id=topic_id_of(ways), correlation_id=number % 1000
            )
            assert codes(ways.ask(frame), version) == NONE
        assert ways.shortened == ways.asked - 1
        committed = log_of(ways.mindful).state.offsets.of_group(GROUP)["trucks"]
        assert {index: it.offset for index, it in committed.items()} == offsets


async def test_what_was_committed_this_way_is_there_after_a_crash(tmp_path: Path) -> None:
    async with groups_both_ways(tmp_path) as ways:
        for number in range(5):
            ways.ask(commit({0: number}, topic_id=topic_id_of(ways)))
        before = log_of(ways.mindful)
        partition = before.partition
        coordinator = ways.mindful.broker.groups
        again = coordinator._new_log(partition)
        await again.load()
        assert again.state.offsets.of_group(GROUP) == before.state.offsets.of_group(GROUP)
        again.give_up()


async def test_commits_of_several_lengths_are_all_remembered(tmp_path: Path) -> None:
    async with groups_both_ways(tmp_path) as ways:
        for number in range(4):
            for partitions in ((0,), (0, 1), (2,), (0, 1, 2)):
                offsets = dict.fromkeys(partitions, number)
                ways.ask(commit(offsets, topic_id=topic_id_of(ways)))
        assert ways.shortened == 3 * 2  # those of one partition take each other's place


@pytest.mark.parametrize("version", [9, NEWEST])
async def test_a_topic_made_anew_grown_or_gone_is_another_one(tmp_path: Path, version: int) -> None:
    async with groups_both_ways(tmp_path) as ways:
        first = commit({0: 1, 2: 5}, version=version, topic_id=topic_id_of(ways))
        for _ in range(2):
            ways.ask(first)
        await ways.each(lambda it: it.controller.delete_topics(["trucks"]))
        assert codes(ways.ask(first), version) != NONE
        for partitions in (1, 3):
            topic = NewTopic(name="trucks", partitions=partitions)
            await ways.each(lambda it, topic=topic: it.controller.create_topics([topic]))  # type: ignore[misc]
            ways.ask(first)
            fresh = commit({0: 2, 2: 6}, version=version, topic_id=topic_id_of(ways))
            for _ in range(2):
                ways.ask(fresh)
            await ways.each(lambda it: it.controller.delete_topics(["trucks"]))
            ways.ask(fresh)


@pytest.mark.parametrize("version", [2, 4])
async def test_a_commit_with_a_retention_of_its_own_goes_the_general_way(
    tmp_path: Path, version: int
) -> None:
    async with groups_both_ways(tmp_path) as ways:
        for number in range(3):
            frame = commit({0: number}, version=version, retention_time_ms=1000)
            assert codes(ways.ask(frame), version) == NONE
        assert not ways.shortened


@pytest.mark.parametrize("metadata", [None, "", "ü" * 100, "x" * 4096, "x" * 4097])
async def test_metadata_stays_as_it_is(tmp_path: Path, metadata: str | None) -> None:
    async with groups_both_ways(tmp_path) as ways:
        for number in range(3):
            ways.ask(commit({0: number}, version=9, metadata=metadata))
        assert ways.shortened == (2 if len(metadata or "") < 1000 else 0)


async def test_a_topic_named_twice_counts_in_the_order_of_its_names(tmp_path: Path) -> None:
    async with groups_both_ways(tmp_path) as ways:
        for number in range(3):
            ways.ask(commit({0: number, 1: 9}, version=9, topics=2))
        assert ways.shortened == 2


async def classic_member(ways: BothWays) -> tuple[str, int]:
    """A group of one, which has its assignment."""
    join = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    for side in (ways.forgetful, ways.mindful):
        side.broker.groups.configure(
            side.broker.groups.settings.__class__(initial_rebalance_delay_ms=0),
            side.broker.groups.consumer_settings,
        )
    joined = ways.ask(b"".join(write_request(join, 3, 1, "fleet")))
    response = understood(joined, JoinGroupResponse, 3)
    sync = SyncGroupRequest(
        group_id=GROUP,
        generation_id=response.generation_id,
        member_id=response.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=response.member_id, assignment=b"all")],
    )
    ways.ask(b"".join(write_request(sync, 3, 1, "fleet")))
    return response.member_id, response.generation_id


async def test_a_member_commits_at_its_generation_and_is_alive(tmp_path: Path) -> None:
    async with groups_both_ways(tmp_path) as ways:
        member_id, generation = await classic_member(ways)

        def ask(number: int, generation: int) -> set[int]:
            fields = {"member_id": member_id, "generation_id_or_member_epoch": generation}
            return codes(ways.ask(commit({0: number}, version=9, **fields)), 9)

        assert [ask(it, generation) for it in range(3)] == [NONE] * 3
        assert ways.shortened == 2
        for side in (ways.forgetful, ways.mindful):
            timers(side).update(dict.fromkeys(timers(side), 0.0))  # it was silent for very long
        assert ask(3, generation) == NONE
        assert ways.shortened == 3
        (session_ends,) = (it for name, it in timers(ways.mindful).items() if member_id in name)
        assert session_ends > ways.mindful.broker.clock.monotonic()
        assert ask(4, generation + 1) == {int(ErrorCode.ILLEGAL_GENERATION)}
        assert ask(5, generation) == NONE
        for side in (ways.forgetful, ways.mindful):
            log_of(side).state.groups[GROUP].generation += 1  # type: ignore[attr-defined]
        assert ask(6, generation) == {int(ErrorCode.ILLEGAL_GENERATION)}


async def consumer_member(ways: BothWays) -> None:
    """A group of one, of the next generation, at its second epoch."""
    anna_is_here(ways, 0)
    for _ in range(3):
        await asyncio.sleep(0)  # a target is computed, and then she is led there


def anna_is_here(ways: BothWays, epoch: int) -> None:
    for side in (ways.forgetful, ways.mindful):
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="anna",
            member_epoch=epoch,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["trucks"],
            topic_partitions=[],
        )
        log_of(side).carry_out(
            log_of(side).state.consumer_group_heartbeat(
                heartbeat,
                version=1,
                ticket=0,
                client_id="fleet",
                client_host="/127.0.0.1",
                new_member_id="",
                now_ms=side.broker.clock.now_ms(),
            )
        )


async def test_a_member_of_the_next_generation_commits_at_its_epoch(tmp_path: Path) -> None:
    async with groups_both_ways(tmp_path) as ways:
        await consumer_member(ways)

        def ask(number: int, epoch: int) -> set[int]:
            fields = {"member_id": "anna", "generation_id_or_member_epoch": epoch}
            frame = commit({0: number}, topic_id=topic_id_of(ways), **fields)
            return codes(ways.ask(frame), NEWEST)

        assert [ask(it, 2) for it in range(3)] == [NONE] * 3
        assert ways.shortened == 2
        assert ask(3, 1) == {int(ErrorCode.STALE_MEMBER_EPOCH)}


async def test_a_topic_of_which_nothing_is_committed_counts_where_a_member_lags(
    tmp_path: Path,
) -> None:
    async with groups_both_ways(tmp_path) as ways:
        await ways.each(lambda it: it.controller.create_topics([NewTopic(name="cars")]))
        await consumer_member(ways)
        for side in (ways.forgetful, ways.mindful):
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
        assert [codes(ways.ask(frame), 9) for _ in range(2)] == [NONE] * 2
        assert ways.shortened == 1
        await ways.each(lambda it: it.controller.delete_topics(["cars"]))
        assert codes(ways.ask(frame), 9) == {int(ErrorCode.STALE_MEMBER_EPOCH)}


def delete_group(ways: BothWays) -> None:
    for side in (ways.forgetful, ways.mindful):
        log = log_of(side)
        log.carry_out(log.state.delete_groups([GROUP], ticket=0, now_ms=1))


async def test_a_group_that_was_deleted_is_made_anew(tmp_path: Path) -> None:
    async with groups_both_ways(tmp_path) as ways:
        for number in range(2):
            ways.ask(commit({0: number}, version=9))
        delete_group(ways)
        assert not log_of(ways.mindful).state.groups
        assert codes(ways.ask(commit({0: 9}, version=9)), 9) == NONE
        assert set(log_of(ways.mindful).state.groups) == {GROUP}
        assert ways.shortened == 2


async def test_what_the_operator_has_changed_is_looked_at(tmp_path: Path) -> None:
    async with groups_both_ways(tmp_path) as ways:
        frame = commit({0: 1}, version=9, metadata="ten letters")
        for _ in range(2):
            ways.ask(frame)
        for side in (ways.forgetful, ways.mindful):
            groups = side.broker.groups
            stricter = groups.settings.__class__(offset_metadata_length_max=5)
            groups.configure(stricter, groups.consumer_settings)
        for _ in range(2):
            assert codes(ways.ask(frame), 9) == {int(ErrorCode.OFFSET_METADATA_TOO_LARGE)}


@pytest.mark.parametrize("trouble", ["a full disk", "a log that is too strict", "loading"])
async def test_a_commit_that_cannot_be_written_is_refused_alike(
    tmp_path: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with groups_both_ways(tmp_path) as ways:
        frame = commit({0: 1}, version=9)
        for _ in range(2):
            ways.ask(frame)
        with monkeypatch.context() as troubled:
            for side in (ways.forgetful, ways.mindful):
                log = log_of(side)
                if trouble == "a full disk":
                    troubled.setattr(type(log.partition.log), "append", no_space)
                elif trouble == "loading":
                    troubled.setattr(log, "status", type(log.status).LOADING)
                else:
                    settings = log.partition.settings.replaced(max_message_bytes=10)
                    troubled.setattr(log.partition, "settings", settings)
            assert codes(ways.ask(frame), 9) != NONE
        assert codes(ways.ask(frame), 9) == NONE
        assert ways.shortened == 2


def no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


async def test_replicas_are_waited_for(tmp_path: Path) -> None:
    async with groups_both_ways(tmp_path) as ways:
        frame = commit({0: 1}, version=9)
        for _ in range(2):
            ways.ask(frame)
        shortened = ways.shortened
        for side in (ways.forgetful, ways.mindful):
            partition = log_of(side).partition
            partition.leadership = replace(partition.leadership, replicas=(1, 2), in_sync=(1,))
        assert codes(ways.ask(frame), 9) == NONE
        assert ways.shortened == shortened


@pytest.mark.parametrize("looks_like", [mark(0), TIME_MARK])
@pytest.mark.parametrize("version", [9, NEWEST])
async def test_an_id_that_looks_like_a_mark_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks_like: int, version: int
) -> None:
    topic_id = NUMBER.pack(looks_like) * 2
    throw = Dice.uuid_bytes

    def uuid_bytes(dice: Dice) -> bytes:
        thrown = throw(dice)
        return topic_id if thrown == FIRST_TOPIC_ID else thrown

    monkeypatch.setattr(Dice, "uuid_bytes", uuid_bytes)
    async with groups_both_ways(tmp_path) as ways:
        assert topic_id_of(ways) == topic_id
        for number in range(4):
            frame = commit({0: number}, version=version, topic_id=topic_id)
            assert codes(ways.ask(frame), version) == NONE
        assert not ways.shortened
        committed = log_of(ways.mindful).state.offsets.of_partition(GROUP, "trucks", 0)
        assert committed is not None
        assert (committed.offset, committed.topic_id) == (3, topic_id)


async def test_fields_that_we_do_not_know_may_stand_between_the_offsets(tmp_path: Path) -> None:
    async with groups_both_ways(tmp_path) as ways:
        end_of_first = NUMBER.pack(5) + b"\xff\xff\xff\xff\1\0"
        tagged = end_of_first[:-1] + b"\1\x63\1\0"
        for number in range(3):
            frame = commit({0: 5, 1: number}, version=9)
            assert frame.count(end_of_first) == 1
            assert codes(ways.ask(frame.replace(end_of_first, tagged)), 9) == NONE
        assert ways.shortened == 2


async def test_what_is_said_in_more_bytes_than_need_be_is_not_remembered(tmp_path: Path) -> None:
    async with groups_both_ways(tmp_path) as ways:
        for number in range(3):
            frame = commit({0: number}, version=9)
            longer = frame.replace(b"\x08readers", b"\x88\0readers")
            assert len(longer) == len(frame) + 1
            assert codes(ways.ask(longer), 9) == NONE
        assert not ways.shortened


async def test_a_connection_learns_for_a_while_only(tmp_path: Path) -> None:
    async with groups_both_ways(tmp_path) as ways:
        for number in range(KNOWN_MAX + 10):
            ways.ask(commit({0: 1}, version=9, metadata=f"{number:05}"))
        ways.ask(commit({0: 1}, version=9, metadata=f"{number:05}"))
        assert not ways.shortened


async def test_what_comes_again_pays_for_learning_more(tmp_path: Path) -> None:
    async with groups_both_ways(tmp_path) as ways:
        for number in range(KNOWN_MAX + 10):
            for _ in range(1 + ANSWERS_FOR_A_TRY):
                ways.ask(commit({0: 1}, version=9, metadata=f"{number:05}"))
        assert ways.shortened == (KNOWN_MAX + 10) * ANSWERS_FOR_A_TRY


async def test_a_connection_whose_commits_cannot_be_learned_pays_for_a_while_only(
    tmp_path: Path,
) -> None:
    async with groups_both_ways(tmp_path) as ways:
        for number in range(KNOWN_MAX):
            ways.ask(commit({0: number}, version=2, retention_time_ms=1000))
        for _ in range(2):
            ways.ask(commit({0: 1}, version=2))
        assert not ways.shortened


async def test_a_connection_keeps_what_it_has_learned_last(tmp_path: Path) -> None:
    async with groups_both_ways(tmp_path) as ways:
        lengths = range(800, 840)
        for length in lengths:
            ways.ask(commit({0: 1}, version=9, metadata="x" * length))
        assert not ways.shortened
        repeats = ways.mindful.peer.repeats
        assert isinstance(repeats, Repeats)
        assert sum(repeats._known) <= KEPT_BYTES_MAX
        for length in lengths[-3:]:
            ways.ask(commit({0: 2}, version=9, metadata="x" * length))
        assert ways.shortened == 3


async def test_a_long_commit_is_not_remembered(tmp_path: Path) -> None:
    async with groups_both_ways(tmp_path) as ways:
        for _ in range(2):
            ways.ask(commit({0: 1}, version=9, metadata="x" * FRAME_BYTES_MAX))
        assert not ways.shortened


async def test_damaged_frames_are_answered_alike(tmp_path: Path) -> None:
    dice = random.Random(21)
    async with groups_both_ways(tmp_path) as ways:
        for version in (2, 7, 9, NEWEST):
            frame = commit({0: 5, 2: 6}, version=version, topic_id=topic_id_of(ways))
            for number in range(400):
                if number % 20 == 0:
                    ways.mindful.peer.repeats = None  # damage that makes sense is learned as well
                ways.ask(frame)
                ways.ask(damaged(frame, dice))
                ways.ask(frame)
        assert ways.shortened > 1000


async def test_a_conversation_goes_alike(tmp_path: Path) -> None:
    """Members, groups and topics come and go between commits; transactions are open."""
    dice = random.Random(22)
    async with groups_both_ways(tmp_path) as ways:
        for _ in range(1_500):
            match dice.randrange(60):
                case 0:
                    delete_group(ways)
                case 1 | 2:
                    await consumer_member(ways)
                case 3 | 4:
                    anna_is_here(ways, -1)
                case 5 if dice.randrange(3) == 0:
                    await ways.each(lambda it: it.controller.delete_topics(["trucks"]))
                    topic = NewTopic(name="trucks", partitions=3)
                    await ways.each(lambda it, topic=topic: it.controller.create_topics([topic]))  # type: ignore[misc]
                case 6 | 7:
                    commit_in_transaction(ways, partition=dice.randrange(3))
                case 8 | 9:
                    end_transaction(ways, committed=dice.random() < 0.7)
                case 10:
                    ways.mindful.peer.repeats = None  # it goes on learning
                case _:
                    ways.ask(commit_of_conversation(ways, dice))
            assert told(ways.mindful) == told(ways.forgetful)
        assert ways.shortened > 400


def commit_of_conversation(ways: BothWays, dice: random.Random) -> bytes:
    """By anna if she is there, mostly; now and then she lags, or is not what she says."""
    group = log_of(ways.mindful).state.consumer.find(GROUP)
    anna = None if group is None else group.state.members.get("anna")
    fields: dict[str, Any] = {"topic_id": topic_id_of(ways), "metadata": "x" * dice.randrange(2)}
    if anna is not None or not dice.randrange(9):
        epoch = 2 if anna is None else anna.epoch - (not dice.randrange(5))
        fields |= {"member_id": "anna", "generation_id_or_member_epoch": epoch}
    offsets = {it: dice.randrange(-1, 9) for it in dice.choice(((0,), (0, 2)))}
    return commit(offsets, version=dice.choice((9, 9, 9, 5, NEWEST)), **fields)


def commit_in_transaction(ways: BothWays, partition: int) -> None:
    it = TxnOffsetCommitRequestPartition(
        partition_index=partition, committed_offset=17, committed_metadata=""
    )
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=GROUP,
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="trucks", partitions=[it])],
    )
    for side in (ways.forgetful, ways.mindful):
        log = log_of(side)
        log.carry_out(log.state.txn_offset_commit(request, version=3, ticket=0, now_ms=1))


def end_transaction(ways: BothWays, *, committed: bool) -> None:
    for side in (ways.forgetful, ways.mindful):
        log_of(side).state.transaction_ended(PRODUCER_ID, committed=committed)
