"""A LeaveGroup request with many members is served in slices."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from pykbroker.apis.leave_group import MEMBERS_AT_ONCE_MAX
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from pykbroker_protocol.messages.heartbeat import HeartbeatRequest
from pykbroker_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.apis.test_large_requests import ELEMENTS_MAX, Busy, node_in
from tests.apis.transcript import READY_SECONDS_MAX
from tests.apis.wire import Wire

if TYPE_CHECKING:
    from pathlib import Path

    from pykbroker_protocol.message import Message

CALLS_PER_MEMBER_MAX = 40
"""About ten are expected; the rest is other work of the broker."""


def until_coordinated(port: int) -> None:
    deadline = time.monotonic() + READY_SECONDS_MAX
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    while ask(port, request, 4).error_code != ErrorCode.UNKNOWN_MEMBER_ID:
        assert time.monotonic() < deadline
        ask(port, FindCoordinatorRequest(key="", coordinator_keys=("g",)), 4)


def ask(port: int, request: Message, version: int) -> Any:
    with Wire(port) as wire:
        return wire.ask(request, version)


async def test_many_members_are_removed_in_slices(tmp_path: Path) -> None:
    members = [MemberIdentity(member_id=f"m{it}") for it in range(ELEMENTS_MAX - 10)]
    request = LeaveGroupRequest(group_id="g", members=members)
    async with node_in(tmp_path) as node:
        await asyncio.to_thread(until_coordinated, node.bound_port)
        # Imports and compilation by the first large request are not counted.
        await asyncio.to_thread(ask, node.bound_port, request, 5)
        busy = Busy()
        with busy.counting():
            answer = await asyncio.to_thread(ask, node.bound_port, request, 5)
    assert answer.error_code == ErrorCode.NONE
    assert [it.member_id for it in answer.members] == [it.member_id for it in members]
    assert {it.error_code for it in answer.members} == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert busy.most < CALLS_PER_MEMBER_MAX * MEMBERS_AT_ONCE_MAX, str(busy)
