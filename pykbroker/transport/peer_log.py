"""Log lines about peers, which can fail thousands of times a second."""

import logging
from typing import Final

SOURCE_LINES_MAX: Final = 1_000


class PeerLog:
    """Logs each event with its own format string.

    The throttle of the log counts lines by format string. Peers are arguments, so they share the
    limit of an event.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._logged_source_lines: set[tuple[str, int]] = set()

    def warning(self, text: str, *arguments: object) -> None:
        self._logger.warning(text, *arguments)

    def internal_error(self, connection: str, error: BaseException) -> None:
        """Logs the traceback of the first error of a source line, later errors as one line."""
        raised_at = source_line_of(error)
        is_first = raised_at not in self._logged_source_lines
        if is_first and len(self._logged_source_lines) < SOURCE_LINES_MAX:
            self._logged_source_lines.add(raised_at)
            self._logger.error("%s: connection closed (internal error)", connection, exc_info=error)
            return
        text = "%s: connection closed (internal error): %r (the traceback was logged before)"
        self._logger.error(text, connection, error)


def source_line_of(error: BaseException) -> tuple[str, int]:
    """Returns file and line of the innermost frame of the traceback."""
    traceback = error.__traceback__
    if traceback is None:
        return type(error).__name__, 0
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
