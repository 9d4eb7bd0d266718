"""`pykbroker groups …`: manages consumer groups and their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.parser import add_connection_options
from pykbroker.cli.command_line.values import duration_ms, offset_spec, seconds, shift, topic_choice

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
Reset the committed offsets of an inactive group.
--dry-run shows the new offsets without committing them.

POSITION is one of:
  earliest, latest  first record; end of the partition
  1200              offset
  -10               last 10 records of each partition
  2026-11-18T12:30  time, local unless it has a time zone
  @1795000000000    time in milliseconds since 1970
Offsets outside a partition are moved to its start or end, with a warning."""


def declare(commands: Commands) -> None:
    groups = commands.add_group(
        "groups", brief="Manage consumer groups and their committed offsets"
    )
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
        run="groups.list_groups:list_all",
        brief="List groups",
        examples=("pykbroker groups list --state Stable --type consumer",),
    )
    for option, name, choices in (("--state", "states", STATES), ("--type", "types", TYPES)):
        command.add_argument(
            option,
            metavar=option[2:].upper(),
            choices=choices,
            action="append",
            default=[],
            dest=name,
            help=f"List only groups of this {option[2:]}: {', '.join(choices)} (repeatable)",
        )
    command.add_argument("--names", action="store_true", help="Print only names, one per line")
    add_connection_options(command)


def declare_describe(groups: Commands) -> None:
    describe = groups.add(
        "describe",
        run="groups.describe:describe",
        brief="Show the members of groups and their assigned partitions",
        examples=("pykbroker groups describe depot",),
    )
    add_names(describe)
    add_connection_options(describe)


def declare_lag(groups: Commands) -> None:
    lag = groups.add(
        "lag",
        run="groups.lag:lag",
        brief="Show the lag of groups by partition, member or client",
        examples=("pykbroker groups lag depot --by member", "pykbroker groups lag --follow"),
    )
    lag.add_argument(
        "names", metavar="GROUP", nargs="*", default=[], help="Group names (default: all groups)"
    )
    lag.add_argument(
        "--by",
        choices=("partition", "member", "client"),
        default="partition",
        help="Print one line per partition, member or client; JSON contains all (default: "
        "partition)",
    )
    lag.add_argument("--follow", action="store_true", help="Repeat until interrupted")
    lag.add_argument(
        "--interval",
        metavar="SECONDS",
        type=seconds,
        default=2.0,
        dest="interval_seconds",
        help="Pause of --follow in seconds (default: 2)",
    )
    add_connection_options(lag)


def declare_reset(groups: Commands) -> None:
    reset = groups.add(
        "reset",
        run="groups.reset:reset",
        subject=("group",),
        brief="Reset the committed offsets of an inactive group",
        about=RESET_ABOUT,
        examples=(
            "pykbroker groups reset depot --topic trucks --to earliest --dry-run",
            "pykbroker groups reset depot --all-topics --back 2h30m",
            "pykbroker groups reset depot --topic trucks:0,3 --shift -5",
        ),
    )
    add_group(reset)
    add_topics(reset)
    where = reset.add_argument_group("New offsets").add_mutually_exclusive_group(required=True)
    where.add_argument("--to", metavar="POSITION", type=offset_spec, help="Reset to POSITION")
    where.add_argument(
        "--back",
        metavar="DURATION",
        type=duration_ms,
        dest="back_ms",
        help="Reset to the first record that is not older than DURATION, such as 2h30m or 7d",
    )
    where.add_argument(
        "--shift",
        metavar="N",
        type=shift,
        help="Move each committed offset by N, backward if negative",
    )
    reset.add_argument(
        "--dry-run", action="store_true", help="Show the new offsets without committing them"
    )
    add_connection_options(reset)


def declare_delete_offsets(groups: Commands) -> None:
    command = groups.add(
        "delete-offsets",
        run="groups.removal:delete_offsets",
        subject=("group",),
        brief="Delete committed offsets of topics that a group no longer reads",
        examples=("pykbroker groups delete-offsets depot --topic trucks",),
    )
    add_group(command)
    add_topics(command)
    add_connection_options(command)


def declare_delete(groups: Commands) -> None:
    delete = groups.add(
        "delete",
        run="groups.removal:delete",
        brief="Delete groups without members and their committed offsets",
        examples=("pykbroker groups delete depot",),
    )
    add_names(delete)
    delete.add_argument("--if-exists", action="store_true", help="Ignore groups that do not exist")
    add_connection_options(delete)


def declare_remove_member(groups: Commands) -> None:
    command = groups.add(
        "remove-member",
        run="groups.removal:remove_member",
        subject=("group",),
        brief="Remove members from a group, so that its partitions are reassigned",
        examples=("pykbroker groups remove-member depot --instance truck-17 --reason broken",),
    )
    add_group(command)
    group = command.add_argument_group("Members")
    for option, name, text in (
        ("--member", "members", "Member id (repeatable)"),
        ("--instance", "instances", "group.instance.id of a static member (repeatable)"),
    ):
        group.add_argument(option, metavar="ID", action="append", default=[], dest=name, help=text)
    group.add_argument("--all", action="store_true", help="All members of the group")
    command.add_argument(
        "--reason",
        metavar="TEXT",
        default="removed by an operator",
        help="Reason in the log of the broker (default: removed by an operator)",
    )
    add_connection_options(command)


def add_names(command: CommandParser) -> None:
    command.add_argument("names", metavar="GROUP", nargs="+", help="Group names")


def add_group(command: CommandParser) -> None:
    command.add_argument("group", metavar="GROUP", help="Group name")


def add_topics(command: CommandParser) -> None:
    topics = command.add_argument_group("Topics").add_mutually_exclusive_group(required=True)
    topics.add_argument(
        "--topic",
        metavar="TOPIC[:PARTITION,...]",
        type=topic_choice,
        action="append",
        default=[],
        dest="topics",
        help="A topic or some of its partitions (repeatable)",
    )
    topics.add_argument(
        "--all-topics", action="store_true", help="All topics with a committed offset of the group"
    )
