"""A client in a process of its own, so that the broker's cost and the client's do not mix."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

CLIENT_TIMEOUT_SECONDS = 600.0


class ClientFailedError(RuntimeError):
    """A client did not do its work; the message is what it said."""


def run_client(module: str, *arguments: object) -> dict[str, float]:
    """Run `benchmarks.clients.<module>` to its end and return the numbers it prints."""
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
    """A client that works until it is told to stop; then its numbers are here."""

    numbers: dict[str, float] = field(default_factory=dict)


@contextmanager
def running_client(module: str, *arguments: object) -> Iterator[RunningClient]:
    """Run `benchmarks.clients.<module>` beside something else, and end its input after that."""
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
        said, complaint = process.communicate(timeout=CLIENT_TIMEOUT_SECONDS)
    finally:
        process.kill()
        process.wait()
    if process.returncode != 0:
        raise ClientFailedError(complaint.strip() or f"exit code {process.returncode}")
    client.numbers.update(json.loads(said))


def _command(module: str, arguments: tuple[object, ...]) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.clients.{module}", *map(str, arguments)]
