"""One decision about a consumer group: it writes records and at once sees what they bring about.

The records are replayed into a copy, by the same code that will replay them into the group itself;
what a decision sees is therefore what the group becomes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.consumer_regex import SLICE_EFFORT
from pykbroker.coordination.groups.draft import Draft

if TYPE_CHECKING:
    from pykbroker.coordination.groups.consumer_matching import Matched
    from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
    from pykbroker.coordination.groups.consumer_state import ConsumerGroupState
    from pykbroker.coordination.groups.consumer_topics import TopicsView
    from pykbroker.coordination.outcome import Outcome, Ticket, Write
    from pykbroker_protocol.message import Message

SESSION = "consumer-session"
"""A member was not heard of for its session timeout."""
REVOCATION = "consumer-revocation"
"""A member did not give partitions up within its rebalance timeout."""
REJOIN = "consumer-rejoin"
"""A member of the classic protocol was asked to rejoin and did not."""
SYNC = "consumer-sync"
"""A member of the classic protocol joined and did not fetch its assignment."""
MEMBER_TIMERS = (SESSION, REVOCATION, REJOIN, SYNC)
"""Timers of a member are named (kind, group id, member id)."""
DOWNGRADED = "consumer-downgraded"
"""Put off, as (kind, group id): the group is classic now and has to rebalance."""
ASSIGNMENT = "consumer-assignment"
"""Put off, as (kind, group id): a new target is due, and members wait for it."""
NEXT_STEPS = "consumer-next-steps"
"""Put off, as (kind, group id): the target that they waited for is there."""
MATCHING = "consumer-matching"
"""Put off, as (kind,): the next slice of matching; as (kind, group id, regular expression): match
this one again, because topics have changed."""


class Decision:
    """Lives as long as one decision, which happens at one moment."""

    __slots__ = ("_is_copy", "draft", "effort", "matched", "settings", "state", "topics")

    def __init__(
        self,
        state: ConsumerGroupState,
        *,
        now_ms: int,
        topics: TopicsView,
        settings: ConsumerGroupSettings,
    ) -> None:
        self.state = state
        self.topics = topics
        self.settings = settings
        self.draft = Draft(now_ms)
        self.effort = SLICE_EFFORT
        """What is left for matching regular expressions within this decision."""
        self.matched: dict[str, Matched] = {}
        """Regular expressions that were matched for this decision."""
        self._is_copy = False

    @property
    def group_id(self) -> str:
        return self.state.group_id

    @property
    def now_ms(self) -> int:
        return self.draft.now_ms

    def write(self, *writes: Write) -> None:
        if not self._is_copy:
            self.state = self.state.copy()
            self._is_copy = True
        self.draft.write(writes)
        for write in writes:
            self.state.replay(write.key, write.value)

    def set_timer(self, kind: str, member_id: str, *, after_ms: int) -> None:
        self.draft.set_timer(kind, self.group_id, member_id, after_ms=after_ms)

    def cancel_timer(self, kind: str, member_id: str) -> None:
        self.draft.cancel_timer(kind, self.group_id, member_id)

    def answer(self, ticket: Ticket | None, response: Message) -> Outcome:
        self.draft.reply(ticket, response)
        return self.draft.outcome()
