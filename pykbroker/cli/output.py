"""Output of commands: aligned tables, JSON, progress."""

from __future__ import annotations

import base64
import json
import sys
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COLUMN_GAP: Final = "  "
PROGRESS_INTERVAL_S: Final = 0.2


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Formats rows as columns; columns of numbers are right-aligned."""
    cells = [[cell_text(cell) for cell in row] for row in rows]
    numeric = [all(map(is_number, column)) for column in zip(*cells, strict=True)]
    numeric = numeric or [False] * len(headings)
    lines = [list(headings), *cells]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(aligned(line, widths, numeric) for line in lines)


def aligned(line: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = (
        cell.rjust(width) if is_numeric else cell.ljust(width)
        for cell, width, is_numeric in zip(line, widths, numeric, strict=True)
    )
    return COLUMN_GAP.join(padded).rstrip()


def cell_text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, (list, tuple)):
        return ",".join(map(str, cell)) or "-"
    return str(cell)


def is_number(text: str) -> bool:
    return text == "-" or text.removeprefix("-").isdecimal()


def print_json(document: Any) -> None:
    print(json.dumps(document, ensure_ascii=False, indent=2))


def uuid_text(uuid: bytes) -> str:
    """Formats a topic or directory id as Kafka's tools do (unpadded base64url)."""
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def counted(count: int, noun: str, plural: str = "") -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {plural or noun + 's'}"


def bytes_text(size: int) -> str:
    """Formats a size such as 1.4 GiB."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


class Progress:
    """A progress line on stderr; prints nothing if stderr is not a terminal."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._is_terminal = sys.stderr.isatty()
        self._started = self._shown = time.monotonic()

    def show(self, count: int) -> None:
        now = time.monotonic()
        if not self._is_terminal or now - self._shown < PROGRESS_INTERVAL_S:
            return
        self._shown = now
        rate = count / (now - self._started)
        print(
            f"\r{count:,} {self._noun}s, {rate:,.0f}/s \x1b[K", end="", file=sys.stderr, flush=True
        )

    def clear(self) -> None:
        if self._is_terminal and self._shown != self._started:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
