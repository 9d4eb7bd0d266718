"""`pykbroker transactions …`: who is in the middle of what, and what to do if one hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.command_line.parser import add_connection_options
from pykbroker.cli.command_line.values import (
    duration_ms,
    offset,
    partition_choice,
    topic_choice,
)

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import Commands

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
LONGEST_TIMEOUT_MS = 900_000
"""`transaction.max.timeout.ms`, unless somebody has changed it."""

HANGING_ABOUT = """\
Find transactions that no coordinator will end: committed records behind them stay unread.

A transaction hangs if a partition has it open for longer than any may last, and its coordinator
does not know that the partition takes part"""

ABORT_ABOUT = """\
End a transaction that hangs, in one partition, as if its producer had aborted it.

Of a transaction that does not hang, this loses what its producer writes there"""


def declare(commands: Commands) -> None:
    transactions = commands.add_group(
        "transactions", brief="show transactions, find those that hang, end them"
    )
    declare_list(transactions)
    declare_describe(transactions)
    declare_describe_producers(transactions)
    declare_find_hanging(transactions)
    declare_abort(transactions)


def declare_list(transactions: Commands) -> None:
    command = transactions.add(
        "list",
        run="transactions.listing:list_all",
        brief="list transactional ids",
        examples=(
            "pykbroker transactions list --state Ongoing --longer-than 5m",
            "pykbroker transactions list --matching 'depot-.*'",
        ),
    )
    command.add_argument(
        "--state",
        choices=STATES,
        action="append",
        default=[],
        dest="states",
        help="those of this state alone; may be repeated",
    )
    command.add_argument(
        "--producer",
        metavar="ID",
        type=offset,
        action="append",
        default=[],
        dest="producer_ids",
        help="those of this producer id alone; may be repeated",
    )
    command.add_argument(
        "--longer-than",
        metavar="DURATION",
        type=duration_ms,
        dest="duration_ms",
        help="those whose transaction takes longer, such as 90s or 2h30m",
    )
    command.add_argument(
        "--matching",
        metavar="REGEX",
        dest="pattern",
        help="those of which the whole name matches",
    )
    command.add_argument("--names", action="store_true", help="the names alone, one per line")
    add_connection_options(command)


def declare_describe(transactions: Commands) -> None:
    describe = transactions.add(
        "describe",
        run="transactions.describing:describe",
        brief="show transactional ids with their producers and what they have touched",
        examples=("pykbroker transactions describe depot-1",),
    )
    describe.add_argument(
        "names", metavar="TRANSACTIONAL_ID", nargs="+", help="one transactional id or several"
    )
    add_connection_options(describe)


def declare_describe_producers(transactions: Commands) -> None:
    command = transactions.add(
        "describe-producers",
        run="transactions.producers:describe_producers",
        brief="show which producers partitions remember, and where their transactions begin",
        examples=("pykbroker transactions describe-producers trucks:0,3",),
    )
    command.add_argument(
        "topics",
        metavar="TOPIC[:PARTITION,...]",
        type=topic_choice,
        nargs="+",
        help="a topic, or some of its partitions",
    )
    add_connection_options(command)


def declare_find_hanging(transactions: Commands) -> None:
    command = transactions.add(
        "find-hanging",
        run="transactions.hanging:find_hanging",
        brief="find transactions that no coordinator will end",
        about=HANGING_ABOUT,
        examples=("pykbroker transactions find-hanging trucks",),
    )
    command.add_argument(
        "topics",
        metavar="TOPIC[:PARTITION,...]",
        type=topic_choice,
        nargs="*",
        default=[],
        help="a topic, or some of its partitions (default: everything)",
    )
    command.add_argument(
        "--longer-than",
        metavar="DURATION",
        type=duration_ms,
        default=LONGEST_TIMEOUT_MS,
        dest="duration_ms",
        help="nothing was heard of the producer for so long (default: 15m, the longest timeout)",
    )
    add_connection_options(command)


def declare_abort(transactions: Commands) -> None:
    command = transactions.add(
        "abort",
        run="transactions.aborting:abort",
        brief="end a transaction that hangs",
        about=ABORT_ABOUT,
        examples=("pykbroker transactions abort trucks:3 --start-offset 1200",),
    )
    command.add_argument("place", metavar="TOPIC:PARTITION", type=partition_choice)
    command.add_argument(
        "--start-offset",
        metavar="N",
        type=offset,
        required=True,
        help="where the transaction begins, as find-hanging tells",
    )
    add_connection_options(command)
