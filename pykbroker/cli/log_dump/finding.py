"""One thing found in a file: as a line for people, as an object for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    kind: str
    text: str
    document: dict[str, Any] = field(default_factory=dict)
    is_damage: bool = False


def damage(text: str, **document: Any) -> Finding:
    return Finding(
        kind="damage",
        text=f"DAMAGED: {text}",
        document={"message": text, **document},
        is_damage=True,
    )
