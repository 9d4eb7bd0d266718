"""A finding in a file: a line of text and a JSON object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    kind: str
    text: str
    document: dict[str, Any] = field(default_factory=dict)
    is_corruption: bool = False


def corruption(text: str, **document: Any) -> Finding:
    return Finding(
        kind="damage",  # part of the JSON format
        text=f"CORRUPT: {text}",
        document={"message": text, **document},
        is_corruption=True,
    )
