"""`pykbroker cluster …` and `pykbroker api-versions`: show brokers and their APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.parser import add_connection_options

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import Commands


def declare(commands: Commands) -> None:
    cluster = commands.add_group(
        "cluster", brief="Show brokers, controller and features of the cluster"
    )
    describe = cluster.add(
        "describe",
        run="cluster:describe",
        brief="Show brokers, controller, features and disk usage of the cluster",
        examples=("pykbroker cluster describe --bootstrap 127.0.0.1:9092",),
    )
    add_connection_options(describe)
    api_versions = commands.add(
        "api-versions",
        run="cluster:api_versions",
        brief="Show the APIs and versions that a broker supports",
        examples=("pykbroker api-versions --json",),
    )
    add_connection_options(api_versions)
