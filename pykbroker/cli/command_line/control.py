"""`pykbroker control …`: a broker that fails on command, and whose time can be moved."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from pykbroker.cli.command_line.values import (
    assignment,
    duration_ms,
    loopback_address,
    positive,
    seconds,
    topic_wish,
)

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import CommandParser, Commands

CONTROL_DEFAULT: Final = "127.0.0.1:9099"
CONTROL_VARIABLE: Final = "PYKBROKER_CONTROL"

ABOUT_ADD: Final = """\
Make the broker fail: which fault, which requests, whom it is meant for.

`control faults kinds` tells which faults there are, and what each takes: api, topic, partition,
client, times, error, seconds. An API is named as in Kafka's documentation, in any spelling;
without one it is any request"""


def declare(commands: Commands) -> None:
    control = commands.add_group(
        "control", brief="make a broker under test fail, move its time, look into it"
    )
    declare_faults(control.add_group("faults", brief="what the broker does wrong"))
    declare_clock(control.add_group("clock", brief="the time as the broker has it"))
    declare_broker(control)
    declare_looking(control)


def declare_faults(faults: Commands) -> None:
    add = faults.add(
        "add",
        run="control:add_fault",
        brief="make the broker fail",
        about=ABOUT_ADD,
        examples=(
            "pykbroker control faults add lose_answer PRODUCE topic=trucks times=1",
            "pykbroker control faults add refuse JoinGroup error=NOT_COORDINATOR client=reader",
            "pykbroker control faults add disk_full topic=trucks",
        ),
    )
    add.add_argument("fault", metavar="FAULT", help="what it does, such as refuse or drop")
    add.add_argument(
        "arguments",
        metavar="API|NAME=VALUE",
        nargs="*",
        default=[],
        type=api_or_argument,
        help="the requests it is meant for, and what else it takes",
    )
    add_options(add)
    simple(faults, "kinds", "control:list_kinds", "tell which faults there are")
    simple(faults, "list", "control:list_faults", "show each fault, and how often it has struck")
    simple(faults, "check", "control:check_faults", "fail (exit code 1) if a fault has met nothing")
    declare_removing(faults)
    declare_waiting(faults)


def api_or_argument(text: str) -> tuple[str, str]:
    return assignment(text) if "=" in text else ("api", text)


def declare_removing(faults: Commands) -> None:
    remove = faults.add(
        "remove",
        run="control:remove_faults",
        brief="end faults, and tell how often they struck",
        examples=("pykbroker control faults remove 1", "pykbroker control faults remove --all"),
    )
    remove.add_argument(
        "numbers", metavar="ID", nargs="*", default=[], type=positive, help="which of them"
    )
    remove.add_argument("--all", action="store_true", help="all of them")
    add_options(remove)


def declare_waiting(faults: Commands) -> None:
    wait = faults.add(
        "wait",
        run="control:wait_for_fault",
        brief="return when a fault has struck; fail (exit code 1) if it does not",
        examples=("pykbroker control faults wait 1 --hits 2 --timeout 30",),
    )
    wait.add_argument("number", metavar="ID", type=positive)
    wait.add_argument(
        "--hits", metavar="N", type=positive, default=1, help="how often (default: 1)"
    )
    add_options(wait)


def declare_clock(clock: Commands) -> None:
    simple(clock, "show", "control:show_clock", "tell the broker's time")
    simple(clock, "freeze", "control:freeze_clock", "let time stand still")
    simple(clock, "run", "control:run_clock", "let time run on")
    advance = clock.add(
        "advance",
        run="control:advance_clock",
        brief="move time ahead, and return when all that was due is done",
        examples=("pykbroker control clock advance 8d",),
    )
    add_duration(advance)
    skew = clock.add(
        "skew",
        run="control:skew_clock",
        brief="set the wall clock wrong, without anything becoming due",
        examples=("pykbroker control clock skew 2h --back",),
    )
    add_duration(skew)
    skew.add_argument("--back", action="store_true", help="slow by so much, instead of fast")


def add_duration(command: CommandParser) -> None:
    command.add_argument(
        "duration", metavar="DURATION", type=duration_ms, help="by how much: 8d, 2h30m, 1.5s"
    )
    add_options(command)


def declare_broker(control: Commands) -> None:
    simple(
        control, "state", "control:show_state", "tell where the broker is, and whether it serves"
    )
    reset = control.add(
        "reset",
        run="control:reset",
        brief="begin anew: empty topics, no groups, no faults, the present time",
        examples=("pykbroker control reset", "pykbroker control reset --topic trucks:10"),
    )
    reset.add_argument(
        "--topic",
        metavar="NAME[:PARTITIONS]",
        type=topic_wish,
        action="append",
        default=[],
        dest="topics",
        help="a topic that shall exist, instead of those of the start; may be repeated",
    )
    add_options(reset)
    simple(control, "restart", "control:restart", "stop cleanly and start again")
    simple(control, "crash", "control:crash", "end as if killed, and start again")
    outage = control.add_group("outage", brief="a broker that is not there")
    simple(outage, "begin", "control:begin_outage", "refuse connections from now on")
    simple(outage, "end", "control:end_outage", "serve again, as after a crash")


def declare_looking(control: Commands) -> None:
    records = control.add(
        "wait-for",
        run="control:wait_for_records",
        brief="print a topic's records as soon as there are so many",
        subject=("topic",),
        examples=("pykbroker control wait-for trucks --count 3",),
    )
    records.add_argument("topic", metavar="TOPIC")
    records.add_argument(
        "--count", metavar="N", type=positive, default=1, help="how many (default: 1)"
    )
    add_options(records)
    simple(
        control,
        "timeline",
        "control:show_timeline",
        "tell what the broker saw: clients, groups, refusals, and where everything stands",
    )


def simple(commands: Commands, name: str, run: str, brief: str) -> None:
    """A command that takes nothing but its address."""
    command = commands.add(name, run=run, brief=brief, examples=())
    example = command.prog
    command.epilog = f"example:\n  {example}"
    add_options(command)


def add_options(command: CommandParser) -> None:
    group = command.add_argument_group("the broker")
    group.add_argument(
        "--control",
        metavar="HOST:PORT",
        type=loopback_address,
        default=os.environ.get(CONTROL_VARIABLE) or CONTROL_DEFAULT,
        help="its control port, as given to `serve --control` "
        f"(default: ${CONTROL_VARIABLE} or {CONTROL_DEFAULT})",
    )
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=10.0,
        dest="timeout_s",
        help="how long to wait where there is something to wait for (default: 10)",
    )
    command.add_argument("--json", action="store_true", help="print JSON for programs")
