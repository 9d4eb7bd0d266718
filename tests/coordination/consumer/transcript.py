"""Runs a transcript of a consumer group: steps, and below each its responses and records.

anna beats                        a consumer of the next generation takes its next turn: it joins,
  anna at 2 owns orders 0 1 2 3     reports what it owns, gets new partitions
anna beats busily                 still processes partitions to revoke
olga beats                        a consumer of the classic protocol: it joins and syncs, or beats
the log gets 3 records            only where a step writes any
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from pykbroker.coordination.groups.consumer_member import MemberState, numbers
from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
from pykbroker_protocol.errors import ErrorCode
from tests.coordination.consumer.clients import ClassicConsumer, Consumer
from tests.coordination.consumer.world import World

if TYPE_CHECKING:
    from pykbroker.coordination.assignors.assignor import Assignment
    from pykbroker.coordination.groups.consumer_member import ConsumerMember
    from tests.coordination.consumer.clients import Places

UNITS_MS = {"ms": 1, "s": 1_000}


def rerun(text: str) -> str:
    """The transcript as it runs now: steps and comments are kept, responses are replaced."""
    transcript = Transcript()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("  "):
            continue
        lines.append(line)
        if line and not line.startswith("#"):
            lines += [f"  {it}" for it in transcript.step(line)]
            transcript.world.check()
    return "\n".join(lines) + "\n"


class Transcript:
    def __init__(self) -> None:
        self.world = World(ConsumerGroupSettings())
        self.clients: dict[str, Consumer | ClassicConsumer] = {}

    def step(self, line: str) -> list[str]:
        self.world.written.clear()
        said = self.act(shlex.split(line))
        count = len(self.world.written)
        if count:
            said.append(f"the log gets {count} records" if count > 1 else "the log gets a record")
        return said

    def act(self, words: list[str]) -> list[str]:
        match words:
            case ["topic", name, "has", count, "partitions"]:
                self.world.topics.put(name, int(count))
            case ["topic", name, "is", "deleted"]:
                self.world.topics.delete(name)
            case [count, unit, "pass"]:
                self.world.pass_time(int(count) * UNITS_MS[unit])
            case ["the", "coordinator", "crashes"]:
                self.world.restart()
            case ["describe"]:
                return self.describe()
            case [who, *more]:
                return self.turn(who, more)
        return []

    def turn(self, who: str, words: list[str]) -> list[str]:
        match words:
            case ["reads", *topics]:
                self.client(who).topics = topics
            case ["reads-matching", regex]:
                self.consumer(who).regex = regex
            case ["is-static", name]:
                self.client(who).instance_id = name
            case ["speaks-classic"]:
                self.clients[who] = ClassicConsumer(self.world, "", name=who)
            case ["beats", *how]:
                return self.beat(who, self.client(who), how)
            case ["leaves"]:
                return [f"{who} hears {self.client(who).leave().name}"]
            case ["leaves", "for", "a", "while"]:
                return [f"{who} hears {self.consumer(who).leave(-2).name}"]
            case _:
                raise AssertionError(words)
        return []

    def consumer(self, who: str) -> Consumer:
        client = self.client(who)
        assert isinstance(client, Consumer)
        return client

    def client(self, who: str) -> Consumer | ClassicConsumer:
        return self.clients.setdefault(who, Consumer(self.world, who))

    def beat(self, who: str, client: Consumer | ClassicConsumer, how: list[str]) -> list[str]:
        if isinstance(client, Consumer):
            client.is_busy = "busily" in how
        code = client.beat(answer_is_lost="unheard" in how)
        if "unheard" in how:
            return []
        if code is not ErrorCode.NONE:
            return [f"{who} hears {code.name}"]
        epoch = client.epoch if isinstance(client, Consumer) else client.generation
        return [f"{who} at {epoch} owns {self.places(client.owned)}"]

    def places(self, places: Places) -> str:
        by_topic: dict[bytes, frozenset[int]] = {}
        for topic_id, partition in places:
            by_topic[topic_id] = by_topic.get(topic_id, frozenset()) | {partition}
        return self.share(by_topic)

    def share(self, share: Assignment) -> str:
        shares = []
        for topic_id in sorted(share):
            topic = self.world.topics.topic_of_id(topic_id)
            name = topic.name if topic else "what is gone:"
            shares.append(f"{name} {' '.join(map(str, sorted(share[topic_id])))}")
        return ", ".join(shares) or "nothing"

    def describe(self) -> list[str]:
        group = self.world.find()
        if group is None:
            other = self.world.groups.groups.get("fleet")
            return [f"{other.kind.value} group, {other.state_name}" if other else "no group"]
        state = group.state
        heading = f"{state.state.value} at {state.epoch}, assigned at {state.assignment_epoch}"
        return [heading, *(self.member(it) for it in state.members.values())]

    def member(self, member: ConsumerMember) -> str:
        ids = {client.member_id: who for who, client in self.clients.items()}
        said = (
            f"{ids[member.member_id]} at {member.epoch} has {self.share(numbers(member.assigned))}"
        )
        if member.revoking:
            said += f", gives up {self.share(numbers(member.revoking))}"
        if member.state is MemberState.UNRELEASED_PARTITIONS:
            said += ", waits for more"
        return said + " (classic)" * (member.classic is not None)
