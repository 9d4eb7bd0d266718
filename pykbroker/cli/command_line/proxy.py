"""`pykbroker proxy`: records the traffic between clients and a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.values import concrete_address

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import Commands

ABOUT = """\
Record all requests and responses between clients and a Kafka cluster.
`Broker(replay=FILE)` replays the recording in tests.

Prints one line when ready: pykbroker proxy ready bootstrap=127.0.0.1:9092
The proxy listens on one port per broker of the cluster and advertises these
addresses to clients. SIGTERM or SIGINT stops it."""


def declare(commands: Commands) -> None:
    proxy = commands.add(
        "proxy",
        run="proxy:record",
        brief="Record the traffic between clients and a Kafka cluster",
        about=ABOUT,
        examples=("pykbroker proxy --record session.jsonl --upstream kafka:9092",),
    )
    proxy.add_argument(
        "--record", metavar="FILE", required=True, help="Write to FILE; overwrites it"
    )
    proxy.add_argument(
        "--upstream",
        metavar="HOST:PORT",
        required=True,
        help="Bootstrap brokers of the cluster, separated by commas",
    )
    proxy.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=concrete_address,
        default="127.0.0.1:0",
        help="Address for the first broker; the ports of the others are selected on the same "
        "host; port 0 selects a free port (default: 127.0.0.1:0)",
    )
