"""What goes wrong in work done again and again: told when it begins and when it is over."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.batch_scan import CorruptLog

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)

TOLD_MAX = 1_000
"""Beyond that, what is told no more is forgotten, and told again if it still goes on."""
OF_THE_DISK = (OSError, CorruptLog, CorruptBatch)
"""What an operator can do something about; anything else is a bug, and its trace is shown."""


class Troubles:
    """Keeps one partition's trouble from the others, and a lasting one from filling the log."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], type[Exception]] = {}

    @contextmanager
    def borne(self, work: str, where: object) -> Iterator[None]:
        """Whatever is raised within ends there; the next round tries again."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - upkeep that ended would end for every partition
            self._begin(work, str(where), error)
        else:
            if self._told:
                self._end(work, str(where))

    def _begin(self, work: str, where: str, error: Exception) -> None:
        if self._told.get((work, where)) is type(error):
            return
        if len(self._told) >= TOLD_MAX:
            self._told.clear()
        self._told[work, where] = type(error)
        logger.warning(
            "%s: %s fails and is tried again each round, which is not told each time: %s",
            where,
            work,
            str(error) or type(error).__name__,
            exc_info=None if isinstance(error, OF_THE_DISK) else error,
        )

    def _end(self, work: str, where: str) -> None:
        if self._told.pop((work, where), None) is not None:
            logger.info("%s: %s works again", where, work)
