"""`pykbroker serve`: starts a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.values import (
    address,
    assignment,
    loopback_address,
    natural,
    topic_spec,
)

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import CommandParser, Commands

ABOUT = """\
Start a broker that is also its own controller, or with --roles broker a member
of a cluster. Data is stored in ./pykbroker-data.

Prints one line when ready: pykbroker ready bootstrap=127.0.0.1:9092 node=1 ...
SIGTERM or SIGINT shuts down cleanly; a second signal exits immediately."""

EXAMPLES = (
    "pykbroker serve --listen 127.0.0.1:9092 --topic trucks:10",
    "pykbroker serve --ephemeral --listen 127.0.0.1:0 --port-file port.txt",
    "pykbroker serve --config server.properties --set log.retention.hours=24",
    "pykbroker serve --ephemeral --control 127.0.0.1:9099",
    "pykbroker serve --roles broker --node-id 4 --controllers 127.0.0.1:19093",
)


def declare(commands: Commands) -> None:
    serve = commands.add(
        "serve", run="serve:serve", brief="Start a broker", about=ABOUT, examples=EXAMPLES
    )
    add_network_options(serve)
    add_cluster_options(serve)
    add_property_options(serve)
    add_logging_options(serve)


def add_network_options(serve: CommandParser) -> None:
    group = serve.add_argument_group("Network and storage")
    group.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=address,
        help="Address to listen on; port 0 selects a free port (default: 127.0.0.1:9092)",
    )
    group.add_argument(
        "--advertise",
        metavar="HOST:PORT",
        type=address,
        help="Address that clients connect to (default: the listen address)",
    )
    data = group.add_mutually_exclusive_group()
    data.add_argument("--data", metavar="DIR", help="Data directory (default: ./pykbroker-data)")
    data.add_argument(
        "--ephemeral",
        action="store_true",
        help="Store data in a temporary directory that is deleted at exit",
    )
    group.add_argument("--node-id", metavar="N", type=natural, help="Node id (default: 1)")
    group.add_argument("--rack", metavar="R", help="Rack of this broker")


def add_cluster_options(serve: CommandParser) -> None:
    group = serve.add_argument_group("Cluster")
    group.add_argument(
        "--roles",
        metavar="ROLES",
        help="broker joins the controllers of other processes; broker,controller is a cluster of "
        "one node (default: broker,controller)",
    )
    group.add_argument(
        "--controllers",
        metavar="HOST:PORT,...",
        help="Addresses of the controllers, for --roles broker",
    )
    group.add_argument(
        "--cluster-id",
        metavar="ID",
        help="Refuse to start in any other cluster (default: that of the data directory, or of "
        "the controllers)",
    )
    group.add_argument(
        "--guest",
        action="store_true",
        help="For --roles broker: cordon the data directory, so that the controller places no "
        "partitions here by itself",
    )


def add_property_options(serve: CommandParser) -> None:
    group = serve.add_argument_group("Topics and properties")
    group.add_argument(
        "--topic",
        metavar="NAME[:PARTITIONS[:REPLICAS]]",
        type=topic_spec,
        action="append",
        default=[],
        dest="topics",
        help="Create this topic at startup if it does not exist (repeatable)",
    )
    group.add_argument(
        "--set",
        metavar="KEY=VALUE",
        type=assignment,
        action="append",
        default=[],
        dest="settings",
        help="Set a Kafka property; overrides --config (repeatable)",
    )
    group.add_argument(
        "--as-version",
        metavar="VERSION",
        help="Advertise the APIs and versions of this Apache Kafka release, such as 2.8 "
        "(default: all supported)",
    )
    group.add_argument("--config", metavar="FILE", help="Read Kafka properties from FILE")


def add_logging_options(serve: CommandParser) -> None:
    group = serve.add_argument_group("Logging and control")
    group.add_argument(
        "--log-level",
        metavar="LEVEL",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="Minimum level logged to stderr: debug, info, warning or error (default: info)",
    )
    group.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="Log as text or as JSON (default: text)",
    )
    group.add_argument(
        "--port-file",
        metavar="FILE",
        help="Write the bound port to FILE once the broker accepts connections",
    )
    group.add_argument(
        "--control",
        metavar="HOST:PORT",
        type=loopback_address,
        help="For tests: open an HTTP port on a loopback address for `pykbroker control`, which "
        "injects faults and moves the clock; disables flushing to disk (default: off)",
    )
