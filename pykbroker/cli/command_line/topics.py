"""`pykbroker topics …`: manages topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.parser import add_connection_options
from pykbroker.cli.command_line.values import assignment, positive, replica_count

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import CommandParser, Commands


def declare(commands: Commands) -> None:
    topics = commands.add_group("topics", brief="Create, list, describe, alter and delete topics")
    declare_create(topics)
    declare_list(topics)
    declare_describe(topics)
    declare_alter(topics)
    declare_delete(topics)


def declare_create(topics: Commands) -> None:
    create = topics.add(
        "create",
        run="topics:create",
        brief="Create topics",
        examples=("pykbroker topics create trucks --partitions 10 --set retention.ms=86400000",),
    )
    add_names(create)
    create.add_argument(
        "--partitions",
        metavar="N",
        type=positive,
        default=-1,
        help="Number of partitions (default: num.partitions of the broker)",
    )
    create.add_argument(
        "--replicas",
        metavar="N",
        type=replica_count,
        default=-1,
        help="Replication factor (default: default.replication.factor of the broker)",
    )
    add_settings(create, "Set a topic property (repeatable)")
    create.add_argument(
        "--if-not-exists", action="store_true", help="Ignore topics that already exist"
    )
    create.add_argument(
        "--dry-run", action="store_true", help="Validate the request without creating topics"
    )
    add_connection_options(create)


def declare_list(topics: Commands) -> None:
    command = topics.add(
        "list",
        run="topics:list_all",
        brief="List topics",
        examples=("pykbroker topics list --json",),
    )
    command.add_argument("--internal", action="store_true", help="Include internal topics")
    command.add_argument("--names", action="store_true", help="Print only names, one per line")
    add_connection_options(command)


def declare_describe(topics: Commands) -> None:
    describe = topics.add(
        "describe",
        run="topics:describe",
        brief="Show the configs and partitions of topics: leader, replicas and offsets",
        examples=("pykbroker topics describe trucks",),
    )
    add_names(describe)
    add_connection_options(describe)


def declare_alter(topics: Commands) -> None:
    alter = topics.add(
        "alter",
        run="topics:alter",
        brief="Add partitions or change properties of topics",
        examples=("pykbroker topics alter trucks --partitions 20 --set retention.ms=3600000",),
    )
    add_names(alter)
    alter.add_argument("--partitions", metavar="N", type=positive, help="New number of partitions")
    add_settings(alter, "Set a topic property (repeatable)")
    alter.add_argument(
        "--unset",
        metavar="KEY",
        action="append",
        default=[],
        help="Reset a topic property to its default (repeatable)",
    )
    alter.add_argument(
        "--dry-run", action="store_true", help="Validate the request without changing topics"
    )
    add_connection_options(alter)


def declare_delete(topics: Commands) -> None:
    delete = topics.add(
        "delete",
        run="topics:delete",
        brief="Delete topics and their records",
        examples=("pykbroker topics delete trucks",),
    )
    add_names(delete)
    delete.add_argument("--if-exists", action="store_true", help="Ignore topics that do not exist")
    add_connection_options(delete)


def add_names(command: CommandParser) -> None:
    command.add_argument("names", metavar="TOPIC", nargs="+", help="Topic names")


def add_settings(command: CommandParser, text: str) -> None:
    command.add_argument(
        "--set",
        metavar="KEY=VALUE",
        type=assignment,
        action="append",
        default=[],
        dest="settings",
        help=text,
    )
