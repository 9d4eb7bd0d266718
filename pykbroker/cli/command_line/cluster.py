"""`pykbroker cluster …` and `pykbroker api-versions`: who is there, and what they speak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.parser import add_connection_options

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import Commands


def declare(commands: Commands) -> None:
    cluster = commands.add_group("cluster", brief="show the cluster")
    describe = cluster.add(
        "describe",
        run="cluster:describe",
        brief="show the cluster's brokers, controller, features and disks",
        examples=("pykbroker cluster describe --bootstrap 127.0.0.1:9092",),
    )
    add_connection_options(describe)
    api_versions = commands.add(
        "api-versions",
        run="cluster:api_versions",
        brief="show which requests a broker answers, in which versions",
        examples=("pykbroker api-versions --json",),
    )
    add_connection_options(api_versions)
