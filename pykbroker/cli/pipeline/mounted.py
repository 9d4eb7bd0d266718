"""Where an archive lies, for commands that read it without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.failure import CannotBegin
from pykbroker.pipeline.checkpoint import local_directory

if TYPE_CHECKING:
    from pathlib import Path


def mounted_directory(place: str) -> Path:
    directory = local_directory(place)
    if directory is None:
        raise CannotBegin(f"{place} is an address, and only what is mounted here can be read")
    return directory
