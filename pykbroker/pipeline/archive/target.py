"""Configuration of an archive: location, format and options."""

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
    """Raised if a batch is rejected; the message names the cause and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveTarget:
    """An archive of one or more topics, written by one or more queries."""

    path: str
    """Directory with the same path on all Spark nodes; for Delta also a URL."""
    format: ArchiveFormat = ArchiveFormat.PARQUET
    writer: str | None = None
    """Identifies the batches; by default the id of the streaming query in its checkpoint."""
    files_per_day_max: int | None = None
    """Maximum files per batch, topic and day; by default one per Spark task."""
    skip_archived: bool = False
    """Skip archived records instead of rejecting the batch; for new checkpoints."""
    staging: str | None = None
    """Directory of uncommitted files; must be on the file system of the archive."""

    @property
    def directory(self) -> str:
        return local_path(self.path)

    @property
    def staging_directory(self) -> str:
        """By default not in the archive, because DuckDB's `**` matches hidden directories."""
        if self.staging is not None:
            return local_path(self.staging)
        archive = Path(self.directory)
        return str(archive.with_name(f"{STAGING_PREFIX}{archive.name}{STAGING_SUFFIX}"))


def local_path(location: str) -> str:
    """Returns the absolute path of a path or `file:` URL."""
    parts = urlsplit(location)
    match parts.scheme:
        case "":
            path = location
        case "file":
            path = unquote(parts.path)
        case _:
            raise CannotArchive(
                f"{location}: a Parquet archive must be in a mounted file system with atomic"
                ' rename; use the format "delta" for other locations'
            )
    if not path.strip("/"):
        raise CannotArchive(f"{location!r} cannot be the directory of an archive")
    return str(Path(path).absolute())
