"""The disk faults of `Broker.faults`: failing writes and reads, damaged and lost records."""

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

Result = TypeVar("Result")


class RunOnBroker(Protocol):
    """Runs a function on the broker's event loop, between two iterations."""

    def __call__(self, work: Callable[[Broker], Result], /) -> Result: ...


class DiskFaults:
    """Faults of the broker's disk. 'topic' and 'times' restrict them."""

    def __init__(self, disk: FaultyDisk, run_on_broker: RunOnBroker) -> None:
        self._disk_faults: list[ActiveFault] = []
        self._disk = disk
        self._run_on_broker = run_on_broker

    def disk_full(self, *, topic: str | None = None, times: int | None = None) -> DiskFault:
        """Writes fail with ENOSPC."""
        return self._fail_writes(disk_full(topic=topic, times=times))

    def disk_error(self, *, topic: str | None = None, times: int | None = None) -> DiskFault:
        """Writes fail with EIO."""
        return self._fail_writes(disk_error(topic=topic, times=times))

    def slow_disk(
        self, seconds: float, *, topic: str | None = None, times: int | None = None
    ) -> DiskFault:
        """Delays each write by 'seconds', which blocks the broker."""
        return self._fail_writes(slow_disk(seconds, topic=topic, times=times))

    def disk_read_error(self, *, topic: str | None = None, times: int | None = None) -> DiskFault:
        """Reads fail with EIO. Memory maps of segments are dropped first."""
        fault = read_error(topic=topic, times=times)
        self._disk_faults.append(fault)
        self._disk.fail_reads(fault)
        with suppress(RuntimeError):  # a stopped broker has no maps
            self._run_on_broker(lambda broker: drop_maps(broker, topic))
        return fault

    def flip_byte(self, topic: str, *, partition: int = 0, offset: int = 0) -> FlippedByte:
        """Flips a byte of the stored batch that holds the offset. Ending the fault restores it."""
        fault = FlippedByte(topic, partition, offset)
        self._run_on_broker(lambda broker: flip_in(broker, fault, topic, partition, offset))
        self._disk_faults.append(fault)
        return fault

    def torn_tail(self, *, topic: str | None = None, times: int | None = None) -> CrashFault:
        """At the next crash, each partition loses half of its last batch if it is not flushed."""
        return self._at_crash(TornTail(topic=topic, times=times))

    def lose_unflushed(
        self, *, topic: str | None = None, seed: int | None = None, times: int | None = None
    ) -> CrashFault:
        """At the next crash, unflushed bytes are lost: all, or with 'seed' random pages."""
        chance = None if seed is None else random.Random(seed)  # noqa: S311  # repeatable
        return self._at_crash(LostPages(chance, topic=topic, times=times))

    def damage_after_crash(self, broker: Broker) -> None:
        """Applies the crash faults to a broker that has ended and closed its files."""
        for fault in self._disk_faults:
            if isinstance(fault, CrashFault):
                fault.apply(broker)

    def _at_crash(self, fault: CrashFault) -> CrashFault:
        self._disk_faults.append(fault)
        return fault

    def _fail_writes(self, fault: DiskFault) -> DiskFault:
        self._disk_faults.append(fault)
        self._disk.fail_writes(fault)
        return fault


def flip_in(broker: Broker, fault: FlippedByte, topic: str, partition: int, offset: int) -> None:
    found = broker.partitions.get(topic, partition)
    if found is None:
        raise FaultMatchedNothing(f"flip_byte: partition {topic}-{partition} does not exist")
    fault.apply(found.log, offset)


def drop_maps(broker: Broker, topic: str | None) -> None:
    for partition in broker.partitions:
        if topic in (None, partition.topic):
            for segment in partition.log.segments():
                segment.file.release()
