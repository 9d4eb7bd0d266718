"""Where a pipeline's directories and addresses really are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pykbroker.pipeline.checkpoint import LocalFiles, local_directory

if TYPE_CHECKING:
    from pathlib import Path

    from pykbroker.pipeline.checkpoint import Files


@dataclass(frozen=True, slots=True, kw_only=True)
class Locations:
    """A path without a beginning begins at this directory; an address stays as it is."""

    directory: Path

    def resolve(self, declared: str) -> str:
        local = local_directory(declared)
        if local is None or "://" in declared or declared.startswith("file:"):
            return declared
        return str(self.directory.absolute() / local)

    def local_files(self, checkpoint: str) -> Files | None:
        """The files of a checkpoint, if it lies on this machine."""
        local = local_directory(self.resolve(checkpoint))
        return None if local is None else LocalFiles(local)
