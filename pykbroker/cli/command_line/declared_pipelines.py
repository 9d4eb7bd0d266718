"""`pykbroker pipeline run|status|explain FILE`: pipelines that a TOML file declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.values import seconds

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import CommandParser, Commands


def declare_run(pipeline: Commands) -> None:
    run = pipeline.add(
        "run",
        run="pipeline.run:run",
        brief="run a declared pipeline, from where it stopped",
        about="run a declared pipeline, from where it stopped.\n\n"
        "SIGTERM and Ctrl-C let the batches end that have begun; a second one does not wait",
        subject=("file",),
        examples=(
            "pykbroker pipeline run fleet.toml",
            "pykbroker pipeline run fleet.toml --once --bootstrap 127.0.0.1:9092",
            "pykbroker pipeline run fleet.toml --master spark://head:7077",
        ),
    )
    add_file(run)
    run.add_argument("--once", action="store_true", help="read what is there, then end")
    run.add_argument(
        "--master",
        metavar="ADDRESS",
        help="where Spark works: local[N], spark://HOST:PORT... (default: this machine)",
    )
    run.add_argument("--jars", metavar="DIR", help="a directory that has Spark's connector")
    add_directory(run)
    add_bootstrap(run)
    run.add_argument("--json", action="store_true", help="print each batch as a line of JSON")


def declare_status(pipeline: Commands) -> None:
    status = pipeline.add(
        "status",
        run="pipeline.status:status",
        brief="show how far each query of a declared pipeline is, and its lag",
        subject=("file",),
        examples=("pykbroker pipeline status fleet.toml",),
    )
    add_file(status)
    add_directory(status)
    add_bootstrap(status)
    status.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=30.0,
        dest="timeout_s",
        help="how long to wait for any answer (default: 30)",
    )
    status.add_argument("--json", action="store_true", help="print JSON for programs")


def declare_explain(pipeline: Commands) -> None:
    explain = pipeline.add(
        "explain",
        run="pipeline.explain:explain",
        brief="draw a declared pipeline as a page for the browser",
        subject=("file",),
        examples=("pykbroker pipeline explain fleet.toml --output fleet.html",),
    )
    add_file(explain)
    explain.add_argument("--output", metavar="FILE", help="write the page here (default: stdout)")


def add_file(command: CommandParser) -> None:
    command.add_argument("file", metavar="FILE", help="the declaration, in TOML")


def add_directory(command: CommandParser) -> None:
    command.add_argument(
        "--directory",
        metavar="DIR",
        help="where relative paths of the declaration begin (default: where FILE is)",
    )


def add_bootstrap(command: CommandParser) -> None:
    command.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        help="a broker of the cluster, or several with commas between (default: as declared)",
    )
