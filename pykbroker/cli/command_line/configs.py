"""`pykbroker configs …`: the properties of topics, groups and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.parser import add_connection_options
from pykbroker.cli.command_line.values import assignment

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import CommandParser, Commands


def declare(commands: Commands) -> None:
    configs = commands.add_group(
        "configs", brief="show and change properties of topics, groups and brokers"
    )
    declare_describe(configs)
    declare_alter(configs)


def declare_describe(configs: Commands) -> None:
    describe = configs.add(
        "describe",
        run="configs:describe",
        subject=("kind", "name"),
        brief="show the properties that somebody has set, or all of them",
        examples=("pykbroker configs describe topic trucks --all",),
    )
    add_resource(describe)
    describe.add_argument(
        "keys", metavar="KEY", nargs="*", default=[], help="these properties alone"
    )
    describe.add_argument("--all", action="store_true", help="those at their default too")
    describe.add_argument("--explain", action="store_true", help="say what each property means")
    add_connection_options(describe)


def declare_alter(configs: Commands) -> None:
    alter = configs.add(
        "alter",
        run="configs:alter",
        subject=("kind",),
        brief="change properties while the broker runs",
        examples=("pykbroker configs alter topic trucks --set retention.ms=3600000",),
    )
    add_resource(alter)
    add_changes(alter)
    alter.add_argument("--dry-run", action="store_true", help="check, but alter nothing")
    add_connection_options(alter)


def add_resource(command: CommandParser) -> None:
    command.add_argument("kind", choices=("topic", "group", "broker"), help="of what")
    command.add_argument(
        "name",
        metavar="NAME",
        help="the topic or group, or the broker's id; `default` means all brokers",
    )


def add_changes(alter: CommandParser) -> None:
    group = alter.add_argument_group("changes, each may be repeated")
    for option, text in (
        ("--set", "give a property a value"),
        ("--append", "add to a property that is a list"),
        ("--subtract", "take from a property that is a list"),
    ):
        group.add_argument(
            option, metavar="KEY=VALUE", type=assignment, action="append", default=[], help=text
        )
    group.add_argument(
        "--unset",
        metavar="KEY",
        action="append",
        default=[],
        help="give a property its default again",
    )
