"""Places replicas of new partitions: striped over racks and brokers, like Apache Kafka.

Leaders alternate over the racks, and within a rack over its brokers. The other replicas of a
partition are placed on the following racks, so a rack gets two only if there are too few racks.
Fenced brokers are used last and never lead. Each lap over the brokers of a rack is shifted by one,
so the partitions of one leader do not all have the same follower.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from pykbroker_protocol.errors import ErrorCode, Refusal

Draw = Callable[[int], int]
"""Returns a random number from 0 to the bound, exclusive."""


class Candidate(NamedTuple):
    """A broker that can get a replica."""

    broker_id: int
    rack: str | None = None
    fenced: bool = False


def place_replicas(
    candidates: Iterable[Candidate], *, partitions: int, replicas: int, draw: Draw
) -> Iterator[tuple[int, ...]] | Refusal:
    """Returns the replicas of each partition, the preferred leader first, as an iterator."""
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
    """Racks with unfenced brokers first, sorted by name, so equal draws give equal placements."""
    racks: dict[str, _Rack] = {}
    for candidate in candidates:
        rack = racks.setdefault(candidate.rack or "", _Rack([], []))
        (rack.fenced if candidate.fenced else rack.unfenced).append(candidate.broker_id)
    return [rack for _, rack in sorted(racks.items(), key=lambda it: (not it[1].unfenced, it[0]))]


def _stripe(racks: Sequence[_Rack], replicas: int, *, rack: int, turn: int) -> tuple[int, ...]:
    """Returns replicas of a partition: unfenced brokers of alternating racks, then fenced."""
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
    """Rotates the rack of the leader by one each lap, other racks by one more each full turn."""
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
    """Returns the first of each queue, then the second of each, and so on."""
    longest = max((len(queue) for queue in queues), default=0)
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]
