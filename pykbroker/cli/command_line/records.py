"""`pykbroker produce` and `pykbroker consume`: write and print records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.parser import add_connection_options
from pykbroker.cli.command_line.values import (
    Anchor,
    OffsetSpec,
    assignment,
    natural,
    offset_spec,
    positive,
    separator,
    timestamp_ms,
)

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import CommandParser, Commands

PRODUCE_ABOUT = """\
Write records to a topic: one per VALUE, or one per line of standard input.

Records with a key are partitioned like in the Java client (murmur2).
Records without a key are spread over all partitions.
With --json-lines, each line is an object: {"key": ..., "value": ...,
"headers": {...}, "partition": ..., "timestamp": ...}.
`consume --format json` prints records in this format."""

CONSUME_ABOUT = """\
Print records of a topic, up to its current end or continuously with --follow.

POSITION is one of:
  beginning, end    first record; end of the partition
  1200              offset
  -10               last 10 records of each partition
  2026-11-18T12:30  time, local unless it has a time zone
  @1795000000000    time in milliseconds since 1970
With --group, --from applies only to partitions without a committed offset.

FORMAT is text, json (one object per line), or a template with the fields
{topic} {partition} {offset} {timestamp} {time} {key} {value} {headers}."""


def declare(commands: Commands) -> None:
    declare_produce(commands)
    declare_consume(commands)


def declare_produce(commands: Commands) -> None:
    produce = commands.add(
        "produce",
        run="produce:produce",
        subject=("topic",),
        brief="Write records to a topic",
        about=PRODUCE_ABOUT,
        examples=(
            "pykbroker produce trucks --key truck-17 'at the depot'",
            "pykbroker produce trucks --key-separator : < positions.txt",
        ),
    )
    produce.add_argument("topic", metavar="TOPIC", help="Topic to write to")
    produce.add_argument(
        "values",
        metavar="VALUE",
        nargs="*",
        default=[],
        help="Values of the records (default: lines of standard input)",
    )
    add_record_options(produce)
    add_delivery_options(produce)
    add_connection_options(produce)


def add_record_options(produce: CommandParser) -> None:
    group = produce.add_argument_group("Records")
    keys = group.add_mutually_exclusive_group()
    keys.add_argument("--key", metavar="KEY", help="Key of all records")
    keys.add_argument(
        "--key-separator",
        metavar="SEP",
        type=separator,
        help=r"Separator between key and value in a line, such as : or \t",
    )
    keys.add_argument("--json-lines", action="store_true", help="Read lines as JSON objects")
    group.add_argument(
        "--header",
        metavar="NAME=VALUE",
        type=assignment,
        action="append",
        default=[],
        dest="headers",
        help="Add a header to all records (repeatable)",
    )
    group.add_argument(
        "--null", metavar="TEXT", help="Write null for keys and values equal to TEXT"
    )
    group.add_argument(
        "--partition", metavar="N", type=natural, help="Write all records to partition N"
    )
    group.add_argument(
        "--timestamp",
        metavar="TIME",
        type=timestamp_ms,
        help="Timestamp of all records, such as 2026-11-18T12:30 (default: current time)",
    )


def add_delivery_options(produce: CommandParser) -> None:
    group = produce.add_argument_group("Delivery")
    group.add_argument(
        "--compression",
        metavar="CODEC",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        default="none",
        help="Compression of batches: none, gzip, snappy, lz4 or zstd (default: none)",
    )
    group.add_argument(
        "--acks",
        metavar="ACKS",
        choices=("0", "1", "all"),
        default="all",
        help="Acknowledgements required: 0, 1 or all in-sync replicas (default: all)",
    )
    group.add_argument(
        "--no-idempotence",
        action="store_true",
        help="Disable the idempotent producer; retries can write duplicates",
    )
    group.add_argument(
        "--batch-bytes",
        metavar="N",
        type=positive,
        default=256 * 1024,
        help="Maximum size of a batch before compression (default: 262144)",
    )


def declare_consume(commands: Commands) -> None:
    consume = commands.add(
        "consume",
        run="consume:consume",
        subject=("topic",),
        brief="Print records of a topic",
        about=CONSUME_ABOUT,
        examples=(
            "pykbroker consume trucks --keys --from -10 --follow",
            "pykbroker consume trucks --group depot --follow",
            "pykbroker consume trucks --format '{partition}/{offset} {time} {key}: {value}'",
        ),
    )
    consume.add_argument("topic", metavar="TOPIC", help="Topic to read")
    add_range_options(consume)
    add_format_options(consume)
    add_connection_options(consume, json=False)


def add_range_options(consume: CommandParser) -> None:
    group = consume.add_argument_group("Records")
    group.add_argument(
        "--from",
        metavar="POSITION",
        type=offset_spec,
        default=OffsetSpec(Anchor.BEGINNING),
        dest="begin",
        help="Position to start at (default: beginning)",
    )
    group.add_argument(
        "--partition",
        metavar="N",
        type=natural,
        action="append",
        dest="partitions",
        help="Read only partition N (repeatable)",
    )
    group.add_argument(
        "--group",
        metavar="GROUP",
        help="Join this consumer group and start at its committed offsets",
    )
    group.add_argument(
        "--follow", action="store_true", help="Keep printing new records at the end of the topic"
    )
    group.add_argument("--max", metavar="N", type=positive, help="Exit after N records")
    group.add_argument(
        "--isolation",
        metavar="LEVEL",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="Isolation level: read_uncommitted or read_committed (default: read_uncommitted)",
    )


def add_format_options(consume: CommandParser) -> None:
    group = consume.add_argument_group("Output")
    group.add_argument(
        "--format",
        metavar="FORMAT",
        type=separator,
        default="text",
        help="text, json or a template (default: text)",
    )
    group.add_argument(
        "--json", action="store_const", const="json", dest="format", help="Same as --format json"
    )
    group.add_argument(
        "--keys", action="store_true", help="With text: print the key before the value"
    )
    group.add_argument(
        "--headers", action="store_true", help="With text: print the headers before the key"
    )
    group.add_argument(
        "--separator",
        metavar="SEP",
        type=separator,
        default="\t",
        help="With text: separator between headers, key and value (default: tab)",
    )
    group.add_argument(
        "--null",
        metavar="TEXT",
        default="null",
        help="With text: print TEXT for null keys and values (default: null)",
    )
