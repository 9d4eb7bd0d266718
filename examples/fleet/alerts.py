"""Alerts of the pipeline: a truck is silent, or is in a closed zone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .geography import Point
from .validation import fields_of, number, text, time_of

if TYPE_CHECKING:
    from datetime import datetime

SILENCE = "silence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    truck_id: str
    subject: str
    """`silence`, or the name of the zone."""
    at: datetime
    """Time of the last report, or of the report from inside the zone."""
    position: Point


def decode(value: bytes | None) -> Alert:
    """Decodes an alert; raises ValueError, KeyError or TypeError for an invalid one."""
    found = fields_of(value)
    return Alert(
        truck_id=text(found["truck_id"]),
        subject=text(found["subject"]),
        at=time_of(found["at"]),
        position=Point(number(found["lat"]), number(found["lon"])),
    )
