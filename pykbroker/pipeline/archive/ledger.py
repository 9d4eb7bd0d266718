"""The ledger of an archive: records each batch once and then moves its files to the archive.

The files of a batch are staged outside of the archive, recorded in the ledger, and then moved. The
record is created exclusively, so one of several concurrent attempts (a retry after a crash, the
first attempt if it still runs) succeeds. Later attempts move the files of the existing record.
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
"""A process suspended for more batches than this could archive an old batch again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt to archive a batch, with its own staging directory."""

    batch_id: int
    name: str
    directory: Path


class Ledger:
    """The ledger of one writer in one archive."""

    def __init__(self, target: ArchiveTarget, writer: str) -> None:
        self.archive = Path(target.directory)
        self.staging = Path(target.staging_directory)
        self.writer = writer

    def latest(self) -> BatchRecord | None:
        """Returns the last batch of this writer; its files may not be moved yet."""
        return latest_record(self._records)

    def next_offsets(self) -> dict[TopicPartition, int]:
        """Returns the next offsets of the archive over all its writers."""
        return max_offsets(record.next_offsets for record in latest_records(self.archive))

    def reject_other_file_system(self) -> None:
        """Raises if staging and archive are on different file systems; a rename shows it."""
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
                f"staging directory {self.staging} and archive {self.archive} are on different file"
                " systems: use a subdirectory as archive, or set `staging`"
            ) from failure
        (self.archive / RECORDS_DIRECTORY / probe).unlink()

    def attempt(self, batch_id: int) -> Attempt:
        name = uuid4().hex[:12]
        directory = self.staging / self.writer / f"{batch_id}-{name}"
        return Attempt(batch_id=batch_id, name=name, directory=directory)

    def record(self, attempt: Attempt, ranges: Mapping[TopicPartition, OffsetRange]) -> BatchRecord:
        """Records the batch as archived. Returns the record of another attempt if there is one."""
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
            files=tuple(self._archived_files(attempt, staged)),
            ranges=dict(ranges),
            next_offsets=max_offsets([before.next_offsets if before else {}, ends]),
        )
        if not create_once(self._path_of(attempt.batch_id), record.encode()):
            record = decode(self._path_of(attempt.batch_id).read_bytes())
        reached(CrashPoint.RECORDED)
        return record

    def finish(self, record: BatchRecord) -> None:
        """Moves the files of a recorded batch that are not in the archive yet."""
        paths = [self._move(file) for file in record.files]
        for directory in sorted({path.parent for path in paths}):
            flush_directory(directory)
        self._delete_attempts(record.batch_id)
        self._delete_old_record(record.batch_id)
        reached(CrashPoint.ARCHIVED)

    def _move(self, file: StagedFile) -> Path:
        path = self.archive / file.archived
        if move(self.staging / file.staged, path):
            reached(CrashPoint.MOVED)
        return path

    def _archived_files(self, attempt: Attempt, staged: list[Path]) -> Iterator[StagedFile]:
        for number, file in enumerate(staged):
            name = f"batch-{attempt.batch_id:012}-{number:05}-{attempt.name}{SUFFIX}"
            archived = file.relative_to(attempt.directory).with_name(name)
            yield StagedFile(str(file.relative_to(self.staging)), str(archived))

    def _delete_attempts(self, batch_id: int) -> None:
        """Deletes the staged files of recorded batches; they can no longer be recorded."""
        for directory in (self.staging / self.writer).glob("*-*"):
            if int(directory.name.partition("-")[0]) <= batch_id:
                remove_tree(directory)

    def _delete_old_record(self, batch_id: int) -> None:
        self._path_of(batch_id - RECORDS_KEPT).unlink(missing_ok=True)

    @property
    def _records(self) -> Path:
        return self.archive / RECORDS_DIRECTORY / self.writer

    def _path_of(self, batch_id: int) -> Path:
        return self._records / f"{batch_id:012}.json"


def latest_records(archive: Path) -> Iterator[BatchRecord]:
    """Yields the last batch of each writer."""
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
    """Returns recorded files that the next start of the writer moves to the archive."""
    return [it.archived for it in record.files if not (archive / it.archived).exists()]
