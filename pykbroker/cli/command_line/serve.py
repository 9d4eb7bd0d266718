"""`pykbroker serve`: the broker itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.values import (
    address,
    assignment,
    loopback_address,
    natural,
    topic_wish,
)

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import CommandParser, Commands

ABOUT = """\
Start a broker: one node with everything in it, its data in ./pykbroker-data.

When it serves it prints one line: pykbroker ready bootstrap=127.0.0.1:9092 node=1 ...
SIGTERM and SIGINT end it cleanly, a second one at once"""

EXAMPLES = (
    "pykbroker serve --listen 127.0.0.1:9092 --topic trucks:10",
    "pykbroker serve --ephemeral --listen 127.0.0.1:0 --port-file port.txt",
    "pykbroker serve --config server.properties --set log.retention.hours=24",
    "pykbroker serve --ephemeral --control 127.0.0.1:9099",
)


def declare(commands: Commands) -> None:
    serve = commands.add(
        "serve", run="serve:serve", brief="start a broker", about=ABOUT, examples=EXAMPLES
    )
    add_place_options(serve)
    add_setting_options(serve)
    add_operation_options(serve)


def add_place_options(serve: CommandParser) -> None:
    group = serve.add_argument_group("where it lives")
    group.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=address,
        help="where to listen; port 0 picks a free one (default: 127.0.0.1:9092)",
    )
    group.add_argument(
        "--advertise",
        metavar="HOST:PORT",
        type=address,
        help="where clients find this broker, if not where it listens",
    )
    data = group.add_mutually_exclusive_group()
    data.add_argument(
        "--data", metavar="DIR", help="where the data lives (default: ./pykbroker-data)"
    )
    data.add_argument(
        "--ephemeral", action="store_true", help="a temporary data directory, gone at exit"
    )
    group.add_argument("--node-id", metavar="N", type=natural, help="this node's id (default: 1)")
    group.add_argument("--rack", metavar="R", help="this node's rack")


def add_setting_options(serve: CommandParser) -> None:
    group = serve.add_argument_group("what it is told")
    group.add_argument(
        "--topic",
        metavar="NAME[:PARTITIONS[:REPLICAS]]",
        type=topic_wish,
        action="append",
        default=[],
        dest="topics",
        help="a topic that shall exist; may be repeated",
    )
    group.add_argument(
        "--set",
        metavar="KEY=VALUE",
        type=assignment,
        action="append",
        default=[],
        dest="settings",
        help="one of Kafka's properties; may be repeated, stronger than --config",
    )
    group.add_argument(
        "--as-version",
        metavar="VERSION",
        help="look to clients like this release of Apache Kafka, such as 2.8: its APIs and "
        "versions, as far as they are served (default: the newest)",
    )
    group.add_argument("--config", metavar="FILE", help="a file of Kafka's properties")


def add_operation_options(serve: CommandParser) -> None:
    group = serve.add_argument_group("how it is run")
    group.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="what is worth a line on stderr (default: info)",
    )
    group.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="lines for people or for programs (default: text)",
    )
    group.add_argument(
        "--port-file", metavar="FILE", help="write the port here as soon as it is open"
    )
    group.add_argument(
        "--control",
        metavar="HOST:PORT",
        type=loopback_address,
        help="for tests: a port of this machine for `pykbroker control`, which makes this broker "
        "fail and moves its time; nothing is flushed to the disk then (default: none)",
    )
