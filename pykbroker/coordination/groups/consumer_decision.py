"""A decision about a consumer group, which writes records and sees their effect immediately.

The records are replayed into a copy of the state, by the same code that later replays them into the
group. So a decision sees the state that the group will have.
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
"""Timer: no heartbeat within the session timeout."""
REVOCATION = "consumer-revocation"
"""Timer: partitions not revoked within the rebalance timeout."""
REJOIN = "consumer-rejoin"
"""Timer: a member of the classic protocol did not rejoin in time."""
SYNC = "consumer-sync"
"""Timer: a member of the classic protocol joined and did not send SyncGroup."""
MEMBER_TIMERS = (SESSION, REVOCATION, REJOIN, SYNC)
"""Timers of a member have the name (kind, group id, member id)."""
DOWNGRADED = "consumer-downgraded"
"""Deferred (kind, group id): the group was converted to a classic one and must rebalance."""
ASSIGNMENT = "consumer-assignment"
"""Deferred (kind, group id): a new target is due and heartbeats wait for it."""
NEXT_STEPS = "consumer-next-steps"
"""Deferred (kind, group id): the target is written; the waiting heartbeats get responses."""
MATCHING = "consumer-matching"
"""Deferred (kind,): the next slice of matching. Deferred (kind, group id, regular expression):
match this expression again, because topics changed."""


class Decision:
    """One decision at one moment."""

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
        """Effort that is left for matching regular expressions within this decision."""
        self.matched: dict[str, Matched] = {}
        """Regular expressions that this decision has matched."""
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
