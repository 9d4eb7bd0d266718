"""Errors of periodic work, logged when they begin and when they end."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.batch_scan import CorruptLog

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)

LOGGED_MAX = 1_000
"""Beyond that, logged errors are discarded, and logged again if they persist."""
STORAGE_ERRORS = (OSError, CorruptLog, CorruptBatch)
"""Errors that an operator can act on; any other error is a bug and is logged with a traceback."""


class RecurringErrors:
    """Keeps an error of one partition from the others, and a lasting one from filling the log."""

    def __init__(self) -> None:
        self._logged: dict[tuple[str, str], type[Exception]] = {}

    @contextmanager
    def caught(self, work: str, where: object) -> Iterator[None]:
        """Catches and logs every error; the next round of the work tries again."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - an error would end the work for all partitions
            self._begin(work, str(where), error)
        else:
            if self._logged:
                self._end(work, str(where))

    def _begin(self, work: str, where: str, error: Exception) -> None:
        if self._logged.get((work, where)) is type(error):
            return
        if len(self._logged) >= LOGGED_MAX:
            self._logged.clear()
        self._logged[work, where] = type(error)
        logger.warning(
            "%s: %s failed (%s); retried periodically; next logged when it succeeds",
            where,
            work,
            str(error) or type(error).__name__,
            exc_info=None if isinstance(error, STORAGE_ERRORS) else error,
        )

    def _end(self, work: str, where: str) -> None:
        if self._logged.pop((work, where), None) is not None:
            logger.info("%s: %s succeeds again", where, work)
