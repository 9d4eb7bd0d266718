"""`pykbroker health`: whether a broker serves, for whoever restarts it if not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.values import bootstrap_default, natural, seconds

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import Commands

ABOUT = """\
Tell whether a broker serves and every partition on it has a leader.

Exit code 0 and one line if so, exit code 1 and the reason if not: the health check of a container.
Asked of one broker of several, it looks at the partitions of that broker"""


def declare(commands: Commands) -> None:
    health = commands.add(
        "health",
        run="health:check",
        brief="tell whether a broker serves (exit code 0 or 1)",
        about=ABOUT,
        examples=("pykbroker health --bootstrap 127.0.0.1:9092 --timeout 2",),
    )
    health.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        default=bootstrap_default(),
        help="the broker (default: $PYKBROKER_BOOTSTRAP or 127.0.0.1:9092)",
    )
    health.add_argument(
        "--node-id",
        metavar="N",
        type=natural,
        help="which node it is, where its address does not tell",
    )
    health.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=5.0,
        dest="timeout_s",
        help="how long to wait for any answer (default: 5)",
    )
