"""What the pipeline raises: a truck fell silent, or drives where it must not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from .geography import Place

SILENCE = "silence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    truck_id: str
    subject: str
    """`silence`, or the name of the zone it is in."""
    at: datetime
    """When the truck reported last, or from inside the zone."""
    place: Place


def decode(value: bytes | None) -> Alert:
    """Raises ValueError, KeyError or TypeError for what is no alert."""
    found = json.loads(value or b"")
    return Alert(
        truck_id=str(found["truck_id"]),
        subject=str(found["subject"]),
        at=datetime.fromisoformat(found["at"]),
        place=Place(float(found["lat"]), float(found["lon"])),
    )
