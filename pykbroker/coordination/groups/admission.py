"""Checks whether the group of a request exists and has the protocol of the request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.classic_group import ClassicGroup
from pykbroker.coordination.groups.classic_state import ANSWERS, GroupState
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.message import ZERO_UUID

if TYPE_CHECKING:
    from pykbroker.coordination.groups.group import Group
    from pykbroker.coordination.groups.settings import GroupSettings
    from pykbroker_protocol.messages.join_group import JoinGroupRequest
    from pykbroker_protocol.messages.offset_commit import OffsetCommitRequest
    from pykbroker_protocol.messages.sync_group import SyncGroupRequest
    from pykbroker_protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

PROTOCOL_IS_NAMED_SINCE = 5
"""First version of SyncGroup that contains the protocol type and name."""
MISSING_GROUP_HAS_A_CODE_SINCE = 9
"""First version of OffsetCommit with an own error; older ones get ILLEGAL_GENERATION."""


def refusal_of_join(
    request: JoinGroupRequest, group: Group | None, settings: GroupSettings
) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    shortest, longest = settings.session_timeout_ms_min, settings.session_timeout_ms_max
    if not shortest <= request.session_timeout_ms <= longest:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if isinstance(group, ClassicGroup):
        return ErrorCode.NONE
    if group is not None and not group.is_empty:
        return ErrorCode.NONE  # a consumer group accepts members of the classic protocol
    return ErrorCode.UNKNOWN_MEMBER_ID if request.member_id else ErrorCode.NONE


def refusal_of_sync(request: SyncGroupRequest, version: int) -> ErrorCode:
    is_named = request.protocol_type is not None and request.protocol_name is not None
    if version >= PROTOCOL_IS_NAMED_SINCE and not is_named:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


def refusal_of_commit(request: OffsetCommitRequest, version: int, group: Group | None) -> ErrorCode:
    """Checks a commit; without a generation it needs no group, because it creates one."""
    generation = request.generation_id_or_member_epoch
    if group is not None:
        return group.refusal_of_commit(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=generation,
            transactional=False,
            version=version,
            committed_partitions=committed_partitions_of(request),
        )
    if generation < 0:
        return ErrorCode.NONE
    if version >= MISSING_GROUP_HAS_A_CODE_SINCE:
        return ANSWERS[GroupState.DEAD].commit
    return ErrorCode.ILLEGAL_GENERATION


def committed_partitions_of(request: OffsetCommitRequest) -> list[tuple[bytes, int]] | None:
    """Returns the partitions of a commit by topic id; None if an id is unknown."""
    if any(topic.topic_id == ZERO_UUID for topic in request.topics):
        return None
    return [
        (topic.topic_id, it.partition_index) for topic in request.topics for it in topic.partitions
    ]


def refusal_of_transactional_commit(
    request: TxnOffsetCommitRequest, version: int, group: Group | None
) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.ILLEGAL_GENERATION if request.generation_id >= 0 else ErrorCode.NONE
    return group.refusal_of_commit(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        transactional=True,
        version=version,
    )


def refusal_of_offset_deletion(group_id: str, group: Group | None) -> ErrorCode:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    return ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.refusal_of_offset_deletion()
