"""The faults that were set over the control port, by id."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pykbroker.testing.control.fault_requests import new_fault
from pykbroker.testing.control.http import HttpError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker.testing.active_fault import ActiveFault
    from pykbroker.testing.faults import Faults

FAULTS_MAX: Final = 10_000
"""Maximum number of faults since the last reset: a broker also keeps faults that have ended."""
POLL_INTERVAL_SECONDS: Final = 0.01
WAIT_SECONDS_MAX: Final = 600.0


class NumberedFaults:
    """Ids are never reused, so that a client cannot end a fault of another client."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._numbered: dict[int, ActiveFault] = {}
        self._numbers = count(1)
        self._count = 0

    def add(self, document: Mapping[str, Any]) -> dict[str, Any]:
        if self._count >= FAULTS_MAX:
            raise HttpError(409, f"limit of {FAULTS_MAX} faults reached; reset the broker")
        fault = new_fault(self._faults, document)
        self._count += 1
        number = next(self._numbers)
        self._numbered[number] = fault
        return described(number, fault)

    def all(self) -> list[dict[str, Any]]:
        return [described(number, fault) for number, fault in self._numbered.items()]

    def one(self, text: str) -> dict[str, Any]:
        return described(*self._found(text))

    async def wait(self, text: str, hits: int, timeout_seconds: float) -> dict[str, Any]:
        """Waits for a number of hits. Raises HttpError on timeout or if it ended."""
        number, fault = self._found(text)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(timeout_seconds, WAIT_SECONDS_MAX)
        while fault.hits < hits:
            if fault.is_over or loop.time() >= deadline:
                reason = "fault ended" if fault.is_over else f"timeout after {timeout_seconds:g} s"
                raise HttpError(409, f"{fault}: applied {fault.hits} of {hits} times, {reason}")
            await asyncio.sleep(POLL_INTERVAL_SECONDS)
        return described(number, fault)

    def check(self) -> list[dict[str, Any]]:
        """Returns all faults. Raises HttpError if one was never applied."""
        unused = [str(fault) for fault in self._numbered.values() if not fault.hits]
        if unused:
            raise HttpError(409, f"faults were never applied: {'; '.join(unused)}")
        return self.all()

    def remove(self, text: str) -> dict[str, Any]:
        """Ends and removes a fault and returns its final state."""
        number, fault = self._found(text)
        del self._numbered[number]
        fault.end()
        return described(number, fault)

    def remove_all(self) -> list[dict[str, Any]]:
        return [self.remove(str(number)) for number in tuple(self._numbered)]

    def clear(self) -> None:
        """Removes all faults after a reset of the broker has ended them."""
        self._numbered.clear()
        self._count = 0

    def _found(self, text: str) -> tuple[int, ActiveFault]:
        for number, fault in self._numbered.items():
            if str(number) == text:
                return number, fault
        raise HttpError(404, f"no fault with id {text[:80]!r}")


def described(number: int, fault: ActiveFault) -> dict[str, Any]:
    return {"id": number, "fault": str(fault), "hits": fault.hits, "is_due": fault.is_due}
