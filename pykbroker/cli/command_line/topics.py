"""`pykbroker topics …`: what topics there are, and what they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.parser import add_connection_options
from pykbroker.cli.command_line.values import assignment, positive, replica_count

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import CommandParser, Commands


def declare(commands: Commands) -> None:
    topics = commands.add_group("topics", brief="create, list, describe, alter and delete topics")
    declare_create(topics)
    declare_list(topics)
    declare_describe(topics)
    declare_alter(topics)
    declare_delete(topics)


def declare_create(topics: Commands) -> None:
    create = topics.add(
        "create",
        run="topics:create",
        brief="create topics",
        examples=("pykbroker topics create trucks --partitions 10 --set retention.ms=86400000",),
    )
    add_names(create)
    create.add_argument(
        "--partitions", metavar="N", type=positive, default=-1, help="how many (default: broker's)"
    )
    create.add_argument(
        "--replicas",
        metavar="N",
        type=replica_count,
        default=-1,
        help="of each (default: broker's)",
    )
    add_settings(create, "a property of the topic; may be repeated")
    create.add_argument("--if-not-exists", action="store_true", help="an existing topic is fine")
    create.add_argument("--dry-run", action="store_true", help="check, but create nothing")
    add_connection_options(create)


def declare_list(topics: Commands) -> None:
    command = topics.add(
        "list",
        run="topics:list_all",
        brief="list topics",
        examples=("pykbroker topics list --json",),
    )
    command.add_argument("--internal", action="store_true", help="Kafka's own topics too")
    command.add_argument("--names", action="store_true", help="the names alone, one per line")
    add_connection_options(command)


def declare_describe(topics: Commands) -> None:
    describe = topics.add(
        "describe",
        run="topics:describe",
        brief="show each partition of topics, with its leader, replicas and offsets",
        examples=("pykbroker topics describe trucks",),
    )
    add_names(describe)
    add_connection_options(describe)


def declare_alter(topics: Commands) -> None:
    alter = topics.add(
        "alter",
        run="topics:alter",
        brief="give topics more partitions, or other properties",
        examples=("pykbroker topics alter trucks --partitions 20 --set retention.ms=3600000",),
    )
    add_names(alter)
    alter.add_argument("--partitions", metavar="N", type=positive, help="how many there shall be")
    add_settings(alter, "give a property a value; may be repeated")
    alter.add_argument(
        "--unset",
        metavar="KEY",
        action="append",
        default=[],
        help="give a property its default again; may be repeated",
    )
    alter.add_argument("--dry-run", action="store_true", help="check, but alter nothing")
    add_connection_options(alter)


def declare_delete(topics: Commands) -> None:
    delete = topics.add(
        "delete",
        run="topics:delete",
        brief="delete topics with all their records",
        examples=("pykbroker topics delete trucks",),
    )
    add_names(delete)
    delete.add_argument("--if-exists", action="store_true", help="a missing topic is fine")
    add_connection_options(delete)


def add_names(command: CommandParser) -> None:
    command.add_argument("names", metavar="TOPIC", nargs="+", help="one topic or several")


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
