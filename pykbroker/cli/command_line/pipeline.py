"""`pykbroker pipeline …`: Spark pipelines on topics, and their archives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykbroker.cli.command_line.archives import declare_replay, declare_verify
from pykbroker.cli.command_line.declared_pipelines import (
    declare_explain,
    declare_run,
    declare_status,
)
from pykbroker.cli.command_line.parser import add_json
from pykbroker.cli.command_line.values import name_list

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.cli.command_line.parser import CommandParser, Commands

OPTIONAL_JARS = ("avro", "delta")


def declare(commands: Commands) -> None:
    pipeline = commands.add_group(
        "pipeline", brief="Run Spark pipelines on topics and work with their archives"
    )
    for declare_command in DECLARED_BELOW:
        declare_command(pipeline)


def declare_doctor(pipeline: Commands) -> None:
    doctor = pipeline.add(
        "doctor",
        run="pipeline.spark:doctor",
        brief="Check whether Spark can run on this machine",
        examples=("pykbroker pipeline doctor", "pykbroker pipeline doctor --with delta --json"),
    )
    add_optional_jars(doctor, "Also check the jars of")
    add_json(doctor)


def declare_jars(pipeline: Commands) -> None:
    jars = pipeline.add(
        "jars",
        run="pipeline.spark:jars",
        requires=("pyspark",),
        brief="Download the jars of Spark's Kafka connector and print their paths",
        about="Download the jars of Spark's Kafka connector and print their paths.\n\n"
        "Sources, in this order: the directory $PYKBROKER_SPARK_JARS, the cache in the\n"
        "home directory, Maven, and the Ivy that is included in Spark.",
        examples=(
            "pykbroker pipeline jars",
            "pykbroker pipeline jars --with avro,delta",
            "spark-submit --jars $(pykbroker pipeline jars --commas) my_job.py",
        ),
    )
    add_optional_jars(jars, "Also download the jars of")
    jars.add_argument(
        "--token-provider",
        metavar="VERSION",
        help="Version of spark-token-provider-kafka, if the repository lacks that of this Spark",
    )
    how = jars.add_mutually_exclusive_group()
    how.add_argument(
        "--commas", action="store_true", help="Print one comma-separated line for spark-submit"
    )
    add_json(how)


def add_optional_jars(command: CommandParser, text: str) -> None:
    command.add_argument(
        "--with",
        metavar="NAMES",
        type=name_list(OPTIONAL_JARS),
        default=(),
        dest="optional_jars",
        help=f"{text} {' or '.join(OPTIONAL_JARS)}, or both, separated by a comma",
    )


DECLARED_BELOW: Final[tuple[Callable[[Commands], None], ...]] = (
    declare_doctor,
    declare_jars,
    declare_run,
    declare_status,
    declare_explain,
    declare_verify,
    declare_replay,
)
"""The subcommands of `pykbroker pipeline`, in the order of the help."""
