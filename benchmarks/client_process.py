"""A client in a process of its own, so that the broker's cost and the client's do not mix."""

import json
import subprocess
import sys

CLIENT_TIMEOUT_SECONDS = 600.0


class ClientFailedError(RuntimeError):
    """A client did not do its work; the message is what it said."""


def run_client(module: str, *arguments: object) -> dict[str, float]:
    """Run `benchmarks.clients.<module>` to its end and return the numbers it prints."""
    command = [sys.executable, "-m", f"benchmarks.clients.{module}", *map(str, arguments)]
    finished = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_SECONDS
    )
    if finished.returncode != 0:
        raise ClientFailedError(finished.stderr.strip() or f"exit code {finished.returncode}")
    numbers: dict[str, float] = json.loads(finished.stdout)
    return numbers
