"""What a test asks of the disk under a broker: to refuse, to forget, to damage."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

from pykbroker.testing.active_fault import FaultMatchedNothing
from pykbroker.testing.faulty_disk import disk_error, disk_full, read_error, slow_disk
from pykbroker.testing.file_damage import CrashFault, FlippedByte, LostPages, TornTail

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.broker import Broker
    from pykbroker.testing.active_fault import ActiveFault
    from pykbroker.testing.faulty_disk import DiskFault, FaultyDisk

Found = TypeVar("Found")


class AtTheBroker(Protocol):
    """Does something where nobody else is at work: between two turns of the broker's loop."""

    def __call__(self, do: Callable[[Broker], Found], /) -> Found: ...


class DiskFaults:
    """Narrowed down by topic, and by how often they strike at most."""

    def __init__(self, disk: FaultyDisk, at_the_broker: AtTheBroker) -> None:
        self._of_the_disk: list[ActiveFault] = []
        self._disk = disk
        self._at_the_broker = at_the_broker

    def disk_full(self, *, topic: str | None = None, times: int | None = None) -> DiskFault:
        """Writes are refused for want of room."""
        return self._trouble(disk_full(topic=topic, times=times))

    def disk_error(self, *, topic: str | None = None, times: int | None = None) -> DiskFault:
        """Writes fail, as on a broken disk."""
        return self._trouble(disk_error(topic=topic, times=times))

    def slow_disk(
        self, seconds: float, *, topic: str | None = None, times: int | None = None
    ) -> DiskFault:
        """Each write takes so long, and the broker with it."""
        return self._trouble(slow_disk(seconds, topic=topic, times=times))

    def disk_read_error(self, *, topic: str | None = None, times: int | None = None) -> DiskFault:
        """Reads fail, as on a broken disk; nothing of the records is in memory when it begins."""
        fault = read_error(topic=topic, times=times)
        self._of_the_disk.append(fault)
        self._disk.trouble_reading(fault)
        with suppress(RuntimeError):  # a broker that does not run has nothing in memory
            self._at_the_broker(lambda broker: drop_maps(broker, topic))
        return fault

    def flip_byte(self, topic: str, *, partition: int = 0, offset: int = 0) -> FlippedByte:
        """The stored batch that holds the offset is damaged, until the fault ends."""
        fault = FlippedByte(topic, partition, offset)
        self._at_the_broker(lambda broker: flip_in(broker, fault, topic, partition, offset))
        self._of_the_disk.append(fault)
        return fault

    def torn_tail(self, *, topic: str | None = None, times: int | None = None) -> CrashFault:
        """At the next crash, half of each partition's last batch is lost, if it was not flushed."""
        return self._at_a_crash(TornTail(topic=topic, times=times))

    def lose_unflushed(
        self, *, topic: str | None = None, seed: int | None = None, times: int | None = None
    ) -> CrashFault:
        """At the next crash, what was not flushed is lost: with a seed, page by page by chance."""
        chance = None if seed is None else random.Random(seed)  # noqa: S311  # the same each time
        return self._at_a_crash(LostPages(chance, topic=topic, times=times))

    def damage_after_crash(self, broker: Broker) -> None:
        """The broker has just ended, and nobody has its files open."""
        for fault in self._of_the_disk:
            if isinstance(fault, CrashFault):
                fault.strike(broker)

    def _at_a_crash(self, fault: CrashFault) -> CrashFault:
        self._of_the_disk.append(fault)
        return fault

    def _trouble(self, fault: DiskFault) -> DiskFault:
        self._of_the_disk.append(fault)
        self._disk.trouble(fault)
        return fault


def flip_in(broker: Broker, fault: FlippedByte, topic: str, partition: int, offset: int) -> None:
    found = broker.partitions.get(topic, partition)
    if found is None:
        raise FaultMatchedNothing(f"there is no partition to damage: {topic}-{partition}")
    fault.strike(found.log, offset)


def drop_maps(broker: Broker, topic: str | None) -> None:
    for partition in broker.partitions:
        if topic in (None, partition.topic):
            for segment in partition.log.segments():
                segment.file.let_go()
