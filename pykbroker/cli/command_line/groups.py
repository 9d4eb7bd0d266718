"""`pykbroker groups …`: who reads, how far behind, and from where on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.parser import add_connection_options
from pykbroker.cli.command_line.values import duration_ms, place, seconds, shift, topic_choice

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import CommandParser, Commands

STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Assigning",
    "Reconciling",
)
TYPES = ("classic", "consumer", "share", "streams")

RESET_ABOUT = """\
Let a group go on from somewhere else; its members must be gone. --dry-run shows what would be.

--to takes: earliest, latest, an offset (1200), the last N of each partition (-10),
or a time (2026-11-18T12:30, or @ and milliseconds since 1970).
Beyond what a partition holds, its start or end is taken, and said so"""


def declare(commands: Commands) -> None:
    groups = commands.add_group("groups", brief="show groups, move their offsets, end them")
    declare_list(groups)
    declare_describe(groups)
    declare_lag(groups)
    declare_reset(groups)
    declare_delete_offsets(groups)
    declare_delete(groups)
    declare_remove_member(groups)


def declare_list(groups: Commands) -> None:
    command = groups.add(
        "list",
        run="groups.listing:list_all",
        brief="list groups",
        examples=("pykbroker groups list --state Stable --type consumer",),
    )
    for option, name, choices in (("--state", "states", STATES), ("--type", "types", TYPES)):
        command.add_argument(
            option,
            choices=choices,
            action="append",
            default=[],
            dest=name,
            help=f"those of this {option[2:]} alone; may be repeated",
        )
    command.add_argument("--names", action="store_true", help="the names alone, one per line")
    add_connection_options(command)


def declare_describe(groups: Commands) -> None:
    describe = groups.add(
        "describe",
        run="groups.describing:describe",
        brief="show groups with their members and what each is assigned",
        examples=("pykbroker groups describe depot",),
    )
    add_names(describe)
    add_connection_options(describe)


def declare_lag(groups: Commands) -> None:
    lag = groups.add(
        "lag",
        run="groups.lag:lag",
        brief="show how far groups are behind, by partition, member or client",
        examples=("pykbroker groups lag depot --by member", "pykbroker groups lag --follow"),
    )
    lag.add_argument(
        "names", metavar="GROUP", nargs="*", default=[], help="these alone (default: all groups)"
    )
    lag.add_argument(
        "--by",
        choices=("partition", "member", "client"),
        default="partition",
        help="what a line is (default: partition); JSON has them all",
    )
    lag.add_argument("--follow", action="store_true", help="show it again and again")
    lag.add_argument(
        "--interval",
        metavar="SECONDS",
        type=seconds,
        default=2.0,
        dest="interval_s",
        help="how long --follow waits in between (default: 2)",
    )
    add_connection_options(lag)


def declare_reset(groups: Commands) -> None:
    reset = groups.add(
        "reset",
        run="groups.reset:reset",
        subject=("group",),
        brief="let a group go on from somewhere else",
        about=RESET_ABOUT,
        examples=(
            "pykbroker groups reset depot --topic trucks --to earliest --dry-run",
            "pykbroker groups reset depot --all-topics --back 2h30m",
            "pykbroker groups reset depot --topic trucks:0,3 --shift -5",
        ),
    )
    add_group(reset)
    add_topics(reset)
    where = reset.add_argument_group("where to").add_mutually_exclusive_group(required=True)
    where.add_argument("--to", metavar="PLACE", type=place, help="this place")
    where.add_argument(
        "--back",
        metavar="DURATION",
        type=duration_ms,
        dest="back_ms",
        help="so long ago, such as 2h30m or 7d",
    )
    where.add_argument(
        "--shift",
        metavar="N",
        type=shift,
        help="so many from where the group is, backward if negative",
    )
    reset.add_argument("--dry-run", action="store_true", help="show, but change nothing")
    add_connection_options(reset)


def declare_delete_offsets(groups: Commands) -> None:
    command = groups.add(
        "delete-offsets",
        run="groups.removal:delete_offsets",
        subject=("group",),
        brief="forget how far a group has read topics that it no longer reads",
        examples=("pykbroker groups delete-offsets depot --topic trucks",),
    )
    add_group(command)
    add_topics(command)
    add_connection_options(command)


def declare_delete(groups: Commands) -> None:
    delete = groups.add(
        "delete",
        run="groups.removal:delete",
        brief="delete groups without members, with their offsets",
        examples=("pykbroker groups delete depot",),
    )
    add_names(delete)
    delete.add_argument("--if-exists", action="store_true", help="a missing group is fine")
    add_connection_options(delete)


def declare_remove_member(groups: Commands) -> None:
    command = groups.add(
        "remove-member",
        run="groups.removal:remove_member",
        subject=("group",),
        brief="make members of either protocol leave, so that others take over",
        examples=("pykbroker groups remove-member depot --instance truck-17 --reason broken",),
    )
    add_group(command)
    group = command.add_argument_group("whom")
    for option, name, text in (
        ("--member", "members", "the member of this id; may be repeated"),
        ("--instance", "instances", "the static member of this group.instance.id; may be repeated"),
    ):
        group.add_argument(option, metavar="ID", action="append", default=[], dest=name, help=text)
    group.add_argument("--all", action="store_true", help="every member that there is")
    command.add_argument(
        "--reason",
        metavar="TEXT",
        default="removed by an operator",
        help="what the broker's log says of it",
    )
    add_connection_options(command)


def add_names(command: CommandParser) -> None:
    command.add_argument("names", metavar="GROUP", nargs="+", help="one group or several")


def add_group(command: CommandParser) -> None:
    command.add_argument("group", metavar="GROUP")


def add_topics(command: CommandParser) -> None:
    topics = command.add_argument_group("of which topics").add_mutually_exclusive_group(
        required=True
    )
    topics.add_argument(
        "--topic",
        metavar="TOPIC[:PARTITION,...]",
        type=topic_choice,
        action="append",
        default=[],
        dest="topics",
        help="a topic, or some of its partitions; may be repeated",
    )
    topics.add_argument(
        "--all-topics", action="store_true", help="all for which the group has committed offsets"
    )
