"""Applies committed metadata to the parts of the broker and retries the parts that fail."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from pykbroker.slices import next_turn
from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.clock import Clock

logger = logging.getLogger(__name__)

RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 0.1, 5.0
"""The pause doubles after each round of retries."""

LOGGED_MAX = 20
"""Failed parts with log lines of their own; the others share one line."""


@dataclass(slots=True, kw_only=True)
class Failure:
    """A part that has not applied committed metadata."""

    offset: int
    action: Callable[[], None]
    is_logged: bool
    retries: int = 0


class Reconciler:
    """Runs actions that apply the image of the broker to its parts.

    An action reads the image when it runs, so a retry applies the newest metadata, and a later
    action for the same part replaces one that failed.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, Failure] = {}
        self._retrying: asyncio.Task[None] | None = None
        self._is_closed = False

    def attempt(self, offset: int, part: str, action: Callable[[], None]) -> None:
        """Runs an action for metadata up to `offset`; logs and retries it if it raises."""
        try:
            action()
        except Exception:  # noqa: BLE001  # metadata is committed, so a failure is retried
            self.note_failure(offset, part, action)
        else:
            if self._failures:
                self.note_success(part)

    def note_failure(self, offset: int, part: str, action: Callable[[], None]) -> None:
        """Logs the handled exception and retries the action, which must be safe to repeat."""
        known = self._failures.get(part)
        is_logged = len(self._failures) < LOGGED_MAX if known is None else known.is_logged
        self._failures[part] = Failure(
            offset=offset,
            action=action,
            is_logged=is_logged,
            retries=known.retries if known else 0,
        )
        if is_logged:
            logger.exception(  # noqa: LOG004  # called by an except clause
                "metadata: offset %d is committed but could not be applied to %s; retrying",
                offset,
                part,
            )
        if self._retrying is None and not self._is_closed:
            self._retrying = asyncio.get_running_loop().create_task(self._retry_until_done())

    def note_success(self, part: str) -> None:
        failure = self._failures.pop(part, None)
        if failure is not None and failure.is_logged:
            logger.info(
                "metadata: offset %d is applied to %s (retries: %d)",
                failure.offset,
                part,
                failure.retries,
            )

    async def _retry_until_done(self) -> None:
        pause_seconds, shared_logged = RETRY_SECONDS_MIN, 0
        while self._failures:
            shared = sum(not it.is_logged for it in self._failures.values())
            if shared > shared_logged:
                logger.error("metadata: %d more parts could not be applied; retrying", shared)
                shared_logged = shared
            await self._clock.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, RETRY_SECONDS_MAX)
            for part in list(self._failures):
                self._retry(part)
                await next_turn()
        self._retrying = None

    def _retry(self, part: str) -> None:
        failure = self._failures.get(part)
        if failure is None:  # applied by a later action
            return
        failure.retries += 1
        try:
            failure.action()
        except Exception as error:  # noqa: BLE001  # as in `attempt`
            if failure.is_logged and is_power_of_two(failure.retries):
                logger.warning(
                    "metadata: offset %d could not be applied to %s in retry %d (%s: %s); retrying",
                    failure.offset,
                    part,
                    failure.retries,
                    type(error).__name__,
                    error,
                )
        else:
            self.note_success(part)

    async def close(self) -> None:
        """Ends the retries. A later failure is logged but not retried."""
        self._is_closed = True
        if self._retrying is not None:
            self._retrying.cancel()
            with suppress(asyncio.CancelledError):
                await self._retrying


def is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0
