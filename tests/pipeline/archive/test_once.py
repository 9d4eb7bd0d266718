"""What an archive refuses before a batch is recorded."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pykbroker.pipeline.archive.batch_commit import archive_once
from pykbroker.pipeline.archive.batch_record import OffsetRange, TopicPartition
from pykbroker.pipeline.archive.ledger import Attempt, Ledger
from pykbroker.pipeline.archive.target import ArchiveTarget, CannotArchive
from tests.pipeline.archived import write_offsets

MEMORY = Path("/dev/shm")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A directory on another file system."""
    if not MEMORY.is_dir() or MEMORY.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one file system only")
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        yield Path(directory)


def archive_five(ledger: Ledger) -> None:
    def stage(attempt: Attempt, _: Mapping[TopicPartition, int]) -> None:
        write_offsets(attempt.directory, (0, range(5)))

    ranges = {TopicPartition("trucks", 0): OffsetRange(0, 4)}
    archive_once(ledger, 0, stage=stage, computed_ranges=lambda: ranges)


def test_a_batch_that_could_not_come_into_place_is_refused_before_it_is_recorded(
    tmp_path: Path, elsewhere: Path
) -> None:
    target = ArchiveTarget(path=str(tmp_path / "lake"), staging=str(elsewhere))
    ledger = Ledger(target, "writer")
    with pytest.raises(CannotArchive, match="lies on another file system"):
        archive_five(ledger)
    assert ledger.latest() is None
    assert list(elsewhere.iterdir()) == []
    archive_five(Ledger(ArchiveTarget(path=str(tmp_path / "lake")), "writer"))
