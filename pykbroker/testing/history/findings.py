"""The kinds of anomalies, and findings that describe one anomaly."""

from dataclasses import dataclass
from enum import StrEnum

from pykbroker.testing.history.events import Event, Polled
from pykbroker.testing.history.json_lines import line_of

_LINE_LENGTH_MAX = 300


class Anomaly(StrEnum):
    """Violations of Kafka's guarantees that a history can show."""

    LOST_WRITE = "lost write"
    """An acknowledged record is missing: readers passed its offset without getting it."""
    UNSEEN = "unseen"
    """An acknowledged record was not read, and no reader has passed it: read further."""
    ABORTED_READ = "aborted read"
    """A reader got a rejected record, or read_committed returned an aborted record."""
    PRECOMMITTED_READ = "precommitted read"
    """read_committed returned a record before the commit was requested."""
    TORN_TRANSACTION = "torn transaction"
    """Some records of a transaction can be read, others are missing."""
    DUPLICATE = "duplicate"
    """A record that was sent once has two positions."""
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    """One offset of a partition has two different records."""
    NEVER_SENT = "never sent"
    """A reader got a record that no client sent."""
    NON_MONOTONIC_POLL = "non-monotonic poll"
    """Offsets decreased between two polls without a rebalance or seek."""
    INTERNAL_NON_MONOTONIC_POLL = "internal non-monotonic poll"
    """The records of one poll are out of order."""
    SKIPPED_POLL = "skipped poll"
    """Two polls skipped a record that another reader got."""
    INTERNAL_SKIPPED_POLL = "internal skipped poll"
    """One poll skipped a record that another reader got."""
    NON_MONOTONIC_SEND = "non-monotonic send"
    """A later record of a producer has a lower offset than an earlier one."""
    INTERNAL_NON_MONOTONIC_SEND = "internal non-monotonic send"
    """The same within one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One anomaly: a sentence, and the events that prove it."""

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
