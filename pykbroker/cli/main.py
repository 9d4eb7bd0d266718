"""The entry point `main`. Starts the read-ahead of files before it imports other modules."""

from __future__ import annotations

import sys

from pykbroker.cli.read_ahead import read_ahead

TYPE_CHECKING = False  # importing `typing` would read a file before the read-ahead
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] == "serve" or given[0].startswith("-"):
        read_ahead()
    from pykbroker.cli.run import run_command  # noqa: PLC0415  # as above

    return run_command(given)
