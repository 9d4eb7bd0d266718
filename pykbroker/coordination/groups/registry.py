"""The groups of one partition of `__consumer_offsets`, and dispatch of requests to them.

`admission` checks whether a group accepts a request. The modules `classic_*` and `consumer_*`
decide about members; `offsets`, `offset_fetch` and `expiration` decide about offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from pykbroker.coordination.groups import (
    admission,
    classic_liveness,
    classic_responses,
    offset_fetch,
    offsets,
)
from pykbroker.coordination.groups.classic_group import ClassicGroup
from pykbroker.coordination.groups.classic_join import join_group
from pykbroker.coordination.groups.classic_member import JoinContext
from pykbroker.coordination.groups.classic_rebalance import (
    JOIN_TIMER,
    SESSION_TIMER,
    SYNC_TIMER,
    on_join_timeout,
    on_sync_timeout,
    start_session_timer,
)
from pykbroker.coordination.groups.classic_state import ANSWERS, GroupState
from pykbroker.coordination.groups.classic_sync import sync_group
from pykbroker.coordination.groups.committed import CommittedOffsets
from pykbroker.coordination.groups.consumer_group import refused
from pykbroker.coordination.groups.consumer_heartbeat import is_keep_alive
from pykbroker.coordination.groups.consumer_requests import ConsumerGroupKey, ConsumerGroups
from pykbroker.coordination.groups.draft import Draft
from pykbroker.coordination.groups.expiration import delete_group, expire
from pykbroker.coordination.groups.listing import describe_group, list_groups
from pykbroker.coordination.groups.member_bytes import (
    MemberBytes,
    MemberBytesByGroup,
    bytes_of_heartbeat,
    bytes_of_joining,
)
from pykbroker.coordination.groups.outcome import OutcomeInTransaction
from pykbroker.coordination.outcome import merged
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.internal_topics.classic_groups import GroupMetadataKey, GroupMetadataValue
from pykbroker_protocol.internal_topics.offsets import OffsetCommitKey, OffsetCommitValue
from pykbroker_protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
    from pykbroker.coordination.groups.consumer_topics import TopicsView
    from pykbroker.coordination.groups.group import Group
    from pykbroker.coordination.groups.settings import GroupSettings
    from pykbroker.coordination.outcome import Outcome, Ticket
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.consumer_group_describe import (
        DescribedGroup as DescribedConsumerGroup,
    )
    from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from pykbroker_protocol.messages.describe_groups import DescribedGroup
    from pykbroker_protocol.messages.heartbeat import HeartbeatRequest
    from pykbroker_protocol.messages.join_group import JoinGroupRequest
    from pykbroker_protocol.messages.leave_group import LeaveGroupRequest
    from pykbroker_protocol.messages.list_groups import ListedGroup, ListGroupsRequest
    from pykbroker_protocol.messages.offset_commit import OffsetCommitRequest
    from pykbroker_protocol.messages.offset_delete import OffsetDeleteRequest
    from pykbroker_protocol.messages.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestTopics,
        OffsetFetchResponse,
    )
    from pykbroker_protocol.messages.sync_group import SyncGroupRequest
    from pykbroker_protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

EXPIRY_TIMER = "offset-expiry"


class ConsumerContext(TypedDict):
    """Inputs of every decision of a consumer group."""

    topics: TopicsView
    settings: ConsumerGroupSettings


class Groups:
    """Decides requests and timers. Changes that must survive a restart are made by replay."""

    def __init__(
        self,
        settings: GroupSettings,
        consumer_settings: ConsumerGroupSettings,
        topics: TopicsView,
        member_bytes: MemberBytes | None = None,
    ) -> None:
        self.settings = settings
        self.consumer_settings = consumer_settings
        self.topics = topics
        self.groups: dict[str, Group] = {}
        self.consumer = ConsumerGroups(self.groups, consumer_settings)
        self.offsets = CommittedOffsets()
        self.member_bytes = MemberBytesByGroup(member_bytes or MemberBytes())
        self._parked: dict[Ticket, str] = {}
        """Requests that wait for their reply, with their group."""

    def configure(self, settings: GroupSettings, consumer: ConsumerGroupSettings) -> None:
        self.settings, self.consumer_settings = settings, consumer
        self.consumer.settings = consumer

    def classic(self, group_id: str) -> ClassicGroup | None:
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # --- members of classic groups

    def join_group(
        self,
        request: JoinGroupRequest,
        *,
        version: int,
        ticket: Ticket,
        client_id: str,
        client_host: str,
        new_member_id: str,
        now_ms: int,
    ) -> Outcome:
        draft = Draft(now_ms)
        group_id = request.group_id
        code = admission.refusal_of_join(request, self.groups.get(group_id), self.settings)
        if code is not ErrorCode.NONE:
            draft.reply(ticket, classic_responses.refused_join(code, request.member_id))
            return draft.outcome()
        joining = JoinContext(
            request=request,
            version=version,
            ticket=ticket,
            client_id=client_id,
            client_host=client_host,
            new_member_id=new_member_id,
        )
        code = self._refusal_of_growth(
            group_id,
            self._bytes_of_member(group_id, request.member_id, request.group_instance_id),
            bytes_of_joining(request, client_id, client_host),
            draft,
        )
        if code is not ErrorCode.NONE:
            draft.reply(ticket, classic_responses.refused_join(code, request.member_id))
            return draft.outcome()
        consumer = self.consumer.find(group_id)
        if consumer is not None and not consumer.is_empty:
            return consumer.join(joining, now_ms=now_ms, **self._consumer_context(group_id))
        group = self._group_to_join(group_id, draft)
        join_group(group, joining, draft, self.settings)
        if group.members or group.pending:
            self.groups.setdefault(group_id, group)  # a rejected join creates no group
        self._update_member_bytes(group_id)
        return self._outcome(draft, parked=(ticket, group_id))

    def _update_member_bytes(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        self.member_bytes.note(group_id, 0 if group is None else group.member_bytes)

    def _bytes_of_member(self, group_id: str, member_id: str, instance_id: str | None) -> int:
        group = self.groups.get(group_id)
        return 0 if group is None else group.bytes_of_member(member_id, instance_id)

    def _refusal_of_growth(
        self,
        group_id: str,
        before_bytes: int,
        after_bytes: int,
        draft: Draft,
        *,
        others_bytes: int = 0,
    ) -> ErrorCode:
        """Returns the error if a member would use too much memory, and logs it."""
        code, reason = self.member_bytes.refusal(
            before_bytes, after_bytes, self.settings, others_bytes=others_bytes
        )
        if reason:
            draft.add_reason(f"group {group_id}: {reason}; refused with {code.name}")
        return code

    def _group_to_join(self, group_id: str, draft: Draft) -> ClassicGroup:
        """Returns the group to join; removes an empty consumer group and keeps its offsets."""
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group
        if group is not None:
            draft.write(group.tombstones())
            del self.groups[group_id]
        return ClassicGroup(group_id)

    def sync_group(
        self, request: SyncGroupRequest, *, version: int, ticket: Ticket, now_ms: int
    ) -> Outcome:
        draft = Draft(now_ms)
        group = self.classic(request.group_id)
        consumer = self.consumer.find(request.group_id)
        code = admission.refusal_of_sync(request, version)
        if code is ErrorCode.NONE and consumer is not None:
            return consumer.sync(
                request, ticket=ticket, now_ms=now_ms, **self._consumer_context(request.group_id)
            )
        if code is not ErrorCode.NONE:
            draft.reply(ticket, classic_responses.refused_sync(code))
        elif group is None:
            draft.reply(ticket, classic_responses.refused_sync(ErrorCode.UNKNOWN_MEMBER_ID))
        elif (code := self._refusal_of_assignments(group, request, draft)) is not ErrorCode.NONE:
            draft.reply(ticket, classic_responses.refused_sync(code))
        else:
            sync_group(group, request, ticket, draft)
        return self._outcome(draft, parked=(ticket, request.group_id))

    def _refusal_of_assignments(
        self, group: ClassicGroup, request: SyncGroupRequest, draft: Draft
    ) -> ErrorCode:
        """Checks the size of the assignments, which the members store."""
        others_bytes = 0
        for it in request.assignments:
            member = group.members.get(it.member_id)
            if member is None:
                continue
            growth_bytes = len(it.assignment) - len(member.assignment)
            code = self._refusal_of_growth(
                group.group_id,
                member.counted_bytes,
                member.counted_bytes + growth_bytes,
                draft,
                others_bytes=others_bytes,
            )
            if code is not ErrorCode.NONE:
                return code
            others_bytes += growth_bytes
        return ErrorCode.NONE

    def heartbeat(self, request: HeartbeatRequest, *, ticket: Ticket, now_ms: int) -> Outcome:
        consumer = self.consumer.find(request.group_id)
        if consumer is not None:
            return consumer.classic_heartbeat(
                request, ticket=ticket, now_ms=now_ms, **self._consumer_context(request.group_id)
            )
        draft = Draft(now_ms)
        group = self.classic(request.group_id)
        if not request.group_id:
            draft.reply(ticket, classic_responses.heartbeat_response(ErrorCode.INVALID_GROUP_ID))
        elif group is None:
            code = ANSWERS[GroupState.DEAD].heartbeat
            draft.reply(ticket, classic_responses.heartbeat_response(code))
        else:
            classic_liveness.heartbeat(group, request, ticket, draft)
        return draft.outcome()

    def leave_group(
        self, request: LeaveGroupRequest, *, version: int, ticket: Ticket, now_ms: int
    ) -> Outcome:
        consumer = self.consumer.find(request.group_id)
        if consumer is not None:
            return consumer.leave(
                request,
                ticket=ticket,
                version=version,
                now_ms=now_ms,
                **self._consumer_context(request.group_id),
            )
        draft = Draft(now_ms)
        leaving = classic_liveness.leaving_members(request, version)
        group = self.classic(request.group_id)
        if not request.group_id:
            draft.reply(ticket, classic_responses.refused_leaving(ErrorCode.INVALID_GROUP_ID))
            return draft.outcome()
        if group is None:
            results = classic_responses.unknown_members(leaving)
        else:
            results = classic_liveness.leave_group(group, leaving, draft, self.settings)
            self._update_member_bytes(request.group_id)
        draft.reply(ticket, classic_responses.leave_response(results, version))
        return self._outcome(draft)

    # --- members of consumer groups

    def _consumer_context(self, group_id: str) -> ConsumerContext:
        return {"topics": self.topics, "settings": self.consumer_settings.of(group_id)}

    def consumer_group_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        *,
        version: int,
        ticket: Ticket,
        client_id: str,
        client_host: str,
        new_member_id: str,
        now_ms: int,
    ) -> Outcome:
        if not is_keep_alive(request):
            draft = Draft(now_ms)
            code = self._refusal_of_growth(
                request.group_id,
                self._bytes_of_member(request.group_id, request.member_id, request.instance_id),
                bytes_of_heartbeat(request, client_id, client_host),
                draft,
            )
            if code is not ErrorCode.NONE:
                return refused(ticket, Refusal(code, draft.reasons[-1]), draft.reasons)
        outcome = self.consumer.heartbeat(
            request,
            ticket=ticket,
            version=version,
            client_id=client_id,
            client_host=client_host,
            new_member_id=new_member_id,
            now_ms=now_ms,
            topics=self.topics,
        )
        for waiting in outcome.deferred_tickets:
            self._parked[waiting] = request.group_id
        return self._unpark(outcome)

    def _unpark(self, outcome: Outcome) -> Outcome:
        """Drops the parked requests that were answered because the group changed its protocol."""
        for reply in outcome.replies:
            self._parked.pop(reply.ticket, None)
        return outcome

    def describe_consumer_groups(self, group_ids: Iterable[str]) -> list[DescribedConsumerGroup]:
        return self.consumer.describe(group_ids, topics=self.topics)

    # --- offsets

    def offset_commit(
        self, request: OffsetCommitRequest, *, version: int, ticket: Ticket, now_ms: int
    ) -> Outcome:
        """Commits offsets. Topics have names, and ids if the caller has them."""
        draft = Draft(now_ms)
        code = self.check_commit(request, version, draft)
        if code is not ErrorCode.NONE:
            draft.reply(ticket, offsets.refused_commit(request, code))
        else:
            offsets.commit(request, ticket, draft, self.settings)
        return draft.outcome()

    def check_commit(self, request: OffsetCommitRequest, version: int, draft: Draft) -> ErrorCode:
        """Returns the error of a commit; without one, restarts the session timer of the member."""
        group = self.groups.get(request.group_id)
        code = admission.refusal_of_commit(request, version, group)
        if (
            code is ErrorCode.NONE
            and isinstance(group, ClassicGroup)
            and request.member_id in group.members
        ):
            # A commit proves that the member is alive; old consumers rely on it.
            start_session_timer(group, group.members[request.member_id], draft)
        return code

    def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, *, version: int, ticket: Ticket, now_ms: int
    ) -> Outcome:
        """Commits in a transaction; the caller has checked that the partition was added to it."""
        draft = Draft(now_ms)
        group = self.groups.get(request.group_id)
        code = admission.refusal_of_transactional_commit(request, version, group)
        if code is not ErrorCode.NONE:
            draft.reply(ticket, offsets.refused_in_transaction(request, code))
            return draft.outcome()
        offsets.commit_in_transaction(request, ticket, draft, self.settings)
        return OutcomeInTransaction(
            writes=tuple(draft.writes),
            replies=tuple(draft.replies),
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
        )

    def offset_fetch(self, request: OffsetFetchRequest, *, version: int) -> OffsetFetchResponse:
        """Returns committed offsets; topics have names, and all groups belong to this partition."""
        groups = [
            offset_fetch.fetch_of_group(
                requested,
                self.groups.get(requested.group_id),
                self.offsets,
                require_stable=request.require_stable,
            )
            for requested in offset_fetch.requested_groups(request, version)
        ]
        return offset_fetch.in_shape_of(groups, version)

    def topics_committed(self, group_id: str) -> list[OffsetFetchRequestTopics]:
        """Returns the topics with committed offsets, for an OffsetFetch of all topics."""
        return offset_fetch.known_topics(group_id, self.offsets)

    def offset_delete(
        self, request: OffsetDeleteRequest, *, ticket: Ticket, now_ms: int
    ) -> Outcome:
        draft = Draft(now_ms, in_parts=True)
        group = self.groups.get(request.group_id)
        code = admission.refusal_of_offset_deletion(request.group_id, group)
        if group is None or code is not ErrorCode.NONE:
            draft.reply(ticket, offsets.refused_deletion(code))
        else:
            offsets.delete(request, group, self.offsets, ticket, draft)
        return draft.outcome()

    def topics_deleted(self, names: Iterable[str], now_ms: int) -> Outcome:
        """Deletes offsets of deleted topics, so that new topics with their names have none."""
        draft = Draft(now_ms, in_parts=True)
        draft.write(offsets.tombstones(self.offsets.keys_of_topics(frozenset(names))))
        return draft.outcome()

    # --- admin requests

    def delete_groups(self, group_ids: Iterable[str], *, ticket: Ticket, now_ms: int) -> Outcome:
        draft = Draft(now_ms, in_parts=True)
        results = [
            DeletableGroupResult(
                group_id=it, error_code=delete_group(self.groups.get(it), self.offsets, draft)
            )
            for it in dict.fromkeys(group_ids)
        ]
        draft.reply(ticket, DeleteGroupsResponse(results=results))
        return draft.outcome()

    def describe_groups(self, group_ids: Iterable[str], *, version: int) -> list[DescribedGroup]:
        return [describe_group(it, self.groups.get(it), version) for it in group_ids]

    def list_groups(self, request: ListGroupsRequest) -> list[ListedGroup]:
        return list_groups(self.groups.values(), request.states_filter, request.types_filter)

    # --- replay

    def replay(self, key: Message, value: Message | None) -> None:
        match key, value:
            case OffsetCommitKey(), OffsetCommitValue() | None:
                self.offsets.replay(key, value)
                if value is not None:
                    self._replay_existence(key.group)
            case GroupMetadataKey(), GroupMetadataValue():
                group = self.classic(key.group) or ClassicGroup(key.group)
                group.replay(value)
                self.groups[key.group] = group
                self._update_member_bytes(key.group)
            case GroupMetadataKey(), None:
                if self.classic(key.group) is not None:
                    del self.groups[key.group]
                    self._update_member_bytes(key.group)
            case _:
                assert isinstance(key, ConsumerGroupKey), f"unexpected key {type(key).__name__}"
                self.consumer.replay(key, value)
                self._update_member_bytes(key.group_id)

    def _replay_existence(self, group_id: str) -> None:
        """Creates the group if it has committed offsets but no members (manual assignment)."""
        if group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id)

    def replay_of_transaction(self, producer_id: int, key: Message, value: Message | None) -> None:
        """Replays a record of an open transaction; only offsets are pending until it commits."""
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            self.offsets.replay_of_transaction(producer_id, key, value)
            self._replay_existence(key.group)
        else:
            self.replay(key, value)

    def transaction_ended(self, producer_id: int, *, committed: bool) -> None:
        self.offsets.transaction_ended(producer_id, committed=committed)

    def loaded(self, now_ms: int) -> Outcome:
        draft = Draft(now_ms)
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                classic_liveness.loaded(group, draft, self.settings)
        draft.set_timer(EXPIRY_TIMER, after_ms=self.settings.offsets_retention_check_interval_ms)
        return merged([draft.outcome(), *self.consumer.loaded(now_ms)])

    # --- timers and lost connections

    def timer(self, name: tuple[str, ...], now_ms: int) -> Outcome:
        of_consumers = self.consumer.timer(
            name, now_ms=now_ms, topics=self.topics, classic_settings=self.settings
        )
        if of_consumers is not None:
            return self._unpark(of_consumers)
        if name == (EXPIRY_TIMER,):
            return self._expire(now_ms)
        draft = Draft(now_ms)
        self._timer_of_group(name, draft)
        return self._outcome(draft)

    def may_wait(self, name: tuple[str, ...]) -> bool:
        """Returns whether the timer may fire late without an effect on a group."""
        return name == (EXPIRY_TIMER,)

    def _timer_of_group(self, name: tuple[str, ...], draft: Draft) -> None:
        group = self.classic(name[1])
        if group is None:
            return
        match name:
            case (kind, _, member_id) if kind == SESSION_TIMER:
                classic_liveness.on_session_timeout(group, member_id, draft, self.settings)
            case (kind, _) if kind == JOIN_TIMER:
                on_join_timeout(group, draft, self.settings)
            case (kind, _) if kind == SYNC_TIMER:
                on_sync_timeout(group, draft, self.settings)
        self._update_member_bytes(group.group_id)

    def _expire(self, now_ms: int) -> Outcome:
        draft = Draft(now_ms, in_parts=True)
        for group in self.groups.values():
            expire(group, self.offsets, draft, self.settings.offsets_retention_ms)
        draft.set_timer(EXPIRY_TIMER, after_ms=self.settings.offsets_retention_check_interval_ms)
        return draft.outcome()

    def cancel_requests(self, tickets: Iterable[Ticket]) -> None:
        for ticket in tickets:
            group_id = self._parked.pop(ticket, "")
            group = self.classic(group_id)
            if group is not None:
                classic_liveness.cancel_request(group, ticket)
            self.consumer.cancel_request(group_id, ticket)

    def _outcome(self, draft: Draft, parked: tuple[Ticket, str] | None = None) -> Outcome:
        """Returns the outcome; parks the request unless the draft replies to it."""
        if parked is not None:
            ticket, group_id = parked
            self._parked[ticket] = group_id
        for reply in draft.replies:
            self._parked.pop(reply.ticket, None)
        return draft.outcome()
