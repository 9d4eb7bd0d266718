"""The demo starts all parts with one command and removes everything at its end."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

ROOT = Path(__file__).parents[2]
ADDRESS = r"dashboard: (http://\S+)"
STOP_SECONDS_MAX = 120
EVENT_SECONDS_MAX = 60


@contextmanager
def demonstration(*arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        demo = subprocess.Popen(
            [sys.executable, "-m", "examples.fleet", "--speed", "600", *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
        )
    try:
        yield demo
    finally:
        demo.send_signal(signal.SIGINT)
        try:
            demo.wait(STOP_SECONDS_MAX)
        finally:
            demo.kill()
            demo.wait()


def wait_for_log(pattern: str, log: Path, demo: subprocess.Popen[bytes]) -> str:
    while (found := re.search(pattern, log.read_text())) is None:
        assert demo.poll() is None, log.read_text()
        time.sleep(0.05)
    return found[1]


def frames_of(url: str) -> Iterator[dict[str, Any]]:
    """Yields the events for a browser."""
    with urllib.request.urlopen(url + "events", timeout=EVENT_SECONDS_MAX) as events:
        for line in events:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


def descendants(pid: int) -> set[int]:
    """Returns all descendants of a process."""
    found: set[int] = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        if int(fields[1]) == pid:
            child = int(status.parent.name)
            found |= {child} | descendants(child)
    return found


def test_demo_runs_and_stops_with_one_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    log = tmp_path / "log"
    with demonstration("--without-pipeline", "--trucks=30", log=log) as demo:
        seen: set[str] = set()
        for frame in frames_of(wait_for_log(ADDRESS, log, demo)):
            seen |= {truck for truck, *_ in frame["trucks"]}
            if len(seen) == 30 and frame["silent"]:
                break
        parts = descendants(demo.pid)
        assert len(parts) == 4
    assert demo.returncode == 0, log.read_text()
    assert [pid for pid in parts if Path(f"/proc/{pid}").exists()] == []
    assert list(tmp_path.iterdir()) == [log]


def test_demo_stops_if_a_part_exits(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with demonstration("--without-pipeline", log=log) as demo:
        assert wait_for_log("(pipeline: not started)", log, demo)
        (simulator,) = [
            pid
            for pid in descendants(demo.pid)
            if b"simulate" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        subprocess.run(["kill", "-KILL", str(simulator)], check=True)
        assert demo.wait(STOP_SECONDS_MAX) == 1
    assert "simulator: exited with code -9" in log.read_text()
