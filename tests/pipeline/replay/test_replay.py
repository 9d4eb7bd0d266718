"""Archived records are replayed unchanged and once."""

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from pykbroker import Broker, Topic
from pykbroker.cli.main import main
from pykbroker.pipeline import replay as replay_module
from pykbroker.pipeline.archive.archived_records import ArchivedRecord
from pykbroker.pipeline.replay import CannotReplay, Replay, next_transaction, replay
from pykbroker.pipeline.topic_target import TopicTarget
from tests.pipeline.archive_files import write_offsets, write_records
from tests.pipeline.engine_process import WAS_KILLED, run, start

ENGINE = Path(__file__).with_name("replaying_engine.py")


def replay_of(archive: Path, kafka: Broker, **more: object) -> Replay:
    target = TopicTarget(bootstrap=kafka.bootstrap, topic="again")
    options: dict[str, Any] = {"name": "n", "transaction_records": 20, **more}
    return Replay(archive=archive, topic="trucks", target=target, **options)


@pytest.fixture
def broker(kafka: Broker) -> Broker:
    kafka.create_topics({"again": Topic(3, config={"retention.ms": "-1"})})  # of 1970
    return kafka


def test_replayed_record_has_key_headers_partition_timestamp_and_origin(
    broker: Broker, tmp_path: Path
) -> None:
    headers = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    write_records(tmp_path, [(2, 7, 5000, b"k", None, headers), (0, 3, 0, None, b"v", None)])
    assert replay(replay_of(tmp_path, broker)) == 2
    old, new = broker.records("again")
    assert (old.partition, old.key, old.value) == (0, None, b"v")
    assert dict(old.headers)["replay.timestamp"] == b"0"
    assert (new.partition, new.key, new.value, new.timestamp_ms) == (2, b"k", None, 5000)
    assert list(new.headers) == [
        ("h", b"1"),
        ("h", None),
        ("replay.topic", b"trucks"),
        ("replay.partition", b"2"),
        ("replay.offset", b"7"),
        ("replay.timestamp", b"5000"),
    ]


def test_overlapping_files_are_read_in_order_without_duplicates(
    broker: Broker, tmp_path: Path
) -> None:
    write_offsets(tmp_path, (0, range(0, 100, 2)), (1, range(10)), day="2026-11-18")
    write_offsets(tmp_path, (0, range(1, 100, 2)), day="2026-11-19")
    write_offsets(tmp_path, (0, range(95, 120)), day="2026-11-19", name="b")
    replay(replay_of(tmp_path, broker, has_place_headers=False))
    assert [it.text for it in broker.records("again", partition=0)] == [
        f"0:{offset}" for offset in range(120)
    ]
    assert [it.text for it in broker.records("again", partition=1)] == [
        f"1:{offset}" for offset in range(10)
    ]


def test_records_are_replayed_again_only_under_another_name(broker: Broker, tmp_path: Path) -> None:
    write_offsets(tmp_path, (0, range(50)))
    assert replay(replay_of(tmp_path, broker)) == 50
    write_offsets(tmp_path, (0, range(50, 70)), name="b")
    assert replay(replay_of(tmp_path, broker)) == 20
    assert replay(replay_of(tmp_path, broker)) == 0
    assert replay(replay_of(tmp_path, broker, name="m", since_ms=1010, until_ms=1012)) == 2
    assert [it.text for it in broker.records("again")][-2:] == ["0:10", "0:11"]


def test_transactions_are_limited_by_records_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_module, "TRANSACTION_BYTES", 100)
    sizes = [10, 10, 10, 10, 500, 99, 1, 5]
    records = iter([ArchivedRecord(0, at, 0, None, bytes(it), ()) for at, it in enumerate(sizes)])
    found = []
    while chunk := [it.offset for it in next_transaction(records, 3)]:
        found.append(chunk)
    assert found == [[0, 1, 2], [3, 4], [5, 6], [7]]


def test_topic_with_too_few_partitions_is_rejected(broker: Broker, tmp_path: Path) -> None:
    write_offsets(tmp_path, (3, range(5)))
    with pytest.raises(CannotReplay, match="use at least 4"):
        replay(replay_of(tmp_path, broker))
    assert broker.records("again") == []


def test_command_prints_the_record_count_or_that_the_replay_is_complete(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_offsets(tmp_path, (0, range(5)))
    command = ["pipeline", "replay", str(tmp_path), "trucks", "--to", "again"]
    command += ["--bootstrap", broker.bootstrap]
    for line in ("5 records replayed to again", "nothing to replay: trucks is complete"):
        assert main(command) == 0
        assert line in capsys.readouterr().out
    assert main([*command[:3], "ships", *command[4:]]) == 1
    assert "does not contain records of topic ships" in capsys.readouterr().err


def assert_each_once(kafka: Broker, offsets: int) -> None:
    for partition in range(2):
        assert [it.text for it in kafka.records("again", partition=partition)] == [
            f"{partition}:{offset}" for offset in range(offsets)
        ]


def test_replay_killed_at_each_crash_point_writes_once(broker: Broker, tmp_path: Path) -> None:
    write_offsets(tmp_path, (0, range(100)), (1, range(100)))
    for point in ("PRODUCING:33", "PRODUCED:2", "MARKED:2", "PUBLISHED:2"):
        killed = run(ENGINE, broker.bootstrap, tmp_path, environment={"KILL_AT": point})
        assert killed == WAS_KILLED, point
    assert run(ENGINE, broker.bootstrap, tmp_path) == 0
    assert_each_once(broker, 100)


@pytest.mark.slow
def test_replay_killed_at_random_writes_once(broker: Broker, tmp_path: Path) -> None:
    chance = random.Random(5)
    kills_min = int(os.environ.get("PYKBROKER_KILLS", "2"))
    kills = offsets = 0
    while kills < kills_min:
        write_offsets(
            tmp_path, *((it, range(offsets, offsets + 300)) for it in range(2)), name=f"{offsets}"
        )
        offsets += 300
        while True:
            environment = {"KILL_PROBABILITY": str(chance.choice([0.001, 0.004]))}
            with start(ENGINE, broker.bootstrap, tmp_path, environment=environment) as child:
                if chance.random() < 0.5:
                    time.sleep(chance.uniform(0.4, 1.5))
                    child.kill()
                output, _ = child.communicate(timeout=240)
            if child.returncode == 0:
                break
            assert child.returncode == WAS_KILLED, output
            kills += 1
    print(f"{kills} kills, {2 * offsets} records", flush=True)
    assert_each_once(broker, offsets)
