"""`pykbroker health`: a health check of one broker, for containers and supervisors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.parser import add_timeout
from pykbroker.cli.command_line.values import bootstrap_default, natural

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import Commands

ABOUT = """\
Check that a broker responds and that all its partitions have a leader.

In a cluster, only partitions with a replica on this broker are checked.

Exit codes: 0 healthy; 1 unhealthy or unreachable, with the reason on stderr;
2 wrong usage."""


def declare(commands: Commands) -> None:
    health = commands.add(
        "health",
        run="health:check",
        brief="Check whether a broker is healthy",
        about=ABOUT,
        examples=("pykbroker health --bootstrap 127.0.0.1:9092 --timeout 2",),
    )
    health.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        default=bootstrap_default(),
        help="Address of the broker (default: $PYKBROKER_BOOTSTRAP or 127.0.0.1:9092)",
    )
    health.add_argument(
        "--node-id",
        metavar="N",
        type=natural,
        help="Node id, if --bootstrap is not an advertised address",
    )
    add_timeout(health, default=5)
