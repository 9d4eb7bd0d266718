"""Where records are archived, and how."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

STAGING_PREFIX: Final = "."
STAGING_SUFFIX: Final = ".staging"


class ArchiveFormat(Enum):
    PARQUET = "parquet"
    DELTA = "delta"


class CannotArchive(Exception):
    """The archive refuses a batch; the message says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveTarget:
    """One archive; it may hold many topics, written by one query or by several."""

    path: str
    """A directory that all of Spark's processes see under this name; for Delta any address."""
    format: ArchiveFormat = ArchiveFormat.PARQUET
    writer: str | None = None
    """Whose batches these are; None is the streaming query, whose id lies in its checkpoint."""
    files_per_day_max: int | None = None
    """At most so many files of a topic and day in one batch; None is one for each Spark task."""
    skip_archived: bool = False
    """Leave out what the archive has already, rather than refuse: for a checkpoint that is new."""
    staging: str | None = None
    """Where files lie before they are committed; on the archive's own file system."""

    @property
    def directory(self) -> str:
        return local_path(self.path)

    @property
    def staging_directory(self) -> str:
        """Beside the archive, not in it: DuckDB's `**` finds files in hidden directories too."""
        if self.staging is not None:
            return local_path(self.staging)
        archive = Path(self.directory)
        return str(archive.with_name(f"{STAGING_PREFIX}{archive.name}{STAGING_SUFFIX}"))


def local_path(address: str) -> str:
    """The path that a plain path or a `file:` address names."""
    parts = urlsplit(address)
    match parts.scheme:
        case "":
            path = address
        case "file":
            path = unquote(parts.path)
        case _:
            raise CannotArchive(
                f"{address}: Parquet archives need a file system with an atomic rename, mounted"
                ' where Spark runs; for all others there is the format "delta"'
            )
    if not path.strip("/"):
        raise CannotArchive(f"{address!r} names no directory that could be an archive")
    return str(Path(path).absolute())
