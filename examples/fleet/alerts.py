"""What the pipeline raises: a truck fell silent, or drives where it must not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .geography import Place
from .validation import fields_of, moment, number, text

if TYPE_CHECKING:
    from datetime import datetime

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
    found = fields_of(value)
    return Alert(
        truck_id=text(found["truck_id"]),
        subject=text(found["subject"]),
        at=moment(found["at"]),
        place=Place(number(found["lat"]), number(found["lon"])),
    )
