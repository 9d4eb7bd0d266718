"""Parses durations such as `20 seconds` or `1 hour 30 minutes`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

UNITS_MS: Final = {
    "millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000,
    "day": 86_400_000, "week": 604_800_000,
}  # fmt: skip
PART: Final = re.compile(r"(\d+)\s*([a-z]+?)s?")
EXAMPLE: Final = "20 seconds"


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    ms: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Returns the duration, or None if the text is not one."""
        words = re.findall(r"\d+\s*[A-Za-z]+|\S+", text.strip())
        parts = [PART.fullmatch(word.lower()) for word in words]
        if not parts:
            return None
        total_ms = 0
        for part in parts:
            if part is None or part[2] not in UNITS_MS:
                return None
            total_ms += int(part[1]) * UNITS_MS[part[2]]
        return cls(total_ms)

    def __str__(self) -> str:
        """Returns the duration in its largest integral unit, in the syntax of Spark's intervals."""
        for unit, unit_ms in reversed(UNITS_MS.items()):
            if self.ms and self.ms % unit_ms == 0:
                count = self.ms // unit_ms
                return f"{count} {unit}{'s' * (count != 1)}"
        return "0 seconds"
