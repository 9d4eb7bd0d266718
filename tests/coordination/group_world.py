"""Runs groups with a clock, a log of encoded records, timers and parked requests in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker.coordination.groups.classic_group import ClassicGroup
from pykbroker.coordination.groups.consumer_group import ConsumerGroup
from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
from pykbroker.coordination.groups.member_bytes import (
    MEMBER_OVERHEAD_BYTES,
    bytes_of_consumer_member,
)
from pykbroker.coordination.groups.outcome import OutcomeInTransaction
from pykbroker.coordination.groups.registry import Groups
from pykbroker.coordination.outcome import Outcome, SetTimer, Write
from pykbroker.coordinators.coordinated_log import RETRY_MS
from pykbroker.coordinators.group_log import GROUP_RECORDS
from pykbroker.coordinators.records import decode_record, encode_write

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.coordination.groups.consumer_topics import TopicView
    from pykbroker.coordination.groups.settings import GroupSettings
    from pykbroker.coordination.outcome import Reply, Ticket

START_MS = 1_000_000
NO_PRODUCER = -1


class NoTopics:
    """A cluster without topics, which classic groups never read."""

    version = 0

    def topic(self, name: str) -> TopicView | None:  # noqa: ARG002 - a TopicsView
        return None

    def topic_of_id(self, topic_id: bytes) -> TopicView | None:  # noqa: ARG002 - a TopicsView
        return None

    def names(self) -> tuple[str, ...]:
        return ()


NO_TOPICS = NoTopics()


def counted_again(groups: Groups) -> int:
    """Counts the memory of all members again."""
    return sum(
        sum(it.held_bytes + len(group.group_id) for it in group.members.values())
        + sum(
            MEMBER_OVERHEAD_BYTES + len(group.group_id) + len(member_id)
            for member_id in group.pending
        )
        if isinstance(group, ClassicGroup)
        else sum(map(bytes_of_consumer_member, group.state.members.values()))
        for group in groups.groups.values()
        if isinstance(group, ClassicGroup | ConsumerGroup)
    )


class Logged(NamedTuple):
    """A record, with the producer id of its transaction."""

    producer_id: int
    key: bytes
    value: bytes | None

    def replay(self, groups: Groups) -> None:
        key, value = decode_record(GROUP_RECORDS, self.key, self.value)
        if self.producer_id == NO_PRODUCER:
            groups.replay(key, value)
        else:
            groups.replay_of_transaction(self.producer_id, key, value)


class Marker(NamedTuple):
    """The end of a producer's transaction."""

    producer_id: int
    committed: bool

    def replay(self, groups: Groups) -> None:
        groups.transaction_ended(self.producer_id, committed=self.committed)


class World:
    """Carries outcomes out as the runtime does: append, replay, set timers, reply.

    On a full disk nothing is appended: who asked is refused, and timers ring again later.
    """

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.now_ms = START_MS
        self.log: list[Logged | Marker] = []
        self.timers: dict[tuple[str, ...], int] = {}
        self.waiting: set[Ticket] = set()
        self.replies: list[Reply] = []
        self.written: list[Write] = []
        self.reasons: list[str] = []
        self.disk_is_full = False
        self._tickets = 0
        self.groups = Groups(settings, ConsumerGroupSettings(), NO_TOPICS)
        self.carry_out(self.groups.loaded(self.now_ms))

    def ask(self, decide: Callable[[Ticket], Outcome]) -> Ticket:
        self._tickets += 1
        self.waiting.add(self._tickets)
        self.carry_out(decide(self._tickets))
        return self._tickets

    def carry_out(self, outcome: Outcome) -> bool:
        if outcome.writes and self.disk_is_full:
            self.timers.update(
                {it.name: it.at_ms for it in outcome.timers if isinstance(it, SetTimer)}
            )
            self.waiting.difference_update(it.ticket for it in outcome.replies)
            return False
        producer_id = NO_PRODUCER
        if isinstance(outcome, OutcomeInTransaction):
            producer_id = outcome.producer_id
        for write in outcome.writes:
            self.append(Logged(producer_id, *encode_write(write)))
        for timer in outcome.timers:
            if isinstance(timer, SetTimer):
                self.timers[timer.name] = timer.at_ms
            else:
                self.timers.pop(timer.name, None)
        for reply in outcome.replies:
            self.waiting.remove(reply.ticket)  # fails where a request is answered twice
        self.replies += outcome.replies
        self.written += outcome.writes
        self.reasons += outcome.reasons
        return True

    def append(self, entry: Logged | Marker) -> None:
        self.log.append(entry)
        entry.replay(self.groups)

    def pass_time(self, ms: int) -> None:
        """Fires due timers in order."""
        end_ms = self.now_ms + ms
        while due := [(at, name) for name, at in self.timers.items() if at <= end_ms]:
            at_ms, name = min(due)
            self.now_ms = max(self.now_ms, at_ms)
            del self.timers[name]
            if not self.carry_out(self.groups.timer(name, self.now_ms)):
                self.timers.setdefault(name, self.now_ms + RETRY_MS)
        self.now_ms = end_ms

    def cut_off(self, ticket: Ticket) -> None:
        """Loses the connection of a parked request."""
        self.waiting.remove(ticket)
        self.groups.cancel_requests([ticket])

    def restart(self) -> None:
        """Crashes the coordinator; only its log remains."""
        assert set(self.groups._parked) == self.waiting, "parked requests are known"
        self.waiting.clear()
        self.timers.clear()
        self.groups = self.replayed()
        self.carry_out(self.groups.loaded(self.now_ms))

    def replayed(self) -> Groups:
        groups = Groups(self.settings, ConsumerGroupSettings(), NO_TOPICS)
        for entry in self.log:
            entry.replay(groups)
        return groups
