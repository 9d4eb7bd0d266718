"""Random histories of a consumer group: invariants at any time, and the final state.

Members of both protocols join, leave, stop, lose responses and repeat requests, while topics are
created, grow and are deleted, and the coordinator crashes.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from pykbroker.coordination.groups import consumer_assignment, consumer_decision, consumer_group
from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings, MigrationPolicy
from pykbroker.coordination.groups.consumer_state import GroupState
from pykbroker.coordination.groups.consumer_topics import known_topics
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.leave_group import MemberIdentity
from tests.coordination.consumer.clients import ClassicConsumer, Client, Consumer
from tests.coordination.consumer.world import World

TOPICS = ["orders", "payments", "returns"]
ROUNDS_MAX = 12
"""Rounds in which a quiet group must settle: a few steps for each of up to five members."""

HARMLESS = {
    ErrorCode.NONE,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.FENCED_INSTANCE_ID,
}

subscriptions = st.lists(st.sampled_from(TOPICS), unique=True)
indexes = st.integers(0, 4)


class Histories(RuleBasedStateMachine):
    """The group is never downgraded; `test_migration` covers that."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(ConsumerGroupSettings(migration_policy=MigrationPolicy.UPGRADE))
        self.clients: dict[str, Client] = {}
        self.born = 0
        self.epochs: dict[str, int] = {}

    @initialize(partitions=st.lists(st.integers(1, 6), min_size=1, max_size=3))
    def topics_exist(self, partitions: list[int]) -> None:
        for name, count in zip(TOPICS, partitions, strict=False):
            self.world.topics.put(name, count)
        self.a_consumer_joins(TOPICS[:1], None)

    def client(self, index: int) -> Client:
        return list(self.clients.values())[index % len(self.clients)]

    # Members

    @precondition(lambda self: len(self.clients) < 5)
    @rule(topics=subscriptions, regex=st.sampled_from([None, "", "o.*", "p.*|r.*", ".*s"]))
    def a_consumer_joins(self, topics: list[str], regex: str | None) -> None:
        self.born += 1
        client = Consumer(self.world, f"new-{self.born}", topics, regex)
        self.clients[client.member_id] = client
        assert client.beat() is ErrorCode.NONE

    @precondition(lambda self: len(self.clients) < 5)
    @rule(topics=subscriptions, is_cooperative=st.booleans())
    def a_classic_consumer_joins(self, topics: list[str], is_cooperative: bool) -> None:  # noqa: FBT001  # hypothesis calls by name
        self.born += 1
        client = ClassicConsumer(self.world, f"old-{self.born}", topics)
        client.is_cooperative = is_cooperative
        self.clients[client.member_id] = client
        if self.world.find() and not self.world.group.is_empty:
            assert client.beat() in HARMLESS

    @precondition(lambda self: len(self.clients) < 5)
    @rule(topics=subscriptions)
    def a_static_consumer_joins(self, topics: list[str]) -> None:
        self.born += 1
        client = Consumer(
            self.world, f"new-{self.born}", topics, instance_id=f"berth-{self.born % 2}"
        )
        self.clients[client.member_id] = client
        assert client.beat() in HARMLESS

    @rule(index=indexes, answer_is_lost=st.booleans(), is_busy=st.booleans())
    def a_member_beats(self, index: int, answer_is_lost: bool, is_busy: bool) -> None:  # noqa: FBT001  # hypothesis calls by name
        if self.may_speak(client := self.client(index)):
            if isinstance(client, Consumer):
                client.is_busy = is_busy
            assert client.beat(answer_is_lost=answer_is_lost) in HARMLESS

    @rule(who=st.lists(indexes, min_size=2, max_size=5), removed=st.none() | indexes)
    def several_speak_at_once(self, who: list[int], removed: int | None) -> None:
        """Sends heartbeats together; a member may be removed before its response."""
        consumers = {it.member_id: it for it in map(self.client, who) if isinstance(it, Consumer)}
        tickets = {member_id: it.send() for member_id, it in consumers.items()}
        if removed is not None:
            self.world.leaving_arrives(MemberIdentity(member_id=self.client(removed).member_id))
        self.world.go_on()
        for member_id, ticket in tickets.items():
            assert consumers[member_id].take(ticket) in HARMLESS

    @rule(index=indexes)
    def a_heartbeat_arrives_twice(self, index: int) -> None:
        client = self.client(index)
        if isinstance(client, Consumer) and self.group_knows(client):
            client.beat_twice()

    @rule(index=indexes, topics=subscriptions)
    def a_member_changes_its_mind(self, index: int, topics: list[str]) -> None:
        client = self.client(index)
        if isinstance(client, Consumer | ClassicConsumer):
            client.topics = topics
            if isinstance(client, ClassicConsumer):
                client.must_join = True

    @precondition(lambda self: len(self.clients) > 1)
    @rule(index=indexes, for_a_while=st.booleans())
    def a_member_leaves(self, index: int, for_a_while: bool) -> None:  # noqa: FBT001  # hypothesis calls by name
        client = self.client(index)
        if isinstance(client, Consumer) and for_a_while and client.instance_id is not None:
            client.leave(-2)
        elif self.may_speak(client):
            client.leave()
        del self.clients[client.member_id]

    @precondition(lambda self: len(self.clients) > 1)
    @rule(index=indexes)
    def a_member_dies(self, index: int) -> None:
        del self.clients[self.client(index).member_id]

    def group_knows(self, client: Client) -> bool:
        return client.member_id in self.world.state.members

    def may_speak(self, client: Client) -> bool:
        """Skipped for an empty group, which a classic member would turn into a classic one."""
        return isinstance(client, Consumer) or not self.world.group.is_empty

    # The world

    @rule()
    def everybody_beats(self) -> None:
        """Sends a typical heartbeat."""
        self.world.pass_time(1_000)
        for client in self.clients.values():
            if self.may_speak(client):
                client.beat()

    @rule(duration_ms=st.sampled_from([1, 500, 1_000, 5_000, 30_000, 46_000, 61_000]))
    def time_passes(self, duration_ms: int) -> None:
        self.world.pass_time(duration_ms)

    @rule(name=st.sampled_from(TOPICS), growth=st.integers(0, 3))
    def a_topic_appears_or_grows(self, name: str, growth: int) -> None:
        known = self.world.topics.topic(name)
        self.world.topics.put(name, growth + (known.partition_count if known else 1))

    @rule(name=st.sampled_from(TOPICS))
    def a_topic_is_deleted(self, name: str) -> None:
        if self.world.topics.topic(name) is not None:
            self.world.topics.delete(name)

    @rule()
    def the_coordinator_crashes(self) -> None:
        self.world.restart()

    # Invariants

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        """Clients that were fenced and do not know it do not count."""
        if self.world.find() is None:
            return
        owners = Counter(
            place
            for client in self.clients.values()
            if self.group_knows(client) and self.is_current(client)
            for place in client.owned
        )
        assert not [place for place, count in owners.items() if count > 1]

    def is_current(self, client: Client) -> bool:
        member = self.world.state.members[client.member_id]
        epoch = client.epoch if isinstance(client, Consumer) else self.generation_of(client)
        return epoch in (member.epoch, member.previous_epoch)

    @staticmethod
    def generation_of(client: Client) -> int:
        assert isinstance(client, ClassicConsumer)
        return client.assigned_in_generation

    @invariant()
    def epochs_only_grow(self) -> None:
        if self.world.find() is None:
            return
        state = self.world.state
        now = {"group": state.epoch, "assignment": state.assignment_epoch}
        assert all(now[it] >= self.epochs.get(it, 0) for it in now)
        assert state.assignment_epoch <= state.epoch
        self.epochs = now

    @invariant()
    def the_log_tells_the_same(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        """Without disturbances all members get their target, and all partitions are assigned."""
        if self.world.find() is None or not self.clients:
            return
        for _ in range(ROUNDS_MAX):
            self.world.pass_time(15_000)
            for client in self.clients.values():
                if isinstance(client, Consumer):
                    client.is_busy = False
                if self.may_speak(client):
                    client.beat()
        self.see_that_all_is_settled()

    def see_that_all_is_settled(self) -> None:
        state = self.world.state
        speaking = {it.member_id for it in self.clients.values() if self.group_knows(it)}
        assert speaking == state.members.keys()
        if not speaking:
            return
        assert state.state is GroupState.STABLE
        for client in self.clients.values():
            if self.group_knows(client):
                target = state.target_of(client.member_id)
                assert client.owned == {(topic, it) for topic in target for it in target[topic]}
        wanted = {
            (topic.topic_id, partition)
            for topic in known_topics(state.subscriptions(), self.world.topics).values()
            for partition in range(topic.partition_count)
        }
        assert {place for it in self.clients.values() for place in it.owned} == wanted


class HistoriesInSlices(Histories):
    """Slices are as short as possible, and other requests run between two slices."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.stack.enter_context(patch.object(consumer_assignment, "SHARING_EFFORT", 1))
        self.stack.enter_context(patch.object(consumer_group, "ANSWERING_EFFORT", 1))
        self.stack.enter_context(patch.object(consumer_decision, "SLICE_EFFORT", 1))

    @rule(
        who=st.lists(st.tuples(indexes, st.integers(0, 6)), min_size=2, max_size=5),
        removed=st.none() | indexes,
        topic=st.none() | st.sampled_from(TOPICS),
    )
    def several_speak_between_slices(
        self, who: list[tuple[int, int]], removed: int | None, topic: str | None
    ) -> None:
        tickets: list[tuple[Consumer, int]] = []
        for index, slices in who:
            client = self.client(index)
            if isinstance(client, Consumer) and all(client is not it for it, _ in tickets):
                tickets.append((client, client.send()))
            for _ in range(slices):
                self.world.go_one_step()
        if topic is not None:
            self.a_topic_appears_or_grows(topic, growth=1)
        if removed is not None:
            self.world.leaving_arrives(MemberIdentity(member_id=self.client(removed).member_id))
        self.world.go_on()
        for consumer, ticket in tickets:
            assert consumer.take(ticket) in HARMLESS

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.stack.close()


TestHistories = pytest.mark.slow(Histories.TestCase)
TestHistoriesInSlices = pytest.mark.slow(HistoriesInSlices.TestCase)
TestHistories.settings = TestHistoriesInSlices.settings = settings(
    max_examples=100,
    stateful_step_count=40,
)
