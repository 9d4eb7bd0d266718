"""`pykbroker transactions …`: shows transactions and aborts hanging ones."""

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
"""Default of `transaction.max.timeout.ms`."""

HANGING_ABOUT = """\
Find hanging transactions. No coordinator will complete them, so the last stable
offset does not advance and read_committed consumers stop there.

A transaction hangs if it has been open on a partition for longer than the
maximum transaction timeout and its coordinator does not list the partition."""

ABORT_ABOUT = """\
Abort a hanging transaction on one partition.

If the transaction does not hang, its records on this partition are lost."""


def declare(commands: Commands) -> None:
    transactions = commands.add_group(
        "transactions", brief="Show transactions, find and abort hanging ones"
    )
    declare_list(transactions)
    declare_describe(transactions)
    declare_describe_producers(transactions)
    declare_find_hanging(transactions)
    declare_abort(transactions)


def declare_list(transactions: Commands) -> None:
    command = transactions.add(
        "list",
        run="transactions.list_transactions:list_all",
        brief="List transactional ids",
        examples=(
            "pykbroker transactions list --state Ongoing --longer-than 5m",
            "pykbroker transactions list --matching 'depot-.*'",
        ),
    )
    command.add_argument(
        "--state",
        metavar="STATE",
        choices=STATES,
        action="append",
        default=[],
        dest="states",
        help=f"List only transactions in this state: {', '.join(STATES)} (repeatable)",
    )
    command.add_argument(
        "--producer",
        metavar="ID",
        type=offset,
        action="append",
        default=[],
        dest="producer_ids",
        help="List only transactions of this producer id (repeatable)",
    )
    command.add_argument(
        "--longer-than",
        metavar="DURATION",
        type=duration_ms,
        dest="duration_ms",
        help="List only transactions open for longer than DURATION, such as 90s or 2h30m",
    )
    command.add_argument(
        "--matching",
        metavar="REGEX",
        dest="pattern",
        help="List only transactional ids that match REGEX completely",
    )
    command.add_argument(
        "--names", action="store_true", help="Print only transactional ids, one per line"
    )
    add_connection_options(command)


def declare_describe(transactions: Commands) -> None:
    describe = transactions.add(
        "describe",
        run="transactions.describe:describe",
        brief="Show the state, producer and partitions of transactional ids",
        examples=("pykbroker transactions describe depot-1",),
    )
    describe.add_argument("names", metavar="TRANSACTIONAL_ID", nargs="+", help="Transactional ids")
    add_connection_options(describe)


def declare_describe_producers(transactions: Commands) -> None:
    command = transactions.add(
        "describe-producers",
        run="transactions.producers:describe_producers",
        brief="Show the producers of partitions and their open transactions",
        examples=("pykbroker transactions describe-producers trucks:0,3",),
    )
    command.add_argument(
        "topics",
        metavar="TOPIC[:PARTITION,...]",
        type=topic_choice,
        nargs="+",
        help="A topic or some of its partitions",
    )
    add_connection_options(command)


def declare_find_hanging(transactions: Commands) -> None:
    command = transactions.add(
        "find-hanging",
        run="transactions.find_hanging:find_hanging",
        brief="Find hanging transactions",
        about=HANGING_ABOUT,
        examples=("pykbroker transactions find-hanging trucks",),
    )
    command.add_argument(
        "topics",
        metavar="TOPIC[:PARTITION,...]",
        type=topic_choice,
        nargs="*",
        default=[],
        help="A topic or some of its partitions (default: all topics)",
    )
    command.add_argument(
        "--longer-than",
        metavar="DURATION",
        type=duration_ms,
        default=LONGEST_TIMEOUT_MS,
        dest="duration_ms",
        help="Minimum time since the last record of the producer (default: 15m, the default of "
        "transaction.max.timeout.ms)",
    )
    add_connection_options(command)


def declare_abort(transactions: Commands) -> None:
    command = transactions.add(
        "abort",
        run="transactions.abort:abort",
        brief="Abort a hanging transaction",
        about=ABORT_ABOUT,
        examples=("pykbroker transactions abort trucks:3 --start-offset 1200",),
    )
    command.add_argument(
        "partition",
        metavar="TOPIC:PARTITION",
        type=partition_choice,
        help="Partition of the transaction",
    )
    command.add_argument(
        "--start-offset",
        metavar="N",
        type=offset,
        required=True,
        help="First offset of the transaction, see find-hanging",
    )
    add_connection_options(command)
