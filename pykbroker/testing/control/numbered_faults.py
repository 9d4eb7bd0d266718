"""The faults that were asked for over the control port, each with a number."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pykbroker.testing.control.fault_requests import new_fault
from pykbroker.testing.control.http import HttpRefusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker.testing.active_fault import ActiveFault
    from pykbroker.testing.faults import Faults

FAULTS_MAX: Final = 10_000
"""Since the last reset: a broker keeps those that have ended, too."""
LOOK_INTERVAL_S: Final = 0.01
WAIT_SECONDS_MAX: Final = 600.0


class NumberedFaults:
    """Numbers are never given twice, so that nobody ends the fault of another."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._numbered: dict[int, ActiveFault] = {}
        self._numbers = count(1)
        self._count = 0

    def add(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        if self._count >= FAULTS_MAX:
            raise HttpRefusal(409, f"there were {FAULTS_MAX} faults; reset the broker")
        fault = new_fault(self._faults, asked)
        self._count += 1
        number = next(self._numbers)
        self._numbered[number] = fault
        return told(number, fault)

    def all(self) -> list[dict[str, Any]]:
        return [told(number, fault) for number, fault in self._numbered.items()]

    def one(self, text: str) -> dict[str, Any]:
        return told(*self._found(text))

    async def wait(self, text: str, hits: int, timeout_seconds: float) -> dict[str, Any]:
        """As soon as it has struck so often; else refused, with what it has done."""
        number, fault = self._found(text)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(timeout_seconds, WAIT_SECONDS_MAX)
        while fault.hits < hits:
            if fault.is_over or loop.time() >= deadline:
                ended = "ended" if fault.is_over else f"after {timeout_seconds:g} s"
                raise HttpRefusal(409, f"{fault}: struck {fault.hits} of {hits} times, {ended}")
            await asyncio.sleep(LOOK_INTERVAL_S)
        return told(number, fault)

    def check(self) -> list[dict[str, Any]]:
        """Refused if one of them met nothing that it was meant for."""
        idle = [str(fault) for fault in self._numbered.values() if not fault.hits]
        if idle:
            raise HttpRefusal(409, f"met nothing that they were meant for: {'; '.join(idle)}")
        return self.all()

    def remove(self, text: str) -> dict[str, Any]:
        """It ends; what it did is told once more."""
        number, fault = self._found(text)
        del self._numbered[number]
        fault.end()
        return told(number, fault)

    def remove_all(self) -> list[dict[str, Any]]:
        return [self.remove(str(number)) for number in tuple(self._numbered)]

    def forget(self) -> None:
        """After the broker has ended them."""
        self._numbered.clear()
        self._count = 0

    def _found(self, text: str) -> tuple[int, ActiveFault]:
        for number, fault in self._numbered.items():
            if str(number) == text:
                return number, fault
        raise HttpRefusal(404, f"there is no fault {text[:80]!r}")


def told(number: int, fault: ActiveFault) -> dict[str, Any]:
    return {"id": number, "fault": str(fault), "hits": fault.hits, "is_due": fault.is_due}
