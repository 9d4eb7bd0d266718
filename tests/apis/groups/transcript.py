"""A conversation of several members with one coordinator, each over a connection of its own.

A member's id is chance; it is written down as the name that the member gave and a number.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from pykbroker_protocol.consumer_protocol import ConsumerProtocolSubscription, encode_versioned
from pykbroker_protocol.messages.consumer_group_describe import DescribedGroup
from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from pykbroker_protocol.messages.describe_groups import DescribeGroupsRequest
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from pykbroker_protocol.messages.heartbeat import HeartbeatRequest
from pykbroker_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pykbroker_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pykbroker_protocol.messages.offset_fetch import OffsetFetchRequest
from pykbroker_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.apis.transcript import READY_SECONDS_MAX, Transcript
from tests.apis.wire import Closed, Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pykbroker_protocol.message import Message
    from tests.apis.transcript import Plain

    Conversation = Callable[["GroupTranscript"], None]

MEMBER_ID = re.compile(r"(.*)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
GIVEN_MEMBER_ID = re.compile(r"[A-Za-z0-9_-]{22}")
"""Member ids that Apache Kafka generates; those of PyKBroker start with the client id."""
LONG_MS = 60_000
SAME_PROTOCOL = ("range",)
SAME_WORDS = (ConsumerGroupHeartbeatResponse, DescribedGroup)
"""Messages whose error texts equal those of Apache Kafka, because consumers print them."""


def subscription(*topics: str, user_data: bytes = b"") -> bytes:
    """A valid subscription, because Apache Kafka fails on other bytes."""
    shown = ConsumerProtocolSubscription(topics=topics, user_data=user_data)
    return encode_versioned(shown, 0)


DATA = subscription("topic")

CONVERSATIONS: dict[str, Conversation] = {}


def conversation(hold: Conversation) -> Conversation:
    assert hold.__name__ not in CONVERSATIONS
    CONVERSATIONS[hold.__name__] = hold
    return hold


class GroupTranscript(Transcript):
    """An transcript with readable names for groups and members."""

    def __init__(self, port: int, prefix: str, now_ms: int) -> None:
        super().__init__(port, prefix, now_ms)
        self.member_words: dict[str, str] = {}
        self.heard_by = ""
        self.wires = [self.wire]

    def close(self) -> None:
        super().close()
        for wire in self.wires:
            wire.close()

    def group(self, name: str = "group") -> Group:
        """Returns an unused group id after its coordinator is loaded."""
        group = Group(self, f"{self.prefix}-{name}")
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not group.is_coordinated():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return group

    def until_forgotten(self, group_id: str, topic: str) -> None:
        """Repeats until the coordinator has processed a topic deletion."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        request = OffsetFetchRequest(group_id=group_id, topics=None)
        while any(it.name == topic for it in self.quietly(request, 7).topics):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def new_wire(self, client_id: str) -> Wire:
        wire = Wire(self.port, client_id=client_id)
        self.wires.append(wire)
        return wire

    def hear(self, wire: Wire, request: Message, version: int, note: str) -> Any:
        name = f"{note}: {type(request).__name__} v{version}"
        self.heard_by = wire.client_id
        try:
            response = wire.receive(type(request), version)
        except Closed:
            self.note(name, "closed the connection")
            return None
        self.note(name, self.plain(response))
        return response

    def plain(self, message: Message) -> Plain:
        plain = super().plain(message)
        if isinstance(message, SAME_WORDS) and message.error_message:
            words = message.error_message
            for member_id, word in self.member_words.items():
                words = words.replace(member_id, word)
            plain["error_message"] = words
        return plain

    def plain_value(self, name: str, value: Any) -> Plain:
        if isinstance(value, str):
            return self.member_words.get(value) or self.member_word(name, value)
        plain = super().plain_value(name, value)
        return sorted(plain, key=who) if isinstance(plain, list) else plain

    def member_word(self, name: str, value: str) -> str:
        if found := MEMBER_ID.fullmatch(value):
            prefix = found[1]
        elif name == "member_id" and GIVEN_MEMBER_ID.fullmatch(value):
            prefix = self.heard_by
        else:
            return value
        number = sum(word.startswith(f"{prefix} #") for word in self.member_words.values())
        return self.member_words.setdefault(value, f"{prefix} #{number + 1}")


def who(value: Plain) -> tuple[str, str]:
    """Sorts members, groups, names and numbers, whose order is undefined."""
    if not isinstance(value, dict):
        return f"{value:08}" if isinstance(value, int) else str(value), ""
    return str(value.get("group_id") or ""), str(value.get("member_id") or "")


class Group:
    """A group of one of the two clusters."""

    def __init__(self, broker: GroupTranscript, group_id: str) -> None:
        self.broker = broker
        self.id = group_id

    def member(self, name: str, *, instance: str | None = None) -> Member:
        return Member(self, name, instance)

    def members(self, *names: str) -> list[Member]:
        """Joins the members to a stable group; the first is the leader."""
        members = [self.member(name) for name in names]
        gather(members)
        return members

    def describe(self, version: int = 6, *, note: str = "") -> Any:
        return self.broker.ask(DescribeGroupsRequest(groups=[self.id]), version, note=note)

    def until(self, state: str, count: int | None = None) -> None:
        """Waits until the coordinator has processed the requests."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            (found,) = self.broker.quietly(DescribeGroupsRequest(groups=[self.id]), 5).groups
            if found.group_state == state and count in (None, len(found.members)):
                return
            assert time.monotonic() < deadline, found
            time.sleep(0.005)

    def is_coordinated(self) -> bool:
        """Waits until Apache Kafka has loaded the log of the coordinator."""
        found = self.broker.quietly(FindCoordinatorRequest(key=self.id, key_type=0), 3)
        if found.error_code:
            return False
        (group,) = self.broker.quietly(DescribeGroupsRequest(groups=[self.id]), 5).groups
        return not group.error_code


class Member:
    """A consumer with member id and generation of its last response."""

    def __init__(self, group: Group, name: str, instance: str | None) -> None:
        self.group = group
        self.name = name
        self.instance = instance
        self.id = ""
        self.generation = -1
        self.wire = group.broker.new_wire(name)
        self.asked: tuple[Message, int, str] | None = None

    # --- Requests

    def begin(self, request: Message, version: int, note: str = "") -> None:
        """Sends a request and returns a future of its response."""
        self.asked = (request, version, f"{self.name}{' ' if note else ''}{note}")
        self.wire.send(request, version)

    def hear(self) -> Any:
        assert self.asked is not None
        response = self.group.broker.hear(self.wire, *self.asked)
        if isinstance(self.asked[0], JoinGroupRequest) and response.member_id:
            self.id = response.member_id
            self.generation = max(response.generation_id, self.generation)
        return response

    def ask(self, request: Message, version: int, note: str = "") -> Any:
        self.begin(request, version, note)
        return self.hear()

    # --- Membership

    def begin_join(
        self,
        version: int = 9,
        *,
        protocols: Sequence[str] | Mapping[str, bytes] = SAME_PROTOCOL,
        note: str = "",
        **more: Any,
    ) -> None:
        offered = protocols if isinstance(protocols, dict) else dict.fromkeys(protocols, b"data")
        request = JoinGroupRequest(
            **{
                "group_id": self.group.id,
                "session_timeout_ms": LONG_MS,
                "rebalance_timeout_ms": LONG_MS,
                "member_id": self.id,
                "group_instance_id": self.instance,
                "protocol_type": "consumer",
                "protocols": [
                    JoinGroupRequestProtocol(name=name, metadata=data)
                    for name, data in offered.items()
                ],
                **more,
            }
        )
        self.begin(request, version, note)

    def join(self, version: int = 9, **more: Any) -> Any:
        self.begin_join(version, **more)
        return self.hear()

    def enter(self, version: int = 9, **more: Any) -> None:
        """Joins in two requests (KIP-394); the second response is pending."""
        if self.instance is None and version >= 4:
            self.join(version, **more)
        self.begin_join(version, **more)

    def begin_sync(
        self,
        version: int = 5,
        *,
        shares: Mapping[Member, bytes] | None = None,
        note: str = "",
        **more: Any,
    ) -> None:
        request = SyncGroupRequest(
            **{
                "group_id": self.group.id,
                "generation_id": self.generation,
                "member_id": self.id,
                "group_instance_id": self.instance,
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments": [
                    SyncGroupRequestAssignment(member_id=member.id, assignment=share)
                    for member, share in (shares or {}).items()
                ],
                **more,
            }
        )
        self.begin(request, version, note)

    def sync(self, version: int = 5, **more: Any) -> Any:
        self.begin_sync(version, **more)
        return self.hear()

    def heartbeat(self, version: int = 4, *, note: str = "", **more: Any) -> Any:
        request = HeartbeatRequest(
            **{
                "group_id": self.group.id,
                "generation_id": self.generation,
                "member_id": self.id,
                "group_instance_id": self.instance,
                **more,
            }
        )
        return self.ask(request, version, note)

    def leave(self, version: int = 5, *, note: str = "") -> Any:
        identity = MemberIdentity(member_id=self.id, group_instance_id=self.instance)
        request = LeaveGroupRequest(group_id=self.group.id, members=[identity])
        if version < 3:
            request = LeaveGroupRequest(group_id=self.group.id, member_id=self.id)
        return self.ask(request, version, note)


def gather(members: Sequence[Member], **joining: Any) -> None:
    """Joins and synchronizes all members; the first is the leader."""
    leader, *others = members
    leader.enter(**joining)
    leader.hear()
    for count, member in enumerate(others, 2):
        member.enter(**joining)
        leader.group.until("PreparingRebalance", count)
    if others:
        leader.join(note="again", **joining)
        for member in others:
            member.hear()
    leader.sync(shares={member: f"share of {member.name}".encode() for member in members})
    for member in others:
        member.sync()
