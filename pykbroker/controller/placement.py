"""Where the replicas of new partitions go: striped over racks and brokers, as Kafka does it.

Leaders take turns over the racks, and within a rack over its brokers. A partition's further
replicas go to the following racks, so that a rack holds two only when there are too few racks.
Fenced brokers come last and never lead. Each lap over the brokers of a rack begins one further
on, so that the partitions one broker leads do not all follow on the same neighbour.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from pykbroker_protocol.errors import ErrorCode, Refusal

Draw = Callable[[int], int]
"""A number from 0 up to, not including, the bound."""


class Candidate(NamedTuple):
    """A broker that could hold a replica."""

    broker_id: int
    rack: str | None = None
    fenced: bool = False


def place(
    candidates: Iterable[Candidate], *, partitions: int, replicas: int, draw: Draw
) -> Iterator[tuple[int, ...]] | Refusal:
    """The replicas of each partition, the preferred leader first; worked out as it is asked for."""
    known = sorted(candidates)
    refusal = _refuse(known, replicas)
    if refusal is not None:
        return refusal
    racks = _racks(known)
    first_rack, first_broker = draw(len(racks)), draw(len(known))
    return (
        _stripe(racks, replicas, rack=first_rack + partition, turn=first_broker + partition)
        for partition in range(partitions)
    )


def _refuse(candidates: Sequence[Candidate], replicas: int) -> Refusal | None:
    reason = None
    if all(it.fenced for it in candidates):
        reason = (
            "All brokers are currently fenced or have all their log directories cordoned."
            if candidates
            else "All brokers are currently fenced."
        )
    elif replicas > len(candidates):
        reason = (
            f"The target replication factor of {replicas} cannot be reached because only "
            f"{len(candidates)} broker(s) are registered or some brokers have all their "
            "log directories cordoned."
        )
    if reason is None:
        return None
    return Refusal(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replicas} time(s): {reason}",
    )


class _Rack(NamedTuple):
    unfenced: list[int]
    fenced: list[int]


def _racks(candidates: Iterable[Candidate]) -> list[_Rack]:
    """Those that can lead first, by name, so that the same draw leads to the same placement."""
    racks: dict[str, _Rack] = {}
    for candidate in candidates:
        rack = racks.setdefault(candidate.rack or "", _Rack([], []))
        (rack.fenced if candidate.fenced else rack.unfenced).append(candidate.broker_id)
    return [rack for _, rack in sorted(racks.items(), key=lambda it: (not it[1].unfenced, it[0]))]


def _stripe(racks: Sequence[_Rack], replicas: int, *, rack: int, turn: int) -> tuple[int, ...]:
    """One partition's replicas: unfenced ones round the racks, then fenced ones."""
    leading = sum(1 for it in racks if it.unfenced)
    first = rack % leading
    lap = turn // leading
    in_order = [*racks[first:], *racks[:first]]
    unfenced = _interleaved(
        [_rotated(it.unfenced, lap, in_lap) for in_lap, it in enumerate(in_order)]
    )
    fenced = _interleaved([_rotated(it.fenced, lap, in_lap) for in_lap, it in enumerate(in_order)])
    return tuple([*unfenced, *fenced][:replicas])


def _rotated(brokers: list[int], lap: int, position: int) -> list[int]:
    """The leader's rack turns by one each lap; the others by one more each full turn."""
    if not brokers:
        return brokers
    shift = lap if position == 0 else lap + lap // len(brokers)
    start = shift % len(brokers)
    rest = [*brokers[start:], *brokers[:start]]
    if position == 0 and len(rest) > 2:
        further = 1 + (lap // len(brokers)) % (len(rest) - 1)
        rest = [rest[0], *rest[further:], *rest[1:further]]
    return rest


def _interleaved(queues: Sequence[list[int]]) -> list[int]:
    """One of each, then the next of each."""
    longest = max((len(queue) for queue in queues), default=0)
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]
