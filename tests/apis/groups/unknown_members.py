"""Unknown members, old generations and empty group ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.apis.groups.transcript import conversation, subscription

if TYPE_CHECKING:
    from tests.apis.groups.transcript import GroupTranscript

VERSIONS = {"join": (0, 4, 5, 9), "sync": (0, 3, 5), "heartbeat": (0, 3, 4), "leave": (0, 2, 3, 5)}


@conversation
def unknown_members(broker: GroupTranscript) -> None:
    group = broker.group()
    group.members("leader")
    stranger = group.member("stranger")
    stranger.id = "nobody"
    for generation in (-1, 0, 1, 2):
        stranger.generation = generation
        stranger.heartbeat(note=f"generation {generation}")
        stranger.sync(note=f"generation {generation}")
    for version in VERSIONS["join"]:
        stranger.join(version)
        stranger.id = "nobody"
    for version in VERSIONS["leave"]:
        stranger.leave(version)
    group.describe()


@conversation
def unknown_groups(broker: GroupTranscript) -> None:
    for name in ("", "nobody"):
        stranger = broker.group(f"no-such-{name}").member("stranger")
        stranger.id = name
        for generation in (-1, 0, 7):
            for version in VERSIONS["heartbeat"]:
                stranger.heartbeat(version, generation_id=generation)
            for version in VERSIONS["sync"]:
                stranger.sync(version, generation_id=generation)
        for version in VERSIONS["leave"]:
            stranger.leave(version)
        stranger.group.describe(note="still not there")
    stranger.id = "nobody"
    stranger.join(9, note="with an id of its own making")
    stranger.join(3, note="with an id of its own making")


@conversation
def an_empty_group_id(broker: GroupTranscript) -> None:
    group = broker.group()
    (member,) = group.members("member")
    group.id = ""
    for version in VERSIONS["join"]:
        member.begin_join(version)
        broker.hear(member.wire, member.asked[0], version, "no name") if member.asked else None
    for version in VERSIONS["sync"]:
        member.sync(version)
    for version in VERSIONS["heartbeat"]:
        member.heartbeat(version)
    for version in VERSIONS["leave"]:
        member.leave(version)
    for version in (0, 5, 6):
        group.describe(version)


@conversation
def old_and_future_generations(broker: GroupTranscript) -> None:
    group = broker.group()
    leader, second = group.members("leader", "second")
    for generation in (-1, 0, leader.generation - 1, leader.generation + 1, 2**31 - 1):
        leader.heartbeat(generation_id=generation, note=f"generation {generation}")
        second.sync(generation_id=generation, note=f"generation {generation}")
    second.begin_join(protocols={"range": subscription("changed")})
    group.until("PreparingRebalance")
    for generation in (leader.generation, leader.generation - 1, leader.generation + 1):
        leader.heartbeat(generation_id=generation, note=f"rebalancing, generation {generation}")
        leader.sync(generation_id=generation, note=f"rebalancing, generation {generation}")
    leader.join()
    second.hear()
    for generation in (leader.generation, leader.generation - 1, leader.generation + 1):
        second.heartbeat(generation_id=generation, note=f"completing, generation {generation}")
    second.sync(generation_id=leader.generation - 1, note="completing, the generation before")
    second.heartbeat(member_id="", note="no member id")
    second.sync(member_id="", note="no member id")


@conversation
def session_timeouts_have_bounds(broker: GroupTranscript) -> None:
    group = broker.group()
    for version in (0, 3, 4, 9):
        for session_ms in (-1, 0, 1, 5_999, 1_800_001, 2**31 - 1):
            newcomer = group.member("newcomer")
            newcomer.join(version, session_timeout_ms=session_ms, note=f"{session_ms} ms")
    for session_ms in (6_000, 1_800_000):
        newcomer = broker.group(f"of-{session_ms}").member("newcomer")
        newcomer.enter(9, session_timeout_ms=session_ms, note=f"{session_ms} ms")
        newcomer.hear()
        newcomer.join(9, session_timeout_ms=5_999, note="too short now")
        newcomer.heartbeat()


@conversation
def rebalance_timeouts_are_not_checked(broker: GroupTranscript) -> None:
    for timeout_ms in (-1, 0, 2**31 - 1):
        newcomer = broker.group(f"of{timeout_ms}").member("newcomer")
        newcomer.enter(9, rebalance_timeout_ms=timeout_ms, note=f"{timeout_ms} ms")
        newcomer.hear()
