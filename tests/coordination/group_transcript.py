"""Runs a transcript: lines with steps of clients, and below each the responses and records.

anna joins fleet with range          a step; `saying x` changes the metadata, `as berth` makes
  anna hears MEMBER_ID_REQUIRED      her a static member, `in v3` an old client
anna syncs fleet giving anna=a       replies and records, in this order
  the log says fleet has generation 1 of anna
anna commits fleet of log-0=5 through 7       in the transaction of producer 7, which
producer 7 commits                            counts once it commits
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from pykbroker.coordination.groups.classic_member import member_id_for
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.internal_topics.classic_groups import GroupMetadataKey, GroupMetadataValue
from pykbroker_protocol.internal_topics.offsets import OffsetCommitKey, OffsetCommitValue
from pykbroker_protocol.messages.delete_groups import DeleteGroupsResponse
from pykbroker_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pykbroker_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from pykbroker_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from pykbroker_protocol.messages.list_groups import ListGroupsRequest
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
from pykbroker_protocol.messages.offset_fetch import OffsetFetchRequest
from pykbroker_protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from pykbroker_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.coordination.group_world import Marker, World

if TYPE_CHECKING:
    from pykbroker.coordination.groups.settings import GroupSettings
    from pykbroker.coordination.outcome import Outcome, Ticket, Write
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.offset_fetch import OffsetFetchResponsePartition

UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000, "days": 86_400_000}
OPTION_WORDS = ("with", "as", "in", "saying", "giving", "of", "session", "because", "through")


def rerun(text: str, settings: GroupSettings) -> str:
    """The transcript as it runs now: steps and comments are kept, responses are replaced."""
    transcript = Transcript(settings)
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("  "):
            continue
        lines.append(line)
        if line and not line.startswith("#"):
            lines += [f"  {it}" for it in transcript.step(line)]
    return "\n".join(lines) + "\n"


class Transcript:
    def __init__(self, settings: GroupSettings) -> None:
        self.world = World(settings)
        self.ids: dict[str, str] = {}
        """The member id that each client uses."""
        self.generations: dict[str, int] = {}
        self.askers: dict[Ticket, str] = {}
        self.made = 0

    def step(self, line: str) -> list[str]:
        world = self.world
        world.replies.clear()
        world.written.clear()
        waiting = set(world.waiting)
        said = self.act(line)
        for write in world.written:
            said.append(f"the log says {write_text(write)}")
        for ticket, response in world.replies:
            said.append(f"{self.askers[ticket]} {self.tell(self.askers[ticket], response)}")
        said += [f"{self.askers[it]} waits" for it in sorted(world.waiting - waiting)]
        return said

    def act(self, line: str) -> list[str]:
        match shlex.split(line):
            case [count, unit, "pass"]:
                self.world.pass_time(int(count) * UNITS_MS[unit])
            case ["the", "coordinator", "restarts"]:
                self.world.restart()
            case ["operator", *wish]:
                return self.operate(wish)
            case ["producer", number, "commits" | "aborts" as end]:
                self.world.append(Marker(int(number), committed=end == "commits"))
            case [who, "is", "cut", "off"]:
                for ticket in [it for it in self.world.waiting if self.askers[it] == who]:
                    self.world.cut_off(ticket)
            case [who, "starts", *_]:  # a new process without state
                self.ids.pop(who, None)
            case [who, verb, group, *more]:
                getattr(self, verb)(who, group, options(more))
            case words:
                raise AssertionError(words)
        return []

    def ask(self, who: str, decide: object) -> None:
        def decide_and_note(ticket: Ticket) -> Outcome:
            self.askers[ticket] = who
            assert callable(decide)
            outcome: Outcome = decide(ticket)
            return outcome

        self.world.ask(decide_and_note)

    # --- steps of clients

    def joins(self, who: str, group: str, option: dict[str, str]) -> None:
        metadata = option.get("saying", "").encode()
        timeout_ms = int(option.get("session", "10")) * 1000
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=timeout_ms,
            rebalance_timeout_ms=60_000,
            member_id=self.ids.get(who, ""),
            group_instance_id=option.get("as"),
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name=it, metadata=metadata)
                for it in option["with"].split(",")
            ],
            reason=option.get("because"),
        )
        self.made += 1
        self.ask(
            who,
            lambda ticket: self.world.groups.join_group(
                request,
                version=int(option.get("in", "v9")[1:]),
                ticket=ticket,
                client_id=who,
                client_host="/127.0.0.1",
                new_member_id=member_id_for(request, who, str(self.made)),
                now_ms=self.world.now_ms,
            ),
        )

    def syncs(self, who: str, group: str, option: dict[str, str]) -> None:
        shares = dict(it.split("=") for it in option.get("giving", "").split(",") if it)
        request = SyncGroupRequest(
            group_id=group,
            generation_id=self.generation(who, option),
            member_id=self.ids.get(who, ""),
            group_instance_id=option.get("as"),
            protocol_type="consumer",
            protocol_name=option.get("with", "range"),
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=self.ids.get(name, name), assignment=share.encode()
                )
                for name, share in shares.items()
            ],
        )
        self.ask(
            who,
            lambda ticket: self.world.groups.sync_group(
                request, version=5, ticket=ticket, now_ms=self.world.now_ms
            ),
        )

    def beats(self, who: str, group: str, option: dict[str, str]) -> None:
        request = HeartbeatRequest(
            group_id=group,
            generation_id=self.generation(who, option),
            member_id=self.ids.get(who, ""),
            group_instance_id=option.get("as"),
        )
        self.ask(
            who,
            lambda ticket: self.world.groups.heartbeat(
                request, ticket=ticket, now_ms=self.world.now_ms
            ),
        )

    def leaves(self, who: str, group: str, option: dict[str, str]) -> None:
        member_id = self.ids.get(who, "")
        identity = MemberIdentity(member_id=member_id, group_instance_id=option.get("as"))
        version = int(option.get("in", "v5")[1:])
        request = LeaveGroupRequest(group_id=group, members=[identity])
        if version < 3:
            request = LeaveGroupRequest(group_id=group, member_id=member_id)
        self.ask(
            who,
            lambda ticket: self.world.groups.leave_group(
                request, version=version, ticket=ticket, now_ms=self.world.now_ms
            ),
        )

    def commits(self, who: str, group: str, option: dict[str, str]) -> None:
        if "through" in option:
            self.commits_in_transaction(who, group, option)
            return
        topic, partition, offset = re.split("[-=]", option["of"])
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=self.generation(who, option),
            member_id=self.ids.get(who, ""),
            group_instance_id=option.get("as"),
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=int(partition),
                            committed_offset=int(offset),
                            committed_metadata=option.get("saying"),
                        )
                    ],
                )
            ],
        )
        version = int(option.get("in", "v9")[1:])
        self.ask(
            who,
            lambda ticket: self.world.groups.offset_commit(
                request, version=version, ticket=ticket, now_ms=self.world.now_ms
            ),
        )

    def commits_in_transaction(self, who: str, group: str, option: dict[str, str]) -> None:
        topic, partition, offset = re.split("[-=]", option["of"])
        place = TxnOffsetCommitRequestPartition(
            partition_index=int(partition),
            committed_offset=int(offset),
            committed_metadata=option.get("saying"),
        )
        request = TxnOffsetCommitRequest(
            transactional_id=f"producer {option['through']}",
            group_id=group,
            producer_id=int(option["through"]),
            producer_epoch=0,
            generation_id=self.generation(who, option),
            member_id=self.ids.get(who, ""),
            group_instance_id=option.get("as"),
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[place])],
        )
        self.ask(
            who,
            lambda ticket: self.world.groups.txn_offset_commit(
                request, version=3, ticket=ticket, now_ms=self.world.now_ms
            ),
        )

    def generation(self, who: str, option: dict[str, str]) -> int:
        return int(option.get("generation", self.generations.get(who, -1)))

    # --- steps of operators

    def operate(self, words: list[str]) -> list[str]:
        groups, now_ms = self.world.groups, self.world.now_ms
        match words:
            case ["lists"]:
                listed = groups.list_groups(ListGroupsRequest())
                return [f"{it.group_id} is {it.group_state}" for it in listed] or ["nothing"]
            case ["lists", state]:
                listed = groups.list_groups(ListGroupsRequest(states_filter=[state]))
                return [f"{it.group_id} is {it.group_state}" for it in listed] or ["nothing"]
            case ["describes", group]:
                return self.describe(group)
            case ["asks", "offsets", group]:
                return self.read_offsets(group)
            case ["asks", "stable", "offsets", group]:
                return self.read_offsets(group, require_stable=True)
            case ["deletes", group]:
                self.ask(
                    "operator",
                    lambda ticket: groups.delete_groups([group], ticket=ticket, now_ms=now_ms),
                )
            case ["removes", instance, group]:
                request = LeaveGroupRequest(
                    group_id=group, members=[MemberIdentity(group_instance_id=instance)]
                )
                self.ask(
                    "operator",
                    lambda ticket: groups.leave_group(
                        request, version=5, ticket=ticket, now_ms=now_ms
                    ),
                )
            case ["forgets", place, group]:
                self.ask("operator", lambda ticket: self.forget(place, group, ticket))
            case ["drops", topic]:
                self.world.carry_out(groups.topics_deleted([topic], now_ms))
            case _:
                raise AssertionError(words)
        return []

    def describe(self, group: str) -> list[str]:
        (described,) = self.world.groups.describe_groups([group], version=6)
        if described.error_code:
            return [f"{name_of(described.error_code)}: {described.error_message}"]
        members = ", ".join(
            f"{it.member_id} has {it.member_assignment.decode() or 'nothing'}"
            for it in described.members
        )
        return [f"{described.group_state}: {members or 'nobody'}"]

    def read_offsets(self, group: str, *, require_stable: bool = False) -> list[str]:
        request = OffsetFetchRequest(group_id=group, topics=None, require_stable=require_stable)
        response = self.world.groups.offset_fetch(request, version=7)
        return [
            f"{topic.name}-{it.partition_index} is {offset_text(it)}"
            for topic in response.topics
            for it in topic.partitions
        ] or ["nothing"]

    def forget(self, place: str, group: str, ticket: Ticket) -> Outcome:
        topic, partition = place.split("-")
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[OffsetDeleteRequestPartition(partition_index=int(partition))],
                )
            ],
        )
        return self.world.groups.offset_delete(request, ticket=ticket, now_ms=self.world.now_ms)

    # --- responses

    def tell(self, who: str, response: Message) -> str:
        match response:
            case JoinGroupResponse():
                return self.tell_join(who, response)
            case SyncGroupResponse(error_code=ErrorCode.NONE):
                return f"is assigned {bytes(response.assignment).decode() or 'nothing'}"
            case _:
                return f"hears {name_of(code_of(response))}"

    def tell_join(self, who: str, response: JoinGroupResponse) -> str:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.ids[who] = response.member_id
        if response.error_code:
            return f"hears {name_of(response.error_code)}"
        self.ids[who] = response.member_id
        self.generations[who] = response.generation_id
        what = f"generation {response.generation_id} with {response.protocol_name}"
        if not response.members:
            return f"follows {response.leader} in {what} as {response.member_id}"
        members = ", ".join(
            f"{it.member_id} saying {it.metadata.decode()}" if it.metadata else it.member_id
            for it in response.members
        )
        skips = " and has nothing to assign" if response.skip_assignment else ""
        return f"leads {what}{skips}: {members}"


def offset_text(partition: OffsetFetchResponsePartition) -> str:
    return (
        name_of(partition.error_code)
        if partition.error_code
        else f"at {partition.committed_offset}"
    )


def name_of(code: int) -> str:
    return next(it.name for it in ErrorCode if it == code)


def code_of(response: Message) -> int:
    """Transcripts contain requests for one member, one group and one partition."""
    match response:
        case LeaveGroupResponse() if response.members:
            return response.members[0].error_code
        case OffsetCommitResponse() | TxnOffsetCommitResponse():
            return response.topics[0].partitions[0].error_code
        case OffsetDeleteResponse() if response.topics:
            return response.topics[0].partitions[0].error_code
        case DeleteGroupsResponse():
            return response.results[0].error_code
        case (
            HeartbeatResponse()
            | SyncGroupResponse()
            | LeaveGroupResponse()
            | OffsetDeleteResponse()
        ):
            return response.error_code
        case _:
            raise AssertionError(response)


def options(words: list[str]) -> dict[str, str]:
    pairs = dict(zip(words[::2], words[1::2], strict=True))
    assert set(pairs) <= {*OPTION_WORDS, "generation"}, words
    return pairs


def write_text(write: Write) -> str:
    match write.key, write.value:
        case GroupMetadataKey(), None:
            return f"{write.key.group} is gone"
        case GroupMetadataKey(), GroupMetadataValue():
            members = ", ".join(it.member_id for it in write.value.members) or "nobody"
            return f"{write.key.group} has generation {write.value.generation} of {members}"
        case OffsetCommitKey(), None:
            return f"{write.key.group} has forgotten {write.key.topic}-{write.key.partition}"
        case OffsetCommitKey(), OffsetCommitValue():
            place = f"{write.key.topic}-{write.key.partition}"
            return f"{write.key.group} has read {place} up to {write.value.offset}"
        case _:
            raise AssertionError(write)
