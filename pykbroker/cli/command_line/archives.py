"""`pykbroker pipeline verify|replay`: commands for archives; they do not need Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.parser import add_bootstrap, add_json
from pykbroker.cli.command_line.values import assignment, timestamp_ms

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import CommandParser, Commands

PACKAGES = ("pyarrow", "confluent-kafka")

VERIFY_ABOUT = """\
Verify that an archive has no gaps and no duplicate records.

With --bootstrap, each gap is compared with the topic: transaction markers,
compacted records and aborted records are not reported.

Exit codes: 0 verified; 1 gap, duplicate or unfinished batch; 3 no error found,
but not everything could be verified."""

REPLAY_ABOUT = """\
Write archived records to a topic, exactly once.

Keys, headers, partitions, order and timestamps are kept. The headers
replay.topic, replay.partition, replay.offset and replay.timestamp contain the
original values. An interrupted replay resumes when it is started again; a
finished one does nothing."""


def declare_verify(pipeline: Commands) -> None:
    verify = pipeline.add(
        "verify",
        run="pipeline.archives:verify",
        brief="Verify that an archive has no gaps and no duplicate records",
        about=VERIFY_ABOUT,
        subject=("path",),
        requires=PACKAGES,
        examples=(
            "pykbroker pipeline verify archive --bootstrap 127.0.0.1:9092",
            "pykbroker pipeline verify fleet.toml --complete",
        ),
    )
    verify.add_argument(
        "path",
        metavar="DIR",
        help="Archive directory, or the TOML file of a pipeline with archives",
    )
    verify.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        help="Bootstrap brokers to compare the archive with (default: those of the pipeline; "
        "none for a directory)",
    )
    add_client_properties(verify)
    verify.add_argument(
        "--from-first-archived",
        action="store_true",
        help="Accept a missing start: verify each partition from its first archived record",
    )
    verify.add_argument(
        "--complete", action="store_true", help="Exit with 1 if the archive is behind its topics"
    )
    verify.add_argument(
        "--directory",
        metavar="DIR",
        help="Base directory of relative paths in the file (default: directory of the file)",
    )
    add_json(verify)


def declare_replay(pipeline: Commands) -> None:
    replay = pipeline.add(
        "replay",
        run="pipeline.archives:replay",
        brief="Write archived records to a topic, exactly once",
        about=REPLAY_ABOUT,
        subject=("archive",),
        requires=PACKAGES,
        examples=(
            "pykbroker pipeline replay archive trucks --to trucks-again",
            "pykbroker pipeline replay archive trucks --to test --since 2026-11-18T12:00",
        ),
    )
    replay.add_argument("archive", metavar="DIR", help="Archive directory")
    replay.add_argument("topic", metavar="TOPIC", help="Archived topic")
    replay.add_argument("--to", metavar="TOPIC", required=True, help="Topic to write to")
    replay.add_argument(
        "--name",
        metavar="NAME",
        help="Name under which progress is stored; a new name starts again (default: TOPIC)",
    )
    for option, text in (("--since", "at or after"), ("--until", "before")):
        replay.add_argument(
            option,
            metavar="TIME",
            type=timestamp_ms,
            help=f"Write only records {text} TIME, such as 2026-11-18T12:30 or @1795000000000",
        )
    replay.add_argument(
        "--no-place-headers",
        action="store_false",
        dest="has_place_headers",
        help="Do not add headers with the original topic, partition, offset and timestamp",
    )
    add_bootstrap(replay)
    add_client_properties(replay)
    add_json(replay)


def add_client_properties(command: CommandParser) -> None:
    command.add_argument(
        "--property",
        metavar="KEY=VALUE",
        type=assignment,
        action="append",
        default=[],
        dest="properties",
        help="Set a librdkafka property, such as security.protocol=SASL_SSL (repeatable)",
    )
