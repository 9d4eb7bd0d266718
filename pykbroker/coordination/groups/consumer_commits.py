"""Which members of a consumer group may commit and fetch offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.coordination.groups.consumer_member import ConsumerMember
    from pykbroker.coordination.groups.consumer_state import ConsumerGroupState

MEMBER_EPOCHS_FROM = 9
"""From this version OffsetCommit can carry a member epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """Who says that it commits; an epoch below zero claims no membership."""

    member_id: str
    instance_id: str | None
    epoch: int
    is_transactional: bool
    version: int


def refusal_of_commit(
    state: ConsumerGroupState, committer: Committer, places: Iterable[tuple[bytes, int]] | None
) -> ErrorCode:
    if committer.epoch < 0 and not state.members:
        return ErrorCode.NONE
    names_nobody = not committer.member_id and committer.instance_id is None
    if committer.is_transactional and committer.epoch == -1 and names_nobody:
        return ErrorCode.NONE
    member = state.members.get(committer.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    can_tell_its_epoch = committer.is_transactional or committer.version >= MEMBER_EPOCHS_FROM
    if member.classic is None and not can_tell_its_epoch:
        return ErrorCode.UNSUPPORTED_VERSION
    if committer.epoch == member.epoch or has_kept_all(member, committer.epoch, places):
        return ErrorCode.NONE
    # Clients of transactions do not know the code that tells of epochs.
    return ErrorCode.ILLEGAL_GENERATION if committer.is_transactional else wrong_epoch(member)


def has_kept_all(
    member: ConsumerMember, epoch: int, places: Iterable[tuple[bytes, int]] | None
) -> bool:
    """Whether all of these were the member's at an earlier epoch and still are (KIP-1251)."""
    if places is None or not 0 <= epoch < member.epoch:
        return False
    return all(given_at(member, *place) <= epoch for place in places)


def given_at(member: ConsumerMember, topic_id: bytes, partition: int) -> int:
    """The epoch at which the member was given a partition; later than any if it was not."""
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
