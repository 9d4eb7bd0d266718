"""Lets other brokers of the cluster lead when the log directory fails or is full.

A failed directory is reported to the controller, which moves the leaderships; then the process
ends, like Apache Kafka with one log directory. A full directory only fences the broker until space
is free: its logs are valid, and it continues to follow.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pykbroker.partitions.directory_health import DiskProblem, problem_of, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pykbroker.clock import Clock
    from pykbroker.membership.membership import Membership
    from pykbroker.partitions.partition_registry import Partitions

logger = logging.getLogger(__name__)

REPORT_SECONDS_MAX: Final = 10.0
"""Limit of the report to the controller, after which the process ends anyway."""

SPACE_CHECK_SECONDS: Final = 5.0
SPACE_BYTES_MIN: Final = 128 * 1024 * 1024
"""Free space at which a broker can lead again; less is used up by a few batches."""


class MemberDisk:
    """Handles the first problem of the directory; others are consequences of it."""

    def __init__(
        self,
        partitions: Partitions,
        membership: Membership,
        clock: Clock,
        on_failure: Callable[[str], None],
    ) -> None:
        self._directory = partitions.directory
        self._membership = membership
        self._clock = clock
        self._on_failure = on_failure
        self._handling: asyncio.Task[None] | None = None
        self.has_failed = False
        partitions.health.on_problem = self.handle

    def note_metadata_error(self, error: OSError) -> None:
        """The metadata log cannot be appended: this broker would not learn of other leaders."""
        problem = problem_of(error)
        if problem is not None:
            self.handle(problem, f"metadata log: {reason_of(error)}")

    def handle(self, problem: DiskProblem, reason: str) -> None:
        if problem is DiskProblem.FAILED and not self.has_failed:
            self.has_failed = True
            if self._handling is not None:
                self._handling.cancel()
            self._begin(self._leave_failed_directory(reason))
        elif problem is DiskProblem.FULL and self._handling is None:
            self._begin(self._wait_for_space(reason))

    def _begin(self, handling: Coroutine[None, None, None]) -> None:
        self._handling = asyncio.get_running_loop().create_task(handling)

    async def _leave_failed_directory(self, reason: str) -> None:
        path = self._directory.path
        logger.critical(
            "log directory %s failed (%s); leaderships move to other brokers and the process ends; "
            "check the disk before you start the broker again",
            path,
            reason,
        )
        report = self._membership.report_failed_directory(self._directory.directory_id)
        with suppress(TimeoutError):
            await asyncio.wait_for(report, REPORT_SECONDS_MAX)
        self._on_failure(f"log directory {path} failed ({reason}); stopped uncleanly")

    async def _wait_for_space(self, reason: str) -> None:
        path = self._directory.path
        logger.error(
            "log directory %s is full (%s); the broker is fenced, so that in-sync replicas on "
            "other brokers lead; free space on the disk, no restart needed",
            path,
            reason,
        )
        self._membership.step_aside()
        while True:
            await self._clock.sleep(SPACE_CHECK_SECONDS)
            with suppress(OSError):
                _, usable = self._directory.space_bytes()
                if usable >= SPACE_BYTES_MIN:
                    break
        logger.info("log directory %s has free space again; the broker can lead", path)
        self._membership.return_to_service()
        self._handling = None

    async def close(self) -> None:
        if self._handling is not None:
            self._handling.cancel()
            with suppress(asyncio.CancelledError):
                await self._handling
