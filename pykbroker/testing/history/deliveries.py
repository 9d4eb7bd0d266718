"""Counts how often a program has copied each record of one topic to another topic."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from pykbroker.testing.history.events import RecordId
from pykbroker.testing.history.evidence import Evidence, Found
from pykbroker.testing.history.recording import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliveries:
    """The outputs of each input record. Records are identified by the input value."""

    times: dict[str, int]
    """Number of outputs per input record."""
    foreign: list[str]
    """Outputs without a committed input."""
    out_of_order: list[tuple[str, str]]
    """Adjacent records of an output partition that are in reverse order in the input partition."""

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
        """True if every record arrived once and in order."""
        return self.are_at_most_once and self.are_at_least_once and not self.out_of_order

    def __str__(self) -> str:
        return (
            f"{len(self.times)} input records: {len(self.lost)} lost "
            f"({', '.join(self.lost[:5])}), {len(self.repeated)} repeated "
            f"({', '.join(self.repeated[:5])}), {len(self.foreign)} without an input "
            f"({', '.join(self.foreign[:5])}), {len(self.out_of_order)} out of order "
            f"({', '.join(map(str, self.out_of_order[:5]))})"
        )


def count_deliveries(
    history: History,
    *,
    source: str,
    sink: str,
    origin: Callable[[str], str] = lambda value: value,
) -> Deliveries:
    """Compares two topics. Clients of the history must have read both to the end.

    `origin` returns the input value for an output value.
    """
    evidence = Evidence(history.events)
    inputs = {it.value: it.record_id for it in _read(evidence, source)}
    outputs = [(it.record_id, origin(it.value)) for it in _read(evidence, sink)]
    times = Counter(value for _, value in outputs)
    return Deliveries(
        times={value: times[value] for value in inputs},
        foreign=[value for value in times if value not in inputs],
        out_of_order=_out_of_order(outputs, inputs),
    )


def _read(evidence: Evidence, topic: str) -> list[Found]:
    found = [it for it in evidence.at_record_ids() if it.record_id.topic == topic and it.is_read]
    return sorted((it for it in found if it.is_committed), key=lambda it: it.record_id)


def _out_of_order(
    outputs: list[tuple[RecordId, str]], inputs: dict[str, RecordId]
) -> list[tuple[str, str]]:
    """Compares the order for each pair of an input and an output partition."""
    by_partitions: dict[tuple[int, int], list[str]] = defaultdict(list)
    for record_id, value in outputs:
        if value in inputs:
            by_partitions[record_id.partition, inputs[value].partition].append(value)
    return [
        (earlier, later)
        for values in by_partitions.values()
        for earlier, later in pairwise(values)
        if inputs[later].offset < inputs[earlier].offset
    ]
