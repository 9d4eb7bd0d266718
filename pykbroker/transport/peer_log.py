"""Log lines about peers, limited in number: a peer can reconnect thousands of times a second."""

import logging
from collections.abc import Callable
from typing import Final

from pykbroker.telemetry.log_throttle import LogThrottle, suppressed_text

LINES_PER_PERIOD_MAX: Final = 10
PERIOD_SECONDS: Final = 10.0
SOURCE_LINES_MAX: Final = 1_000


class PeerLog:
    """Logs at most ten lines in ten seconds and then the number of suppressed lines.

    The throttle of the whole log counts lines by their format string. Here all peers share one
    limit.
    """

    def __init__(self, logger: logging.Logger, now_ms: Callable[[], float]) -> None:
        self._logger = logger
        self._now_ms = now_ms
        self._throttle = LogThrottle(lines_max=LINES_PER_PERIOD_MAX, period_seconds=PERIOD_SECONDS)
        self._logged_source_lines: set[tuple[str, int]] = set()

    def peer_warning(self, line: str) -> None:
        suppressed = self._suppressed_before()
        if suppressed is not None:
            self._logger.warning("%s%s", line, suppressed)

    def internal_error(self, line: str, error: BaseException) -> None:
        """Logs the traceback of the first error of a source line, later errors as one line."""
        raised_at = source_line_of(error)
        is_first = raised_at not in self._logged_source_lines
        if is_first and len(self._logged_source_lines) < SOURCE_LINES_MAX:
            self._logged_source_lines.add(raised_at)
            self._logger.error(line, exc_info=error)
            return
        suppressed = self._suppressed_before()
        if suppressed is not None:
            text = "%s: %r (the traceback was logged before)%s"
            self._logger.error(text, line, error, suppressed)

    def _suppressed_before(self) -> str | None:
        count = self._throttle.admit("line", self._now_ms() / 1000)
        return None if count is None else suppressed_text(count)


def source_line_of(error: BaseException) -> tuple[str, int]:
    """Returns file and line of the innermost frame of the traceback."""
    traceback = error.__traceback__
    if traceback is None:
        return type(error).__name__, 0
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
