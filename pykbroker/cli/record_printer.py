"""Prints consumed records up to --max and shows the progress."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pykbroker.cli.output import Progress
from pykbroker.cli.record_format import record_format

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker_protocol.records.record import Record


class RecordPrinter:
    def __init__(self, options: Namespace) -> None:
        self._format = record_format(options)
        self._progress = None if sys.stdout.isatty() else Progress("record")
        self._remaining: int | None = options.max
        self._count = 0

    @property
    def is_done(self) -> bool:
        """True if --max records were printed."""
        return self._remaining == 0

    def print(self, partition: int, records: list[Record]) -> list[Record]:
        """Prints records up to --max; returns the printed ones."""
        printed = records if self._remaining is None else records[: self._remaining]
        sys.stdout.buffer.writelines([self._format(partition, record) for record in printed])
        sys.stdout.buffer.flush()
        self._count += len(printed)
        if self._remaining is not None:
            self._remaining -= len(printed)
        if self._progress:
            self._progress.show(self._count)
        return printed

    def end(self) -> None:
        if self._progress:
            self._progress.clear()
