"""`pykbroker produce` and `pykbroker consume`: records in, records out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.parser import add_connection_options
from pykbroker.cli.command_line.values import (
    Anchor,
    Place,
    assignment,
    natural,
    place,
    positive,
    separator,
    timestamp_ms,
)

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import CommandParser, Commands

PRODUCE_ABOUT = """\
Write records to a topic: one for each value given, or for each line of standard input.

A record with a key goes where Java's producer would put it; one without goes anywhere.
With --json-lines a line is an object: {"key": ..., "value": ..., "headers": {...},
"partition": ..., "timestamp": ...}. `consume --format json` prints lines of this kind"""

CONSUME_ABOUT = """\
Read the records of a topic, up to its present end or, with --follow, for ever.

--from takes: beginning, end, an offset (1200), the last N of each partition (-10),
or a time (2026-11-18T12:30, or @ and milliseconds since 1970).
With --group it counts for partitions of which the group has committed nothing yet.
--format takes: text, json (one object a line), or a template of {topic} {partition}
{offset} {timestamp} {time} {key} {value} {headers}"""


def declare(commands: Commands) -> None:
    declare_produce(commands)
    declare_consume(commands)


def declare_produce(commands: Commands) -> None:
    produce = commands.add(
        "produce",
        run="produce:produce",
        subject=("topic",),
        brief="write records to a topic",
        about=PRODUCE_ABOUT,
        examples=(
            "pykbroker produce trucks --key truck-17 'at the depot'",
            "pykbroker produce trucks --key-separator : < positions.txt",
        ),
    )
    produce.add_argument("topic", metavar="TOPIC")
    produce.add_argument("values", metavar="VALUE", nargs="*", default=[], help="values to write")
    add_record_options(produce)
    add_delivery_options(produce)
    add_connection_options(produce)


def add_record_options(produce: CommandParser) -> None:
    group = produce.add_argument_group("records")
    keys = group.add_mutually_exclusive_group()
    keys.add_argument("--key", metavar="KEY", help="the key of every record")
    keys.add_argument(
        "--key-separator",
        metavar="SEP",
        type=separator,
        help=r"what stands between key and value in a line, such as : or \t",
    )
    keys.add_argument("--json-lines", action="store_true", help="lines are JSON objects")
    group.add_argument(
        "--header",
        metavar="NAME=VALUE",
        type=assignment,
        action="append",
        default=[],
        dest="headers",
        help="a header of every record; may be repeated",
    )
    group.add_argument("--null", metavar="TEXT", help="a key or value of this text is null")
    group.add_argument("--partition", metavar="N", type=natural, help="where every record goes")
    group.add_argument(
        "--timestamp", metavar="TIME", type=timestamp_ms, help="the time of every record"
    )


def add_delivery_options(produce: CommandParser) -> None:
    group = produce.add_argument_group("delivery")
    group.add_argument(
        "--compression",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        default="none",
        help="how batches are packed (default: none)",
    )
    group.add_argument(
        "--acks",
        choices=("0", "1", "all"),
        default="all",
        help="who has to have a record before it counts as written (default: all)",
    )
    group.add_argument(
        "--no-idempotence",
        action="store_true",
        help="do without the producer id that keeps a repeated batch from being written twice",
    )
    group.add_argument(
        "--batch-bytes",
        metavar="N",
        type=positive,
        default=256 * 1024,
        help="largest batch before compression (default: 262144)",
    )


def declare_consume(commands: Commands) -> None:
    consume = commands.add(
        "consume",
        run="consume:consume",
        subject=("topic",),
        brief="read the records of a topic",
        about=CONSUME_ABOUT,
        examples=(
            "pykbroker consume trucks --keys --from -10 --follow",
            "pykbroker consume trucks --group depot --follow",
            "pykbroker consume trucks --format '{partition}/{offset} {time} {key}: {value}'",
        ),
    )
    consume.add_argument("topic", metavar="TOPIC")
    add_range_options(consume)
    add_format_options(consume)
    add_connection_options(consume, json=False)


def add_range_options(consume: CommandParser) -> None:
    group = consume.add_argument_group("which records")
    group.add_argument(
        "--from",
        metavar="PLACE",
        type=place,
        default=Place(Anchor.BEGINNING),
        dest="begin",
        help="where to begin (default: beginning)",
    )
    group.add_argument(
        "--partition",
        metavar="N",
        type=natural,
        action="append",
        dest="partitions",
        help="read this partition alone; may be repeated",
    )
    group.add_argument(
        "--group",
        metavar="GROUP",
        help="read as a member of this group: on from where it is, sharing with other members",
    )
    group.add_argument("--follow", action="store_true", help="wait for records to come")
    group.add_argument("--max", metavar="N", type=positive, help="end after so many records")
    group.add_argument(
        "--isolation",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="whether records of open and aborted transactions are shown (default: they are)",
    )


def add_format_options(consume: CommandParser) -> None:
    group = consume.add_argument_group("how they look")
    group.add_argument(
        "--format",
        metavar="FORMAT",
        type=separator,
        default="text",
        help="text, json or a template (default: text)",
    )
    group.add_argument(
        "--json", action="store_const", const="json", dest="format", help="--format json"
    )
    group.add_argument("--keys", action="store_true", help="text: the key before the value")
    group.add_argument("--headers", action="store_true", help="text: the headers before that")
    group.add_argument(
        "--separator",
        metavar="SEP",
        type=separator,
        default="\t",
        help="text: what stands between them (default: a tab)",
    )
    group.add_argument(
        "--null", metavar="TEXT", default="null", help="text: what stands for null (default: null)"
    )
