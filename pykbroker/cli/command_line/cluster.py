"""`pykbroker cluster …` and `pykbroker api-versions`: show brokers and their APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.parser import (
    add_bootstrap,
    add_connection_options,
    add_json,
    add_timeout,
)
from pykbroker.cli.command_line.values import natural, seconds

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import Commands

SHOWN_DEFAULT = 50
TIMEOUT_SECONDS = 5


def declare(commands: Commands) -> None:
    cluster = commands.add_group(
        "cluster", brief="Show brokers, controller and features of the cluster"
    )
    declare_describe(cluster)
    api_versions = commands.add(
        "api-versions",
        run="cluster.api_versions:api_versions",
        brief="Show the APIs and versions that a broker supports",
        examples=("pykbroker api-versions --json",),
    )
    add_connection_options(api_versions)


def declare_describe(cluster: Commands) -> None:
    describe = cluster.add(
        "describe",
        run="cluster.describe:describe",
        brief="Show brokers, quorum and partitions, those with problems first",
        examples=(
            "pykbroker cluster describe --bootstrap 127.0.0.1:9092",
            "pykbroker cluster describe --watch --topic trucks",
        ),
    )
    describe.add_argument(
        "--topic",
        metavar="TOPIC",
        action="append",
        default=[],
        dest="topics",
        help="Show only partitions of this topic (repeatable, default: all topics)",
    )
    describe.add_argument(
        "--limit",
        metavar="N",
        type=natural,
        default=SHOWN_DEFAULT,
        dest="shown_max",
        help="Show at most N partitions with problems and N of all partitions "
        f"(default: {SHOWN_DEFAULT})",
    )
    describe.add_argument("--watch", action="store_true", help="Repeat until interrupted")
    describe.add_argument(
        "--interval",
        metavar="SECONDS",
        type=seconds,
        default=2.0,
        dest="interval_seconds",
        help="Pause of --watch in seconds (default: 2)",
    )
    group = describe.add_argument_group("Connection")
    add_bootstrap(group)
    add_timeout(group, default=TIMEOUT_SECONDS)
    add_json(describe)
