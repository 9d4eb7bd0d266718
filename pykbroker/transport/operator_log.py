"""Log lines about misbehaving peers and internal errors, throttled."""

import logging
from typing import Final

from pykbroker.telemetry.log_throttle import LogThrottle, suppressed_text

LINES_PER_WINDOW_MAX: Final = 10
WINDOW_MS: Final = 10_000
BUG_SITES_MAX: Final = 1_000


class OperatorLog:
    """Logs at most ten lines in ten seconds and then the number of suppressed lines.

    The throttle of the whole log counts lines by their format string. Here all peers share one
    limit, because a hostile peer can reconnect thousands of times per second.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._throttle = LogThrottle(
            lines_max=LINES_PER_WINDOW_MAX, period_seconds=WINDOW_MS / 1000
        )
        self._bug_sites: set[tuple[str, int]] = set()

    def peer_trouble(self, line: str, now_ms: float) -> None:
        """Logs an error of one peer that does not affect others."""
        suppressed = self._suppressed_before(now_ms)
        if suppressed is not None:
            self._logger.warning("%s%s", line, suppressed)

    def bug(self, line: str, error: BaseException, now_ms: float) -> None:
        """Logs an internal error: the first one of a source line with its traceback."""
        site = _raised_at(error)
        if site not in self._bug_sites and len(self._bug_sites) < BUG_SITES_MAX:
            self._bug_sites.add(site)
            self._logger.error(line, exc_info=error)
            return
        suppressed = self._suppressed_before(now_ms)
        if suppressed is not None:
            self._logger.error("%s: %r (traceback was logged before)%s", line, error, suppressed)

    def _suppressed_before(self, now_ms: float) -> str | None:
        count = self._throttle.admit("line", now_ms / 1000)
        return None if count is None else suppressed_text(count)


def _raised_at(error: BaseException) -> tuple[str, int]:
    """Returns file and line of the innermost frame of the traceback."""
    traceback = error.__traceback__
    if traceback is None:
        return type(error).__name__, 0
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
