"""Runs clients in their own processes, so that broker and client CPU are measured separately."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

CLIENT_TIMEOUT_SECONDS = 600.0


class ClientFailedError(RuntimeError):
    """A client failed; the message is its standard error."""


def run_client(module: str, *arguments: object) -> dict[str, float]:
    """Runs `benchmarks.clients.<module>` to its end; returns the numbers it prints."""
    finished = subprocess.run(
        _command(module, arguments),
        check=False,
        capture_output=True,
        text=True,
        timeout=CLIENT_TIMEOUT_SECONDS,
    )
    if finished.returncode != 0:
        raise ClientFailedError(finished.stderr.strip() or f"exit code {finished.returncode}")
    numbers: dict[str, float] = json.loads(finished.stdout)
    return numbers


@dataclass(slots=True)
class RunningClient:
    """A client that runs until its input ends; it reports its numbers at the end."""

    numbers: dict[str, float] = field(default_factory=dict)


@contextmanager
def running_client(module: str, *arguments: object) -> Iterator[RunningClient]:
    """Runs `benchmarks.clients.<module>` in the background; the exit ends its input."""
    process = subprocess.Popen(
        _command(module, arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    client = RunningClient()
    try:
        yield client
        output, errors = process.communicate(timeout=CLIENT_TIMEOUT_SECONDS)
    finally:
        process.kill()
        process.wait()
    if process.returncode != 0:
        raise ClientFailedError(errors.strip() or f"exit code {process.returncode}")
    client.numbers.update(json.loads(output))


def _command(module: str, arguments: tuple[object, ...]) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.clients.{module}", *map(str, arguments)]
