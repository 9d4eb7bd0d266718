"""`pykbroker pipeline verify|replay`: what is done with archives, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.values import assignment, bootstrap_default, timestamp_ms

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import CommandParser, Commands


def declare_verify(pipeline: Commands) -> None:
    verify = pipeline.add(
        "verify",
        run="pipeline.archives:verify",
        brief="prove that an archive has no gap and no record twice, and say how far it reaches",
        about="prove that an archive has no gap and no record twice, and say how far it goes.\n\n"
        "With a broker, each gap is looked at: markers of transactions, compacted records and\n"
        "those taken back are none. Exit codes: 0 proved, 1 a gap, a double or an unfinished\n"
        "batch, 3 nothing wrong was found, but not all could be proved",
        subject=("path",),
        examples=(
            "pykbroker pipeline verify /data/archive --bootstrap 127.0.0.1:9092",
            "pykbroker pipeline verify fleet.toml --complete",
        ),
    )
    verify.add_argument(
        "path", metavar="DIR", help="an archive, or the TOML file of a pipeline that has some"
    )
    verify.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        help="a broker to ask what it has (default: the pipeline's; none for a directory)",
    )
    add_client_properties(verify)
    verify.add_argument(
        "--from-first-archived",
        action="store_true",
        help="do not ask for records before the first archived one of a partition",
    )
    verify.add_argument(
        "--complete", action="store_true", help="fail if the archive is behind its topics"
    )
    verify.add_argument(
        "--directory",
        metavar="DIR",
        help="where relative paths of a pipeline begin (default: where its file is)",
    )
    verify.add_argument("--json", action="store_true", help="print JSON for programs")


def declare_replay(pipeline: Commands) -> None:
    replay = pipeline.add(
        "replay",
        run="pipeline.archives:replay",
        brief="bring archived records back into a topic, each once",
        about="bring archived records back into a topic, each once.\n\n"
        "Keys, headers, partitions, order and timestamps are as they were; headers replay.topic,\n"
        "replay.partition, replay.offset and replay.timestamp tell where a record was. A replay\n"
        "that was broken off goes on when it is called again; one that is done does nothing",
        subject=("archive",),
        examples=(
            "pykbroker pipeline replay /data/archive trucks --to trucks-again",
            "pykbroker pipeline replay /data/archive trucks --to test --since 2026-11-18T12:00Z",
        ),
    )
    replay.add_argument("archive", metavar="DIR", help="the archive")
    replay.add_argument("topic", metavar="TOPIC", help="the archived topic")
    replay.add_argument("--to", metavar="TOPIC", required=True, help="the topic to write to")
    replay.add_argument(
        "--name",
        metavar="NAME",
        help="what goes on under this name; another name begins anew (default: the topic's)",
    )
    for option, text in (("--since", "not older than this"), ("--until", "older than this")):
        replay.add_argument(
            option,
            metavar="TIME",
            type=timestamp_ms,
            help=f"only records {text}, as 2026-11-18T12:30 or @1795000000000",
        )
    replay.add_argument(
        "--no-place-headers",
        action="store_false",
        dest="has_place_headers",
        help="do not add headers with the original place",
    )
    replay.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        default=bootstrap_default(),
        help="a broker of the cluster, or several with commas between "
        "(default: $PYKBROKER_BOOTSTRAP or 127.0.0.1:9092)",
    )
    add_client_properties(replay)
    replay.add_argument("--json", action="store_true", help="print JSON for programs")


def add_client_properties(command: CommandParser) -> None:
    command.add_argument(
        "--property",
        metavar="KEY=VALUE",
        type=assignment,
        action="append",
        default=[],
        dest="properties",
        help="a property of librdkafka, as security.protocol=SASL_SSL; may be repeated",
    )
