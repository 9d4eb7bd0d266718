"""The example and the commands of docs/archive.md work."""

import re
from pathlib import Path

import pytest

from pykbroker import Broker, Row
from pykbroker.cli.main import main

PAGE = Path(__file__).parents[3] / "docs/archive.md"


@pytest.mark.usefixtures("spark")
def test_example_archives_publishes_verifies_and_replays(kafka: Broker, tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    program = found[1].replace("127.0.0.1:9092", kafka.bootstrap)
    program = program.replace("/tmp/fleet", str(tmp_path))
    kafka.create_topics({"trucks": 3, "alerts": 3, "again": 3})
    kafka.produce("trucks", [Row(str(speed), key=f"truck-{speed % 7}") for speed in range(100)])

    exec(compile(program, str(PAGE), "exec"), {})

    assert sorted(it.text or "" for it in kafka.records("alerts")) == [
        f"too fast: {speed}" for speed in range(81, 100)
    ]
    lake, broker = str(tmp_path / "lake"), ["--bootstrap", kafka.bootstrap]
    assert main(["pipeline", "verify", lake, "--complete", *broker]) == 0
    assert main(["pipeline", "replay", lake, "trucks", "--to", "again", *broker]) == 0
    for partition in range(3):
        before = kafka.records("trucks", partition=partition)
        after = kafka.records("again", partition=partition)
        assert [(it.key, it.value, it.timestamp_ms) for it in before] == [
            (it.key, it.value, it.timestamp_ms) for it in after
        ]
