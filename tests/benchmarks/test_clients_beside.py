"""Clients that run beside something else, and what a broker's processes cost together."""

import os
import subprocess
import sys
from array import array

import pytest

from benchmarks.client_process import ClientFailedError, running_client
from benchmarks.clients.steady_produce import numbers
from benchmarks.process_usage import cpu_seconds

BUSY = "import time; ends = time.process_time() + 0.3\nwhile time.process_time() < ends: pass"


def test_latencies_are_told_by_their_quantiles() -> None:
    told = numbers(array("q", [3_000_000, *[1_000_000] * 97, 2_000_000, 9_000_000]))
    assert told == {
        "requests": 100,
        "p50_us": 1000,
        "p99_us": 9000,
        "p999_us": 9000,
        "max_us": 9000,
    }


def test_a_client_that_fails_beside_the_work_says_why() -> None:
    with (
        pytest.raises(ClientFailedError, match="refused"),
        running_client("steady_produce", 1, "topic", 1),
    ):
        pass


def test_child_processes_count_while_they_run_and_when_they_have_ended() -> None:
    before = cpu_seconds(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", BUSY + "\nprint(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert cpu_seconds(os.getpid()) - before >= 0.2
    assert cpu_seconds(os.getpid()) - before >= 0.2  # the kernel counts in ticks
