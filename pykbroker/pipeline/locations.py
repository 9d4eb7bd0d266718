"""Resolves the directories and URLs of a pipeline file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pykbroker.pipeline.checkpoint import LocalFiles, local_directory

if TYPE_CHECKING:
    from pathlib import Path

    from pykbroker.pipeline.checkpoint import Files


@dataclass(frozen=True, slots=True, kw_only=True)
class Locations:
    """Resolves relative paths against a directory; URLs are unchanged."""

    directory: Path

    def resolve(self, declared: str) -> str:
        local = local_directory(declared)
        if local is None or "://" in declared or declared.startswith("file:"):
            return declared
        return str(self.directory.absolute() / local)

    def local_files(self, checkpoint: str) -> Files | None:
        """Returns the files of a local checkpoint, or None for a remote one."""
        local = local_directory(self.resolve(checkpoint))
        return None if local is None else LocalFiles(local)
