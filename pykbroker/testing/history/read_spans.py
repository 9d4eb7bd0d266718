"""What each reader read of a partition without being moved, in its order."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from pykbroker.testing.history.events import Event, Move, Moved, Polled, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """From one record to the next of the same stretch; both are left out."""

    after: int
    """The offset before the first that should come; one before the start where it is known."""
    before: int
    poll: Polled
    is_internal: bool
    """Both records came with one poll."""


@dataclass(slots=True, kw_only=True, eq=False)
class Stretch:
    """One reader on one partition, from one move to the next."""

    client: str
    topic: str
    partition: int
    start: int | None
    """The offset from which it was to read, where that is known."""
    read: list[tuple[int, Polled]] = field(default_factory=list)

    def without_its_own(self, offsets: Iterable[int]) -> list[int]:
        """Those of the offsets that were not read here, earlier or later."""
        own = {offset for offset, _ in self.read}
        return [it for it in offsets if it not in own]

    def steps(self) -> Iterable[Step]:
        """Also those that go backwards."""
        before: tuple[int, Polled | None] | None = None
        if self.start is not None:
            before = (self.start - 1, None)
        for offset, poll in self.read:
            if before is not None:
                yield Step(after=before[0], before=offset, poll=poll, is_internal=before[1] is poll)
            before = (offset, poll)


def stretches_of(events: Iterable[Event]) -> list[Stretch]:
    found: list[Stretch] = []
    running: dict[str, dict[tuple[str, int], Stretch]] = defaultdict(dict)
    for event in events:
        match event:
            case Moved():
                for topic, partition, offset in event.positions:
                    running[event.client].pop((topic, partition), None)
                    if event.move is not Move.REVOKED and offset is not None:
                        stretch = Stretch(
                            client=event.client, topic=topic, partition=partition, start=offset
                        )
                        running[event.client][topic, partition] = stretch
                        found.append(stretch)
            case Polled():
                of_client = running[event.client]
                for record in event.records:
                    stretch = _stretch_of(record, event, of_client, found)
                    stretch.read.append((record.offset, event))
            case _:
                pass
    return found


def _stretch_of(
    record: Record,
    poll: Polled,
    running: dict[tuple[str, int], Stretch],
    found: list[Stretch],
) -> Stretch:
    place = (record.topic, record.partition)
    if place not in running:
        running[place] = Stretch(
            client=poll.client, topic=record.topic, partition=record.partition, start=None
        )
        found.append(running[place])
    return running[place]
