"""Files in the checkpoint of a query: Spark's offsets and commits, our definition and progress."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from pykbroker.pipeline.progress import Offsets, Progress, offsets_in

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFINITION: Final = "definition.json"
PROGRESS: Final = "progress.json"
METADATA: Final = "metadata"
"""Written by Spark when the query starts; without it the definition may still change."""


class Files(Protocol):
    """Small files below a directory, local or remote."""

    def read(self, name: str) -> str | None: ...

    def write(self, name: str, text: str) -> None: ...

    def names(self, directory: str) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """Local files. A file is replaced atomically."""

    root: Path

    def read(self, name: str) -> str | None:
        try:
            return (self.root / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}.unfinished")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(target)

    def names(self, directory: str) -> list[str]:
        path = self.root / directory
        return sorted(it.name for it in path.iterdir()) if path.is_dir() else []


def local_directory(location: str) -> Path | None:
    """Returns the local directory of a path or `file:` URL, or None for other URLs."""
    url = urlsplit(location)
    if url.scheme == "file":
        return Path(unquote(url.path))
    return None if "://" in location else Path(location)


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """Definition of a query when its checkpoint was created, with a new `identity` each time."""

    identity: str
    parts: Mapping[str, str]

    def to_text(self) -> str:
        return json.dumps({"identity": self.identity, "parts": dict(self.parts)}, indent=1) + "\n"


def stored_definition(files: Files, query: str) -> Definition | None:
    """Returns the definition of an existing checkpoint, or None if Spark has not created one."""
    text = files.read(f"{query}/{DEFINITION}")
    if text is None or files.read(f"{query}/{METADATA}") is None:
        return None
    document = json.loads(text)
    return Definition(identity=document["identity"], parts=document["parts"])


def store_definition(files: Files, query: str, definition: Definition) -> None:
    files.write(f"{query}/{DEFINITION}", definition.to_text())


def store_progress(files: Files, progress: Progress) -> None:
    files.write(f"{progress.query}/{PROGRESS}", progress.to_text())


def stored_progress(files: Files, query: str) -> Progress | None:
    text = files.read(f"{query}/{PROGRESS}")
    return None if text is None else Progress.of_text(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Progress of a checkpoint according to Spark's files."""

    begun: int | None = None
    """Latest batch whose offsets are written."""
    committed: int | None = None
    """Latest committed batch."""
    offsets: Offsets
    """Start of the batch after the committed one."""
    watermark: str | None = None


def position_of(files: Files, query: str) -> Position | None:
    """Reads the checkpoint of a query without Spark; None if there is none."""
    begun = newest(files, f"{query}/offsets")
    committed = newest(files, f"{query}/commits")
    if begun is None and committed is None:
        return None
    text = None if committed is None else files.read(f"{query}/offsets/{committed}")
    settings, offsets = read_offset_log(text) if text else ({}, {})
    return Position(
        begun=begun,
        committed=committed,
        offsets=offsets,
        watermark=time_text(settings.get("batchWatermarkMs")),
    )


def newest(files: Files, directory: str) -> int | None:
    return max((int(it) for it in files.names(directory) if it.isdecimal()), default=None)


def read_offset_log(text: str) -> tuple[dict[str, Any], Offsets]:
    """Parses an offset file: a version, the settings of the batch, one line per source.

    If sources share a partition, the smallest offset counts.
    """
    _, settings, *sources = text.splitlines()
    offsets: Offsets = {}
    for source in sources:
        for topic, partitions in offsets_in(source).items():
            known = offsets.setdefault(topic, {})
            for partition, offset in partitions.items():
                known[partition] = min(offset, known.get(partition, offset))
    return json.loads(settings), offsets


def time_text(time_ms: int | None) -> str | None:
    if not time_ms:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
