"""`pykbroker pipeline …`: Spark between topics, archives and topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykbroker.cli.command_line.archives import declare_replay, declare_verify
from pykbroker.cli.command_line.declared_pipelines import (
    declare_explain,
    declare_run,
    declare_status,
)
from pykbroker.cli.command_line.values import name_list

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.cli.command_line.parser import CommandParser, Commands

OPTIONAL_JARS = ("avro", "delta")


def declare(commands: Commands) -> None:
    pipeline = commands.add_group("pipeline", brief="run Spark on topics, and see that it can")
    for declare_command in DECLARED_BELOW:
        declare_command(pipeline)


def declare_doctor(pipeline: Commands) -> None:
    doctor = pipeline.add(
        "doctor",
        run="pipeline.doctor:doctor",
        brief="say whether Spark can run here, and what is missing if not",
        examples=("pykbroker pipeline doctor", "pykbroker pipeline doctor --with delta --json"),
    )
    add_optional_jars(doctor, "see that these are there too")
    doctor.add_argument("--json", action="store_true", help="print JSON for programs")


def declare_jars(pipeline: Commands) -> None:
    jars = pipeline.add(
        "jars",
        run="pipeline.jars:jars",
        brief="fetch what Spark lacks to read and write topics, and print where it lies",
        about="fetch what Spark lacks to read and write topics, and print where it lies.\n\n"
        "A directory named by $PYKBROKER_SPARK_JARS comes first, then the cache in your home\n"
        "directory, then Maven, then the Ivy that Spark brings along",
        examples=(
            "pykbroker pipeline jars",
            "pykbroker pipeline jars --with avro,delta",
            "spark-submit --jars $(pykbroker pipeline jars --commas) my_job.py",
        ),
    )
    add_optional_jars(jars, "fetch these too")
    jars.add_argument(
        "--token-provider",
        metavar="VERSION",
        help="take this version of spark-token-provider-kafka, where yours lacks its own",
    )
    how = jars.add_mutually_exclusive_group()
    how.add_argument("--commas", action="store_true", help="print one line, for spark-submit")
    how.add_argument("--json", action="store_true", help="print JSON for programs")


def add_optional_jars(command: CommandParser, text: str) -> None:
    command.add_argument(
        "--with",
        metavar="NAMES",
        type=name_list(OPTIONAL_JARS),
        default=(),
        dest="optional_jars",
        help=f"{text}: {' or '.join(OPTIONAL_JARS)}, or both with a comma between",
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
"""The words after `pykbroker pipeline`, in the order in which the help shows them."""
