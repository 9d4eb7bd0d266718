"""A blocked event loop is logged with its cause."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import pykbroker.cli.loop_watch as module
from pykbroker.cli.loop_watch import LoopWatch, cause_of

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCKED_SECONDS = 0.6


@contextmanager
def watched() -> Iterator[None]:
    watch = LoopWatch()
    watch.start()
    try:
        yield
    finally:
        watch.stop()


async def turns() -> None:
    """Lets the watch begin and, after a blocked turn, log."""
    await asyncio.sleep(2 * module.INTERVAL_SECONDS)


def busy(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        hashlib.sha256(bytes(1000))


async def test_the_running_function_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OWN_PACKAGES", (__name__.partition(".")[0],))
    monkeypatch.setattr(module, "LOG_PERIOD_SECONDS", 0.0)
    with watched():
        await turns()
        busy(BLOCKED_SECONDS)
        await turns()
    line = r"event loop: blocked for \d+ ms \(.* in \S+\.busy line \d+\)"
    assert any(re.fullmatch(line, it) for it in caplog.messages), caplog.messages


async def test_a_process_that_did_not_run_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with watched():
        await turns()
        time.sleep(BLOCKED_SECONDS)  # noqa: ASYNC251  # blocks on purpose
        await turns()
    line = caplog.messages[0]
    assert "the process was paused, got no CPU, or waited for the disk" in line


async def test_repeated_lags_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with watched():
        for _ in range(3):
            await turns()
            time.sleep(BLOCKED_SECONDS)  # noqa: ASYNC251  # as above
        await turns()
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    ("lag", "cpu_seconds", "collected_seconds", "sample", "cause"),
    [
        (1.0, 1.0, 0.9, "", "garbage collection took 900 ms"),
        (1.0, 0.1, 0.0, "", "the process was paused, got no CPU, or waited for the disk"),
        (
            1.0,
            0.1,
            0.0,
            "pykbroker.f line 7",
            "the process was paused, got no CPU, or waited for the disk in pykbroker.f line 7",
        ),
        (1.0, 0.9, 0.1, "pykbroker.f line 7", "running in pykbroker.f line 7"),
        (1.0, 0.9, 0.1, "", "cause not known"),
    ],
)
def test_the_cause_follows_from_the_measurements(
    lag: float, cpu_seconds: float, collected_seconds: float, sample: str, cause: str
) -> None:
    assert cause_of(lag, cpu_seconds, collected_seconds, sample) == cause


async def test_a_stopped_watch_leaves_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    before = list(gc.callbacks)
    with watched():
        assert len(gc.callbacks) == len(before) + 1
        await turns()
    assert gc.callbacks == before
    caplog.clear()
    time.sleep(BLOCKED_SECONDS)  # noqa: ASYNC251  # as above
    await turns()
    assert not caplog.messages
