"""What can be wrong with a history, by name, in sentences that lead to the records."""

from dataclasses import dataclass
from enum import StrEnum

from pykbroker.testing.history.events import Event, Polled
from pykbroker.testing.history.json_lines import line_of

_LINE_LENGTH_MAX = 300


class Anomaly(StrEnum):
    """What no history of a sound cluster shows."""

    LOST_WRITE = "lost write"
    """An acknowledged record is not there: somebody read on past its offset, nobody read it."""
    UNSEEN = "unseen"
    """An acknowledged record was not read, and nobody has read past it: read on to be sure."""
    ABORTED_READ = "aborted read"
    """Somebody read a record that was refused, or read_committed showed an aborted one."""
    PRECOMMITTED_READ = "precommitted read"
    """read_committed showed a record before anybody had asked for the commit."""
    TORN_TRANSACTION = "torn transaction"
    """Some records of a transaction can be read, others are not there."""
    DUPLICATE = "duplicate"
    """A record that was sent once lies at two places."""
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    """One offset of a partition has two different records."""
    NEVER_SENT = "never sent"
    """Somebody read a record that nobody has sent."""
    NON_MONOTONIC_POLL = "non-monotonic poll"
    """A reader went back between two polls, and nobody had moved it."""
    INTERNAL_NON_MONOTONIC_POLL = "internal non-monotonic poll"
    """The records of one poll are out of order."""
    SKIPPED_POLL = "skipped poll"
    """A reader passed over a record between two polls, though it can be read."""
    INTERNAL_SKIPPED_POLL = "internal skipped poll"
    """One poll passed over a record, though it can be read."""
    NON_MONOTONIC_SEND = "non-monotonic send"
    """A producer's later record lies before its earlier one."""
    INTERNAL_NON_MONOTONIC_SEND = "internal non-monotonic send"
    """Likewise, within one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One anomaly: what is wrong in a sentence, and the events that show it."""

    anomaly: Anomaly
    sentence: str
    evidence: tuple[Event, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.anomaly}: {self.sentence}", *map(_shown, self.evidence)])


def _shown(event: Event) -> str:
    if isinstance(event, Polled) and len(event.records) > 4:
        first, last = event.records[0], event.records[-1]
        text = f"{event.client} polled {len(event.records)} records, {first} to {last}"
    else:
        text = line_of(event).decode().strip()
    return f"    {text[:_LINE_LENGTH_MAX]}"
