"""Background clients, latencies and CPU time of process trees."""

import os
import subprocess
import sys
from array import array

import pytest

from benchmarks.client_process import ClientFailedError, running_client
from benchmarks.clients.steady_produce import numbers
from benchmarks.process_usage import cpu_seconds

BUSY = "import time; ends = time.process_time() + 0.3\nwhile time.process_time() < ends: pass"


def test_latencies_are_reported_as_quantiles() -> None:
    found = numbers(array("q", [3_000_000, *[1_000_000] * 97, 2_000_000, 9_000_000]))
    assert found == {
        "requests": 100,
        "p50_us": 1000,
        "p99_us": 9000,
        "p999_us": 9000,
        "max_us": 9000,
    }


def test_error_of_a_background_client_is_raised() -> None:
    with (
        pytest.raises(ClientFailedError, match="refused"),
        running_client("steady_produce", 1, "topic", 1),
    ):
        pass


def test_cpu_time_includes_running_and_ended_children() -> None:
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
