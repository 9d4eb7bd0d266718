"""Checks before a batch is recorded."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pykbroker.pipeline.archive.batch_commit import archive_once
from pykbroker.pipeline.archive.batch_record import OffsetRange, TopicPartition
from pykbroker.pipeline.archive.ledger import Attempt, Ledger
from pykbroker.pipeline.archive.target import ArchiveTarget, CannotArchive
from tests.pipeline.archive_files import write_offsets

MEMORY = Path("/dev/shm")


@pytest.fixture
def other_file_system(tmp_path: Path) -> Iterator[Path]:
    """A directory on another file system."""
    if not MEMORY.is_dir() or MEMORY.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("the machine has one file system only")
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        yield Path(directory)


def archive_five(ledger: Ledger) -> None:
    def stage(attempt: Attempt, _: Mapping[TopicPartition, int]) -> None:
        write_offsets(attempt.directory, (0, range(5)))

    ranges = {TopicPartition("trucks", 0): OffsetRange(0, 4)}
    archive_once(ledger, 0, stage=stage, computed_ranges=lambda: ranges)


def test_staging_on_another_file_system_is_rejected_before_recording(
    tmp_path: Path, other_file_system: Path
) -> None:
    target = ArchiveTarget(path=str(tmp_path / "lake"), staging=str(other_file_system))
    ledger = Ledger(target, "writer")
    with pytest.raises(CannotArchive, match="are on different file"):
        archive_five(ledger)
    assert ledger.latest() is None
    assert list(other_file_system.iterdir()) == []
    archive_five(Ledger(ArchiveTarget(path=str(tmp_path / "lake")), "writer"))
