"""Checks offset commits and fetches of members of a consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.coordination.groups.consumer_member import ConsumerMember
    from pykbroker.coordination.groups.consumer_state import ConsumerGroupState

MEMBER_EPOCHS_FROM = 9
"""First version of OffsetCommit with a member epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """The sender of a commit; an epoch below zero means that it is not a member."""

    member_id: str
    instance_id: str | None
    epoch: int
    is_transactional: bool
    version: int


def refusal_of_commit(
    state: ConsumerGroupState,
    committer: Committer,
    committed_partitions: Iterable[tuple[bytes, int]] | None,
) -> ErrorCode:
    if committer.epoch < 0 and not state.members:
        return ErrorCode.NONE
    names_no_member = not committer.member_id and committer.instance_id is None
    if committer.is_transactional and committer.epoch == -1 and names_no_member:
        return ErrorCode.NONE
    member = state.members.get(committer.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    can_carry_epoch = committer.is_transactional or committer.version >= MEMBER_EPOCHS_FROM
    if member.classic is None and not can_carry_epoch:
        return ErrorCode.UNSUPPORTED_VERSION
    if committer.epoch == member.epoch or has_kept_all(
        member, committer.epoch, committed_partitions
    ):
        return ErrorCode.NONE
    # Transactional clients do not support the errors for member epochs.
    return ErrorCode.ILLEGAL_GENERATION if committer.is_transactional else wrong_epoch(member)


def has_kept_all(
    member: ConsumerMember, epoch: int, committed_partitions: Iterable[tuple[bytes, int]] | None
) -> bool:
    """Returns whether the member owned all partitions at that epoch and still does (KIP-1251)."""
    if committed_partitions is None or not 0 <= epoch < member.epoch:
        return False
    return all(assigned_at_epoch(member, *partition) <= epoch for partition in committed_partitions)


def assigned_at_epoch(member: ConsumerMember, topic_id: bytes, partition: int) -> int:
    """Returns the epoch at which a partition was assigned, or the current one if it was not."""
    held = {**member.revoking.get(topic_id, {}), **member.assigned.get(topic_id, {})}
    return held.get(partition, member.epoch)


def refusal_of_fetch(
    state: ConsumerGroupState, member_id: str | None, member_epoch: int
) -> ErrorCode:
    if member_id is None and member_epoch < 0:
        return ErrorCode.NONE
    member = state.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member_epoch == member.epoch else wrong_epoch(member)


def wrong_epoch(member: ConsumerMember) -> ErrorCode:
    is_classic = member.classic is not None
    return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH
