"""Counts how often each record of one topic has arrived in another, by way of a program between."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from pykbroker.testing.history.events import Place
from pykbroker.testing.history.evidence import Evidence, Found
from pykbroker.testing.history.recording import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliveries:
    """What went in and what came out, named by the values that went in."""

    times: dict[str, int]
    """For each record that went in, how often it came out."""
    foreign: list[str]
    """What came out and never counted as an input."""
    out_of_order: list[tuple[str, str]]
    """Neighbours of an output partition that went into one partition the other way round."""

    @property
    def lost(self) -> list[str]:
        return [value for value, times in self.times.items() if times == 0]

    @property
    def repeated(self) -> list[str]:
        return [value for value, times in self.times.items() if times > 1]

    @property
    def are_at_most_once(self) -> bool:
        return not (self.repeated or self.foreign)

    @property
    def are_at_least_once(self) -> bool:
        return not (self.lost or self.foreign)

    @property
    def are_exactly_once(self) -> bool:
        """And in order."""
        return self.are_at_most_once and self.are_at_least_once and not self.out_of_order

    def __str__(self) -> str:
        return (
            f"{len(self.times)} records went in: {len(self.lost)} were lost "
            f"({', '.join(self.lost[:5])}), {len(self.repeated)} came more than once "
            f"({', '.join(self.repeated[:5])}), {len(self.foreign)} came from nowhere "
            f"({', '.join(self.foreign[:5])}), {len(self.out_of_order)} were out of order "
            f"({', '.join(map(str, self.out_of_order[:5]))})"
        )


def count_deliveries(
    history: History,
    *,
    source: str,
    sink: str,
    origin: Callable[[str], str] = lambda value: value,
) -> Deliveries:
    """Compare two topics that the history's readers have read to their ends.

    `origin` tells from a value that came out which value went in.
    """
    evidence = Evidence(history.events)
    went_in = {it.value: it.place for it in _read(evidence, source)}
    came_out = [(it.place, origin(it.value)) for it in _read(evidence, sink)]
    times = Counter(value for _, value in came_out)
    return Deliveries(
        times={value: times[value] for value in went_in},
        foreign=[value for value in times if value not in went_in],
        out_of_order=_out_of_order(came_out, went_in),
    )


def _read(evidence: Evidence, topic: str) -> list[Found]:
    found = [it for it in evidence.at_places() if it.place.topic == topic and it.is_read]
    return sorted((it for it in found if it.counts), key=lambda it: it.place)


def _out_of_order(
    came_out: list[tuple[Place, str]], went_in: dict[str, Place]
) -> list[tuple[str, str]]:
    """In each output partition, what came from one input partition."""
    ways: dict[tuple[int, int], list[str]] = defaultdict(list)
    for place, value in came_out:
        if value in went_in:
            ways[place.partition, went_in[value].partition].append(value)
    return [
        (earlier, later)
        for values in ways.values()
        for earlier, later in pairwise(values)
        if went_in[later].offset < went_in[earlier].offset
    ]
