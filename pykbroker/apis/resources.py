"""What has configuration of its own, as the protocol numbers and names it."""

from __future__ import annotations

from enum import IntEnum


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def broker_id_of(name: str) -> int | None:
    """A broker resource is named by its node id; other names mean no broker at all."""
    return int(name) if name.isascii() and name.isdigit() else None
