"""Lists the files of an archive."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from pyarrow import parquet

from pykbroker.pipeline.archive.atomic_files import visible_files
from pykbroker.pipeline.archive.ledger import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DELTA_LOG: Final = "_delta_log"
COMMIT_NAME: Final = re.compile(r"(\d{20})\.json")
TOPIC: Final = "topic="
DAY: Final = "day="


class CannotReadArchive(Exception):
    """Raised if a directory is not an archive that this version supports."""


class ArchivedFile(NamedTuple):
    topic: str
    day: str
    path: Path


def archived_files(archive: Path) -> list[ArchivedFile]:
    """Returns the files by topic and day; those of a Delta table according to its log."""
    if not archive.is_dir():
        raise CannotReadArchive(f"{archive} is not a directory")
    is_delta = (archive / DELTA_LOG).is_dir()
    paths = delta_files(archive) if is_delta else visible_files(archive, SUFFIX)
    return sorted(archived_file(archive, path) for path in paths)


def archived_file(archive: Path, path: Path) -> ArchivedFile:
    topic, day, *_ = (*path.relative_to(archive).parts, "", "")
    if not topic.startswith(TOPIC) or not day.startswith(DAY):
        raise CannotReadArchive(
            f"{path.relative_to(archive)} is not in a directory topic=…/day=…: is it an archive?"
        )
    return ArchivedFile(topic.removeprefix(TOPIC), day.removeprefix(DAY), path)


def delta_files(table: Path) -> Iterator[Path]:
    """Replays the log from its last checkpoint; yields files that are added and not removed."""
    log = table / DELTA_LOG
    since, active = read_checkpoint(log)
    for commit in sorted(log.iterdir()):
        found = COMMIT_NAME.fullmatch(commit.name)
        if found and int(found.group(1)) > since:
            for line in commit.read_text().splitlines():
                apply_action(json.loads(line), active)
    for name in sorted(active):
        yield table / unquote(name)


def read_checkpoint(log: Path) -> tuple[int, set[str]]:
    pointer = log / "_last_checkpoint"
    if not pointer.exists():
        return -1, set()
    last = json.loads(pointer.read_text())
    version, active = last["version"], set[str]()
    parts = sorted(log.glob(f"{version:020}.checkpoint*.parquet"))
    if not parts or last.get("v2Checkpoint"):
        raise CannotReadArchive(f"{log}: this kind of checkpoint is not supported")
    for part in parts:
        for row in parquet.read_table(part, columns=["add"]).to_pylist():
            apply_action(row, active)
    return version, active


def apply_action(action: dict[str, Any], active: set[str]) -> None:
    added, removed = action.get("add"), action.get("remove")
    if added:
        if added.get("deletionVector"):
            raise CannotReadArchive(
                f"{added['path']}: deletion vectors of Delta tables are not supported"
            )
        active.add(added["path"])
    if removed:
        active.discard(removed["path"])
