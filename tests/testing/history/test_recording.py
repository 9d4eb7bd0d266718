"""Recording, saving, loading and merging of histories."""

from __future__ import annotations

import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING

import pytest

from pykbroker.testing.history import (
    Anomaly,
    History,
    MalformedHistoryError,
    Record,
    check,
    expect_sound,
)
from tests.testing.history.simulated_cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path


def record_lost_write(history: History) -> None:
    writer, reader = history.client("truck-17"), history.client("dashboard")
    for offset, value in enumerate(("at the depot", "on the road", "at the bridge")):
        writer.sending("trucks", value, partition=0).sent(partition=0, offset=offset)
    reader.polled([Record("trucks", 0, 0, "at the depot"), Record("trucks", 0, 2, "at the bridge")])


def test_a_finding_names_client_operation_and_record() -> None:
    history = History()
    record_lost_write(history)
    (finding,) = check(history)
    assert finding.anomaly is Anomaly.LOST_WRITE
    first, started, ended = str(finding).splitlines()
    assert first == (
        "lost write: 'on the road' of truck-17 was acknowledged at trucks-0 at offset 1, "
        "but is missing"
    )
    assert '"event": "send"' in started
    assert '"value": "on the road"' in started
    assert '"outcome": "ok"' in ended


def test_allowed_anomalies_are_not_reported() -> None:
    history = History()
    record_lost_write(history)
    with pytest.raises(AssertionError, match="anomalies: 1\nlost write: 'on the road'"):
        expect_sound(history)
    expect_sound(history, allowed={Anomaly.LOST_WRITE})


def test_a_saved_history_loads_unchanged(tmp_path: Path) -> None:
    history = Cluster(Random(7)).play(300)
    client = history.client("one more")
    client.committing_offsets("fleet", {("trucks", 1): 17}).refused("a rebalance")
    client.sending("trucks", b"\xff\x00 no text").unanswered(TimeoutError("30 s"))
    history.save(tmp_path / "history.jsonl")
    assert History.load(tmp_path / "history.jsonl").events == history.events


def test_an_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    record_lost_write(history)
    history.close()
    whole = (tmp_path / "history.jsonl").read_bytes()
    (tmp_path / "history.jsonl").write_bytes(whole[:-20])
    assert History.load(tmp_path / "history.jsonl").events == history.events[:-1]


def test_load_merges_several_files_by_time(tmp_path: Path) -> None:
    one, two = History(tmp_path / "one"), History(tmp_path / "two")
    transaction = one.client("writer").begun()
    two.client("reader").assigned(("trucks", 0, 4))
    transaction.committing()
    one.close()
    two.close()
    together = History.load(tmp_path / "one", tmp_path / "two")
    assert [it.client for it in together.events] == ["writer", "reader", "writer"]


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
        '{"event": "unheard of"}',
        '{"event": "transaction begun", "client": "c", "at_ns": 1}',
        '{"event": "transaction begun", "client": "c", "at_ns": 1, "colour": "blue"}',
        '{"event": "moved", "client": "c", "at_ns": 1, "move": "away", "positions": []}',
    ],
)
def test_a_malformed_line_is_reported_with_its_number(tmp_path: Path, line: str) -> None:
    file = tmp_path / "history.jsonl"
    first = '{"event": "transaction begun", "client": "c", "at_ns": 1, "transaction": 0}'
    file.write_text(f"{first}\n{line}\n")
    with pytest.raises(MalformedHistoryError, match=r"history\.jsonl, line 2: "):
        History.load(file)


def test_a_result_without_a_start_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text(
        '{"event": "send ended", "client": "c", "at_ns": 1, "send": 7, "outcome": "ok"}\n'
    )
    with pytest.raises(MalformedHistoryError, match=r"event without a matching start.*send=7"):
        check(History.load(file))


def test_a_client_name_can_be_used_once() -> None:
    history = History()
    history.client("writer")
    with pytest.raises(ValueError, match="client 'writer' exists already"):
        history.client("writer")


def test_the_history_package_imports_only_the_standard_library() -> None:
    program = (
        "import sys, pykbroker.testing.history; "
        "print({it.split('.')[0] for it in sys.modules} & "
        "{'asyncio', 'socket', 'kafka', 'aiokafka', 'confluent_kafka', 'pykbroker_protocol'})"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert shown.stdout == "set()\n"
