"""Where the command begins; what a start needs is asked for before anything is imported."""

from __future__ import annotations

import sys

from pykbroker.cli.read_ahead import read_ahead

TYPE_CHECKING = False  # `typing` comes from the disk, too: after it was asked for
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; whatever goes wrong is one line on stderr, never a traceback."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] == "serve" or given[0].startswith("-"):
        read_ahead()
    from pykbroker.cli.run import run_command  # noqa: PLC0415  # as above

    return run_command(given)
