"""Committed offsets: in each version of a fetch, in transactions, and when they expire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pykbroker.coordination.groups.outcome import OutcomeInTransaction
from pykbroker.coordination.groups.settings import GroupSettings
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.internal_topics.offsets import OffsetCommitKey, OffsetCommitValue
from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from pykbroker_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from pykbroker_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from pykbroker_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.coordination.group_world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.coordination.outcome import Ticket

SETTINGS = GroupSettings(offset_metadata_length_max=10)
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
FIRST_ID, SECOND_ID = bytes([1]) * 16, bytes([2]) * 16
PRODUCER = 77


@pytest.fixture
def world() -> World:
    return World(SETTINGS)


def commit(
    world: World,
    offset: int,
    *,
    metadata: str | None = None,
    topic_id: bytes = ZERO_UUID,
    retention_ms: int = -1,
    leader_epoch: int = -1,
) -> int:
    partition = OffsetCommitRequestPartition(
        partition_index=0,
        committed_offset=offset,
        committed_metadata=metadata,
        committed_leader_epoch=leader_epoch,
    )
    request = OffsetCommitRequest(
        group_id="diary",
        member_id="",
        retention_time_ms=retention_ms,
        topics=[OffsetCommitRequestTopic(name="log", topic_id=topic_id, partitions=[partition])],
    )
    world.replies.clear()
    world.ask(
        lambda ticket: world.groups.offset_commit(
            request, version=9, ticket=ticket, now_ms=world.now_ms
        )
    )
    (reply,) = world.replies
    assert isinstance(reply.response, OffsetCommitResponse)
    return reply.response.topics[0].partitions[0].error_code


def fetch(
    world: World, *, topic_id: bytes = ZERO_UUID, require_stable: bool = False
) -> OffsetFetchResponsePartitions:
    topic = OffsetFetchRequestTopics(name="log", topic_id=topic_id, partition_indexes=[0])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id="diary", topics=[topic])],
        require_stable=require_stable,
    )
    response = world.groups.offset_fetch(request, version=10)
    return response.groups[0].topics[0].partitions[0]


# --- fetches


@pytest.mark.parametrize("version", range(1, 8))
def test_versions_below_8_fetch_one_group(world: World, version: int) -> None:
    commit(world, 5, metadata="note", leader_epoch=3)
    topic = OffsetFetchRequestTopic(name="log", partition_indexes=[0, 1])
    request = OffsetFetchRequest(group_id="diary", topics=[topic])
    (fetched,) = world.groups.offset_fetch(request, version=version).topics
    assert fetched.partitions == [
        OffsetFetchResponsePartition(
            partition_index=0, committed_offset=5, committed_leader_epoch=3, metadata="note"
        ),
        OffsetFetchResponsePartition(
            partition_index=1, committed_offset=-1, committed_leader_epoch=-1, metadata=""
        ),
    ]


def test_versions_from_8_fetch_many_groups(world: World) -> None:
    commit(world, 5)
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=it, topics=None) for it in ("diary", "nobody")]
    )
    diary, nobody = world.groups.offset_fetch(request, version=9).groups
    assert [topic.name for topic in diary.topics] == ["log"]
    assert (nobody.group_id, nobody.topics, nobody.error_code) == ("nobody", [], ErrorCode.NONE)


@pytest.mark.parametrize(
    ("committed_with", "asked_with", "offset"),
    [
        (FIRST_ID, FIRST_ID, 5),
        (FIRST_ID, SECOND_ID, -1),
        (FIRST_ID, ZERO_UUID, 5),
        (ZERO_UUID, SECOND_ID, 5),
    ],
)
def test_a_recreated_topic_does_not_inherit_offsets(
    world: World, committed_with: bytes, asked_with: bytes, offset: int
) -> None:
    commit(world, 5, topic_id=committed_with)
    assert fetch(world, topic_id=asked_with).committed_offset == offset


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        (None, ErrorCode.NONE),
        ("0123456789", ErrorCode.NONE),
        ("é" * 10, ErrorCode.NONE),
        ("0123456789a", ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("\N{GRINNING FACE}" * 6, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_offset_metadata_is_limited(world: World, metadata: str | None, code: ErrorCode) -> None:
    assert commit(world, 5, metadata=metadata) == code
    assert fetch(world).committed_offset == (5 if code is ErrorCode.NONE else -1)


# --- transactions


def commit_in_transaction(world: World, offset: int, producer_id: int = PRODUCER) -> int:
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=None
    )
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="diary",
        producer_id=producer_id,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="log", partitions=[partition])],
    )
    ticket: Ticket = 1
    outcome = world.groups.txn_offset_commit(request, version=3, ticket=ticket, now_ms=world.now_ms)
    for write in outcome.writes:
        world.groups.replay_of_transaction(producer_id, write.key, write.value)
    response = outcome.replies[0].response
    assert isinstance(response, TxnOffsetCommitResponse)
    return response.topics[0].partitions[0].error_code


@pytest.mark.parametrize(("committed", "offset"), [(True, 9), (False, 5)])
def test_offsets_of_a_transaction_count_when_it_commits(
    world: World, *, committed: bool, offset: int
) -> None:
    commit(world, 5)
    assert commit_in_transaction(world, 9) == ErrorCode.NONE
    assert fetch(world).committed_offset == 5
    assert fetch(world, require_stable=True).error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    world.groups.transaction_ended(PRODUCER, committed=committed)
    assert fetch(world, require_stable=True).committed_offset == offset


def test_the_later_commit_counts_whenever_the_transaction_ends(world: World) -> None:
    commit_in_transaction(world, 9)
    commit(world, 12)
    world.groups.transaction_ended(PRODUCER, committed=True)
    assert fetch(world).committed_offset == 12


def test_of_two_transactions_the_later_commit_counts(world: World) -> None:
    commit_in_transaction(world, 9, producer_id=1)
    commit_in_transaction(world, 12, producer_id=2)
    world.groups.transaction_ended(2, committed=True)
    world.groups.transaction_ended(1, committed=True)
    assert fetch(world).committed_offset == 12
    commit_in_transaction(world, 20, producer_id=1)
    world.groups.transaction_ended(1, committed=True)
    assert fetch(world).committed_offset == 20


def delete_offset(world: World) -> int:
    request = OffsetDeleteRequest(
        group_id="diary",
        topics=[
            OffsetDeleteRequestTopic(
                name="log", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
        ],
    )
    world.replies.clear()
    world.ask(
        lambda ticket: world.groups.offset_delete(request, ticket=ticket, now_ms=world.now_ms)
    )
    (reply,) = world.replies
    assert isinstance(reply.response, OffsetDeleteResponse)
    return reply.response.topics[0].partitions[0].error_code


def delete_group(world: World) -> None:
    world.ask(
        lambda ticket: world.groups.delete_groups(["diary"], ticket=ticket, now_ms=world.now_ms)
    )


def delete_topic(world: World) -> None:
    world.carry_out(world.groups.topics_deleted(["log"], world.now_ms))


@pytest.mark.parametrize("delete", [delete_offset, delete_group, delete_topic])
@pytest.mark.parametrize("before", [None, 5])
def test_deleted_offsets_are_not_restored_by_a_transaction(
    world: World, delete: Callable[[World], object], before: int | None
) -> None:
    if before is not None:
        commit(world, before)
    for producer_id in (1, 2):
        commit_in_transaction(world, 9, producer_id=producer_id)
    delete(world)
    assert fetch(world, require_stable=True) == fetch(world)
    assert fetch(world).error_code == ErrorCode.NONE
    commit_in_transaction(world, 12, producer_id=1)
    world.groups.transaction_ended(2, committed=True)
    assert fetch(world).committed_offset == -1
    assert fetch(world, require_stable=True).error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    world.groups.transaction_ended(1, committed=True)
    assert fetch(world, require_stable=True).committed_offset == 12


def test_a_group_is_kept_while_it_has_pending_offsets(world: World) -> None:
    commit_in_transaction(world, 9)
    world.pass_time(10 * MINUTE_MS)
    assert "diary" in world.groups.groups
    world.groups.transaction_ended(PRODUCER, committed=False)
    world.pass_time(10 * MINUTE_MS)
    assert "diary" not in world.groups.groups


def test_an_outcome_in_a_transaction_has_its_producer(world: World) -> None:
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=None
    )
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="diary",
        producer_id=PRODUCER,
        producer_epoch=3,
        topics=[TxnOffsetCommitRequestTopic(name="log", partitions=[partition])],
    )
    outcome = world.groups.txn_offset_commit(request, version=3, ticket=1, now_ms=world.now_ms)
    assert isinstance(outcome, OutcomeInTransaction)
    assert (outcome.producer_id, outcome.producer_epoch) == (PRODUCER, 3)
    (write,) = outcome.writes
    assert write.value_version == 4


def test_a_transactional_commit_with_the_generation_of_no_group_is_rejected(world: World) -> None:
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="nobody",
        producer_id=1,
        producer_epoch=0,
        generation_id=4,
        member_id="m",
        topics=[
            TxnOffsetCommitRequestTopic(
                name="log",
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=0, committed_offset=1, committed_metadata=None
                    )
                ],
            )
        ],
    )
    outcome = world.groups.txn_offset_commit(request, version=3, ticket=1, now_ms=world.now_ms)
    response = outcome.replies[0].response
    assert isinstance(response, TxnOffsetCommitResponse)
    assert response.topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION
    assert not outcome.writes


def test_an_offset_does_not_expire_under_an_open_transaction(world: World) -> None:
    commit(world, 5)
    commit_in_transaction(world, 9)
    world.pass_time(8 * DAY_MS)
    assert fetch(world).committed_offset == 5
    world.groups.transaction_ended(PRODUCER, committed=False)
    world.pass_time(10 * MINUTE_MS)
    assert fetch(world).committed_offset == -1


# --- expiration


def test_a_commit_of_version_4_or_older_sets_its_retention(world: World) -> None:
    commit(world, 5, retention_ms=15 * MINUTE_MS)
    assert world.written[-1].value_version == 1
    world.pass_time(10 * MINUTE_MS)
    assert fetch(world).committed_offset == 5
    world.pass_time(10 * MINUTE_MS)
    assert fetch(world).committed_offset == -1
    assert "diary" not in world.groups.groups


def test_a_later_commit_expires_later(world: World) -> None:
    commit(world, 5)
    world.pass_time(6 * DAY_MS)
    commit(world, 6)
    world.pass_time(6 * DAY_MS)
    assert fetch(world).committed_offset == 6


# --- replay


def test_a_tombstone_deletes_one_offset(world: World) -> None:
    for partition in (0, 1):
        key = OffsetCommitKey(group="diary", topic="log", partition=partition)
        world.groups.replay(key, OffsetCommitValue(offset=5, metadata="", commit_timestamp=1))
    world.groups.replay(OffsetCommitKey(group="diary", topic="log", partition=0), None)
    world.groups.replay(OffsetCommitKey(group="diary", topic="none", partition=0), None)
    assert list(world.groups.offsets.of_group("diary")["log"]) == [1]
