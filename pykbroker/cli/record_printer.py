"""Prints consumed records as they come, as many as are wanted, and counts them."""

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
        self._formatted = record_format(options)
        self._progress = None if sys.stdout.isatty() else Progress("record")
        self._left: int | None = options.max
        self._count = 0

    @property
    def is_done(self) -> bool:
        """Whether as many were printed as were wanted."""
        return self._left == 0

    def print(self, partition: int, records: list[Record]) -> list[Record]:
        """Print them, or the first of them if fewer are wanted; those printed come back."""
        wanted = records if self._left is None else records[: self._left]
        sys.stdout.buffer.writelines([self._formatted(partition, record) for record in wanted])
        sys.stdout.buffer.flush()
        self._count += len(wanted)
        if self._left is not None:
            self._left -= len(wanted)
        if self._progress:
            self._progress.show(self._count)
        return wanted

    def end(self) -> None:
        if self._progress:
            self._progress.clear()
