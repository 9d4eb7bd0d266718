"""Lines for the operator about peers that misbehave, few enough to be read."""

import logging
from typing import Final

LINES_PER_WINDOW_MAX: Final = 10
WINDOW_MS: Final = 10_000
BUG_SITES_MAX: Final = 1_000


class OperatorLog:
    """At most ten lines in ten seconds; what was left out is counted and told afterwards.

    A hostile peer can reconnect thousands of times in a second and must not fill the disk.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._window_start_ms = -float("inf")
        self._lines = 0
        self._left_out = 0
        self._bug_sites: set[tuple[str, int]] = set()

    def peer_trouble(self, line: str, now_ms: float) -> None:
        """Something about one peer that does not concern the others."""
        if self._may_speak(now_ms):
            self._logger.warning(line)

    def bug(self, line: str, error: BaseException, now_ms: float) -> None:
        """A fault of ours: the first from one place with its traceback, later ones as a line."""
        site = _raised_at(error)
        if site not in self._bug_sites and len(self._bug_sites) < BUG_SITES_MAX:
            self._bug_sites.add(site)
            self._logger.error(line, exc_info=error)
        elif self._may_speak(now_ms):
            self._logger.error("%s: %r (traceback was logged before)", line, error)

    def _may_speak(self, now_ms: float) -> bool:
        if now_ms - self._window_start_ms >= WINDOW_MS:
            if self._left_out:
                self._logger.warning("%d similar lines about peers were left out", self._left_out)
            self._window_start_ms = now_ms
            self._lines = self._left_out = 0
        if self._lines == LINES_PER_WINDOW_MAX:
            self._left_out += 1
            return False
        self._lines += 1
        return True


def _raised_at(error: BaseException) -> tuple[str, int]:
    """The innermost source line of the traceback."""
    traceback = error.__traceback__
    if traceback is None:
        return type(error).__name__, 0
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
