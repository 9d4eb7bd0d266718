"""`pykbroker configs …`: shows and changes properties of topics, groups and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.parser import add_connection_options
from pykbroker.cli.command_line.values import assignment

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import CommandParser, Commands


def declare(commands: Commands) -> None:
    configs = commands.add_group(
        "configs", brief="Show and change properties of topics, groups and brokers"
    )
    declare_describe(configs)
    declare_alter(configs)


def declare_describe(configs: Commands) -> None:
    describe = configs.add(
        "describe",
        run="configs:describe",
        subject=("kind", "name"),
        brief="Show properties that differ from their default, or all properties",
        examples=("pykbroker configs describe topic trucks --all",),
    )
    add_resource(describe)
    describe.add_argument(
        "keys",
        metavar="KEY",
        nargs="*",
        default=[],
        help="Property names (default: those that were set)",
    )
    describe.add_argument("--all", action="store_true", help="Include properties at their default")
    describe.add_argument(
        "--explain", action="store_true", help="Include the documentation of each property"
    )
    add_connection_options(describe)


def declare_alter(configs: Commands) -> None:
    alter = configs.add(
        "alter",
        run="configs:alter",
        subject=("kind",),
        brief="Change properties at runtime",
        examples=("pykbroker configs alter topic trucks --set retention.ms=3600000",),
    )
    add_resource(alter)
    add_changes(alter)
    alter.add_argument(
        "--dry-run", action="store_true", help="Validate the request without changing properties"
    )
    add_connection_options(alter)


def add_resource(command: CommandParser) -> None:
    command.add_argument(
        "kind",
        metavar="TYPE",
        choices=("topic", "group", "broker"),
        help="Type of the resource: topic, group or broker",
    )
    command.add_argument(
        "name",
        metavar="NAME",
        help="Topic, group or broker id; `broker default` is the default of all brokers",
    )


def add_changes(alter: CommandParser) -> None:
    group = alter.add_argument_group("Changes (repeatable)")
    for option, text in (
        ("--set", "Set a property"),
        ("--append", "Append to a property that is a list"),
        ("--subtract", "Remove from a property that is a list"),
    ):
        group.add_argument(
            option, metavar="KEY=VALUE", type=assignment, action="append", default=[], help=text
        )
    group.add_argument(
        "--unset",
        metavar="KEY",
        action="append",
        default=[],
        help="Reset a property to its default",
    )
