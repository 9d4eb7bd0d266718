"""Checkpoints are read without Spark."""

from pathlib import Path

import pytest

from pykbroker.pipeline.checkpoint import (
    METADATA,
    Definition,
    LocalFiles,
    Position,
    local_directory,
    position_of,
    store_definition,
    store_progress,
    stored_definition,
    stored_progress,
)
from pykbroker.pipeline.progress import Progress

OFFSETS = """v1
{"batchWatermarkMs":1795010470000,"batchTimestampMs":1795010602120,"conf":{}}
{"trucks":{"1":90,"0":100}}
{"depots":{"0":5},"trucks":{"0":98}}"""


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path)


def test_position_is_that_of_the_last_committed_batch(files: LocalFiles) -> None:
    for name in ("8", "9", "10"):
        files.write(f"sink.out/offsets/{name}", OFFSETS.replace("100", f"{name}00"))
    for name in ("8", "9"):
        files.write(f"sink.out/commits/{name}", 'v1\n{"nextBatchWatermarkMs":0}')
    assert position_of(files, "sink.out") == Position(
        begun=10,
        committed=9,
        offsets={"trucks": {"0": 98, "1": 90}, "depots": {"0": 5}},
        watermark="2026-11-18T14:01:10Z",
    )


def test_checkpoint_without_commits_has_no_offsets(files: LocalFiles) -> None:
    files.write("sink.out/offsets/0", OFFSETS)
    files.write("sink.out/offsets/.0.crc", "")
    assert position_of(files, "sink.out") == Position(begun=0, committed=None, offsets={})


def test_missing_checkpoint_has_no_position(files: LocalFiles) -> None:
    assert position_of(files, "sink.out") is None


def test_definition_is_stored_in_the_checkpoint(files: LocalFiles) -> None:
    definition = Definition(identity="4f2a", parts={"sources": "trucks"})
    assert stored_definition(files, "sink.out") is None
    store_definition(files, "sink.out", definition)
    files.write(f"sink.out/{METADATA}", "{}")
    assert stored_definition(files, "sink.out") == definition


def test_definition_is_ignored_until_spark_has_created_the_checkpoint(files: LocalFiles) -> None:
    store_definition(files, "sink.out", Definition(identity="4f2a", parts={"sources": "trucks"}))
    assert stored_definition(files, "sink.out") is None


def test_progress_is_stored_in_the_checkpoint(files: LocalFiles) -> None:
    progress = Progress(query="sink.out", at="now", batch_id=1, rows=2, rows_per_s=3.0)
    assert stored_progress(files, "sink.out") is None
    store_progress(files, progress)
    assert stored_progress(files, "sink.out") == progress


LOCATIONS = {
    "/var/lib/fleet": Path("/var/lib/fleet"),
    "state/fleet": Path("state/fleet"),
    "file:///var/lib/my%20fleet": Path("/var/lib/my fleet"),
    "file:/var/lib/fleet": Path("/var/lib/fleet"),
    "s3a://bucket/fleet": None,
    "hdfs://namenode:8020/fleet": None,
}


@pytest.mark.parametrize(("location", "directory"), LOCATIONS.items(), ids=LOCATIONS)
def test_paths_and_file_urls_are_local(location: str, directory: Path | None) -> None:
    assert local_directory(location) == directory
