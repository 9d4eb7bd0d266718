"""An archive's ledger: a batch is in it once, and then its files come into place, once.

A batch is staged where no reader looks, then recorded, then moved. The record is made by an
operation that only the first can win, so of all who try the same batch (a second attempt after a
crash, and the first one if it lives on) exactly one is heard; whoever comes later, to whatever was
left half done, moves the files that the record names.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pykbroker.pipeline.archive.atomic_files import (
    create_once,
    flush,
    flush_directory,
    move,
    remove_tree,
    visible_files,
)
from pykbroker.pipeline.archive.batch_record import (
    BatchRecord,
    OffsetRange,
    StagedFile,
    TopicPartition,
    decode,
    max_offsets,
)
from pykbroker.pipeline.archive.target import CannotArchive
from pykbroker.pipeline.crash_points import CrashPoint, reached

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pykbroker.pipeline.archive.target import ArchiveTarget

RECORDS_DIRECTORY: Final = "_batches"
RECORD_NAME: Final = re.compile(r"(\d+)\.json")
SUFFIX: Final = ".parquet"
RECORDS_KEPT: Final = 10_000
"""A process that slept through more batches than these could archive an old one again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try to archive a batch, with a directory of its own."""

    batch_id: int
    name: str
    directory: Path


class Ledger:
    """The batches of one writer in one archive."""

    def __init__(self, target: ArchiveTarget, writer: str) -> None:
        self.archive = Path(target.directory)
        self.staging = Path(target.staging_directory)
        self.writer = writer

    def latest(self) -> BatchRecord | None:
        """The last batch of this writer; its files may not be in place yet."""
        return latest_record(self._records)

    def reach(self) -> dict[TopicPartition, int]:
        """How far the archive has come, whoever wrote it."""
        return max_offsets(record.next_offsets for record in latest_records(self.archive))

    def reject_other_file_system(self) -> None:
        """What is recorded must be able to come into place; a mount of its own shows only here."""
        probe = f".{uuid4().hex}"
        self.staging.mkdir(parents=True, exist_ok=True)
        (self.archive / RECORDS_DIRECTORY).mkdir(parents=True, exist_ok=True)
        (self.staging / probe).touch()
        try:
            (self.staging / probe).rename(self.archive / RECORDS_DIRECTORY / probe)
        except OSError as failure:
            (self.staging / probe).unlink()
            if failure.errno != errno.EXDEV:
                raise
            raise CannotArchive(
                f"files cannot be moved from {self.staging} to {self.archive}, which lies on"
                " another file system: archive into a directory below, or say where `staging` is"
            ) from failure
        (self.archive / RECORDS_DIRECTORY / probe).unlink()

    def attempt(self, batch_id: int) -> Attempt:
        name = uuid4().hex[:12]
        directory = self.staging / self.writer / f"{batch_id}-{name}"
        return Attempt(batch_id=batch_id, name=name, directory=directory)

    def record(self, attempt: Attempt, ranges: Mapping[TopicPartition, OffsetRange]) -> BatchRecord:
        """From here on the batch is archived, whatever happens; the answer may be another's."""
        staged = list(visible_files(attempt.directory, SUFFIX))
        for file in staged:
            flush(file)
        reached(CrashPoint.STAGED)
        before = self.latest()
        ends = {where: span.last + 1 for where, span in ranges.items()}
        record = BatchRecord(
            writer=self.writer,
            batch_id=attempt.batch_id,
            attempt=attempt.name,
            files=tuple(self._placed(attempt, staged)),
            ranges=dict(ranges),
            next_offsets=max_offsets([before.next_offsets if before else {}, ends]),
        )
        if not create_once(self._path_of(attempt.batch_id), record.encode()):
            record = decode(self._path_of(attempt.batch_id).read_bytes())
        reached(CrashPoint.RECORDED)
        return record

    def finish(self, record: BatchRecord) -> None:
        """Bring all files of a recorded batch into place, those that are not there yet."""
        places = [self._bring(file) for file in record.files]
        for directory in sorted({place.parent for place in places}):
            flush_directory(directory)
        self._forget_attempts(record.batch_id)
        self._forget_records(record.batch_id)
        reached(CrashPoint.ARCHIVED)

    def _bring(self, file: StagedFile) -> Path:
        place = self.archive / file.place
        if move(self.staging / file.staged, place):
            reached(CrashPoint.MOVED)
        return place

    def _placed(self, attempt: Attempt, staged: list[Path]) -> Iterator[StagedFile]:
        for number, file in enumerate(staged):
            name = f"batch-{attempt.batch_id:012}-{number:05}-{attempt.name}{SUFFIX}"
            place = file.relative_to(attempt.directory).with_name(name)
            yield StagedFile(str(file.relative_to(self.staging)), str(place))

    def _forget_attempts(self, batch_id: int) -> None:
        """Nobody can record a batch that is recorded: what else was staged for it is waste."""
        for directory in (self.staging / self.writer).glob("*-*"):
            if int(directory.name.partition("-")[0]) <= batch_id:
                remove_tree(directory)

    def _forget_records(self, batch_id: int) -> None:
        self._path_of(batch_id - RECORDS_KEPT).unlink(missing_ok=True)

    @property
    def _records(self) -> Path:
        return self.archive / RECORDS_DIRECTORY / self.writer

    def _path_of(self, batch_id: int) -> Path:
        return self._records / f"{batch_id:012}.json"


def latest_records(archive: Path) -> Iterator[BatchRecord]:
    """The last batch of each writer."""
    directory = archive / RECORDS_DIRECTORY
    for writer in sorted(directory.iterdir()) if directory.is_dir() else ():
        record = latest_record(writer)
        if record is not None:
            yield record


def latest_record(records: Path) -> BatchRecord | None:
    names = [it.name for it in records.iterdir()] if records.is_dir() else []
    found = max((name for name in names if RECORD_NAME.fullmatch(name)), default=None)
    return decode((records / found).read_bytes()) if found else None


def missing_files(archive: Path, record: BatchRecord) -> list[str]:
    """What was recorded and is not in place: the next start of its writer brings it."""
    return [file.place for file in record.files if not (archive / file.place).exists()]
