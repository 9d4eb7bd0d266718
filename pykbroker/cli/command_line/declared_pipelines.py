"""`pykbroker pipeline run|status|explain FILE`: commands for pipeline files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.parser import add_json, add_timeout

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import CommandParser, Commands


def declare_run(pipeline: Commands) -> None:
    run = pipeline.add(
        "run",
        run="pipeline.spark:run",
        requires=("pyspark",),
        brief="Run a pipeline, resuming at its checkpoints",
        about="Run a pipeline, resuming at its checkpoints.\n\n"
        "SIGTERM or Ctrl-C finishes the running batches and exits;\n"
        "a second signal exits immediately.",
        subject=("file",),
        examples=(
            "pykbroker pipeline run fleet.toml",
            "pykbroker pipeline run fleet.toml --once --bootstrap 127.0.0.1:9092",
            "pykbroker pipeline run fleet.toml --master spark://head:7077",
        ),
    )
    add_file(run)
    run.add_argument("--once", action="store_true", help="Process all available records, then exit")
    run.add_argument(
        "--master",
        metavar="ADDRESS",
        help="Spark master: local[N], spark://HOST:PORT, … (default: this machine)",
    )
    run.add_argument(
        "--jars", metavar="DIR", help="Directory with the jars of the Kafka connector for Spark"
    )
    add_directory(run)
    add_bootstrap(run)
    run.add_argument("--json", action="store_true", help="Print each batch as a line of JSON")


def declare_status(pipeline: Commands) -> None:
    status = pipeline.add(
        "status",
        run="pipeline.status:status",
        brief="Show the progress and lag of each query of a pipeline",
        subject=("file",),
        examples=("pykbroker pipeline status fleet.toml",),
    )
    add_file(status)
    add_directory(status)
    add_bootstrap(status)
    add_timeout(status)
    add_json(status)


def declare_explain(pipeline: Commands) -> None:
    explain = pipeline.add(
        "explain",
        run="pipeline.pipeline_file:explain",
        brief="Draw a pipeline as an HTML page",
        subject=("file",),
        examples=("pykbroker pipeline explain fleet.toml --output fleet.html",),
    )
    add_file(explain)
    explain.add_argument(
        "--output", metavar="FILE", help="Write the page to FILE (default: stdout)"
    )


def add_file(command: CommandParser) -> None:
    command.add_argument("file", metavar="FILE", help="Pipeline file (TOML)")


def add_directory(command: CommandParser) -> None:
    command.add_argument(
        "--directory",
        metavar="DIR",
        help="Base directory of relative paths in FILE (default: directory of FILE)",
    )


def add_bootstrap(command: CommandParser) -> None:
    command.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        help="Bootstrap brokers, separated by commas (default: those of FILE)",
    )
