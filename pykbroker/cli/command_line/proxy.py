"""`pykbroker proxy`: records what clients and a cluster say to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.values import concrete_address

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import Commands

ABOUT = """\
Stand between clients and a Kafka cluster and record every request and answer, to be played back
by `Broker(replay=FILE)` in tests.

When it is there it prints one line: pykbroker proxy ready bootstrap=127.0.0.1:9092.
Each broker of the cluster gets an address of its own here, and clients are told these.
SIGTERM and SIGINT end it"""


def declare(commands: Commands) -> None:
    proxy = commands.add(
        "proxy",
        run="proxy:record",
        brief="record a session with any Kafka",
        about=ABOUT,
        examples=("pykbroker proxy --record session.jsonl --upstream kafka:9092",),
    )
    proxy.add_argument(
        "--record", metavar="FILE", required=True, help="where to; what is there is replaced"
    )
    proxy.add_argument(
        "--upstream",
        metavar="HOST:PORT",
        required=True,
        help="a broker of the cluster, or several with commas between",
    )
    proxy.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=concrete_address,
        default="127.0.0.1:0",
        help="where clients find the first of them; port 0 picks a free one (default: "
        "127.0.0.1:0). The others listen on the same host",
    )
