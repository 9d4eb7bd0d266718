"""`pipeline status` and `explain`, without Spark."""

import json
import socket
from pathlib import Path

import pytest

from pykbroker import Broker
from pykbroker.cli.main import main
from pykbroker.pipeline.checkpoint import LocalFiles, store_progress
from pykbroker.pipeline.progress import Progress

DECLARATION = """
name = "fleet"
checkpoint = "checkpoint"
[source.trucks]
topics = ["trucks"]
format = "raw"
[sink.copies]
input = "trucks"
kind = "topic"
topic = "copies"
[archive.raw]
source = "trucks"
path = "lake"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline that has copied two records of each partition and archived none."""
    file = tmp_path / "fleet.toml"
    file.write_text(DECLARATION)
    files = LocalFiles(tmp_path / "checkpoint")
    offsets = {"trucks": {"0": 2, "1": 2}}
    files.write("sink.copies/offsets/4", f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(offsets)}')
    files.write("sink.copies/commits/4", "v1\n{}")
    store_progress(
        files,
        Progress(
            query="sink.copies", at="2026-11-18T14:03:22Z", batch_id=4, rows=4, rows_per_s=12.0
        ),
    )
    return file


def test_lag_counts_records_after_the_last_committed_batch(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Broker({"trucks": 2}) as broker:
        broker.produce("trucks", ["a"] * 5, partition=0)
        broker.produce("trucks", ["b"] * 2, partition=1)
        assert main(["pipeline", "status", str(file), "--bootstrap", broker.bootstrap]) == 0
    assert capsys.readouterr().out == (
        "QUERY        BATCH      LAG       ROWS/S  STATE  WATERMARK  LAST BATCH AT\n"
        "archive.raw  never ran  -              -      -          -  -\n"
        "sink.copies  4          trucks 3      12      -          -  2026-11-18T14:03:22Z\n"
    )


def test_status_without_a_broker_has_no_lag(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        command = ["pipeline", "status", str(file), "--bootstrap", f"127.0.0.1:{port}"]
        assert main([*command, "--timeout", "0.2", "--json"]) == 0
    archive, copies = json.loads(capsys.readouterr().out)
    assert (archive["query"], archive["position"]) == ("archive.raw", None)
    assert (copies["position"]["committed"], copies["lag"]) == (4, None)


def test_deleted_topic_has_no_lag(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Broker(config={"auto.create.topics.enable": "false"}) as broker:
        assert (
            main(["pipeline", "status", str(file), "--bootstrap", broker.bootstrap, "--json"]) == 0
        )
    assert json.loads(capsys.readouterr().out)[1]["lag"] == {"trucks": 0}


def test_remote_checkpoint_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(DECLARATION.replace('"checkpoint"', '"s3a://fleet/checkpoint"'))
    assert main(["pipeline", "status", str(file)]) == 2
    assert "s3a://fleet/checkpoint is not a local directory" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "status", "explain"])
def test_invalid_pipeline_file_is_rejected_with_all_problems(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(DECLARATION.replace("topics", "topic").replace("raw", "row", 1))
    assert main(["pipeline", command, str(file)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"pipeline {command} {file}: ")
    assert "source.trucks.topic: unknown key (did you mean topics?)" in error
    assert "source.trucks.format: should be json, csv, avro or raw, not 'row'" in error


def test_explain_writes_the_diagram_to_the_output(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = file.with_suffix(".html")
    assert main(["pipeline", "explain", str(file), "--output", str(page)]) == 0
    assert capsys.readouterr().out == f"written to {page}\n"
    assert main(["pipeline", "explain", str(file)]) == 0
    assert capsys.readouterr().out == page.read_text()
