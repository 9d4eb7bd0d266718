"""`pykbroker control …`: injects faults into a broker under test and moves its clock."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from pykbroker.cli.command_line.parser import add_json, add_timeout
from pykbroker.cli.command_line.values import (
    assignment,
    duration_ms,
    loopback_address,
    positive,
    topic_spec,
)

if TYPE_CHECKING:
    from pykbroker.cli.command_line.parser import CommandParser, Commands

CONTROL_DEFAULT: Final = "127.0.0.1:9099"
CONTROL_VARIABLE: Final = "PYKBROKER_CONTROL"

ABOUT_ADD: Final = """\
Inject a fault into the broker.

`control faults kinds` lists the faults and their arguments: api, topic,
partition, client, times, error, seconds. API is a name of the Kafka protocol in
any spelling, such as JoinGroup or JOIN_GROUP; without it, the fault applies to
all requests."""


def declare(commands: Commands) -> None:
    control = commands.add_group(
        "control", brief="Inject faults into a broker under test, move its clock, inspect it"
    )
    declare_faults(control.add_group("faults", brief="Inject, list and remove faults"))
    declare_clock(control.add_group("clock", brief="Show and move the clock of the broker"))
    declare_broker(control)
    declare_inspection(control)


def declare_faults(faults: Commands) -> None:
    add = faults.add(
        "add",
        run="control:add_fault",
        brief="Inject a fault",
        about=ABOUT_ADD,
        examples=(
            "pykbroker control faults add lose_answer PRODUCE topic=trucks times=1",
            "pykbroker control faults add refuse JoinGroup error=NOT_COORDINATOR",
            "pykbroker control faults add disk_full topic=trucks",
        ),
    )
    add.add_argument("fault", metavar="FAULT", help="Kind of fault, such as refuse or drop")
    add.add_argument(
        "arguments",
        metavar="API|NAME=VALUE",
        nargs="*",
        default=[],
        type=api_or_argument,
        help="Affected API and other arguments of the fault",
    )
    add_options(add)
    simple(faults, "kinds", "control:list_kinds", "List the kinds of faults and their arguments")
    simple(
        faults, "list", "control:list_faults", "List faults with the number of affected requests"
    )
    simple(
        faults, "check", "control:check_faults", "Exit with 1 if a fault has affected no request"
    )
    declare_remove(faults)
    declare_wait(faults)


def api_or_argument(text: str) -> tuple[str, str]:
    return assignment(text) if "=" in text else ("api", text)


def declare_remove(faults: Commands) -> None:
    remove = faults.add(
        "remove",
        run="control:remove_faults",
        brief="Remove faults and show the number of affected requests",
        examples=("pykbroker control faults remove 1", "pykbroker control faults remove --all"),
    )
    remove.add_argument(
        "numbers", metavar="ID", nargs="*", default=[], type=positive, help="Ids of faults"
    )
    remove.add_argument("--all", action="store_true", help="Remove all faults")
    add_options(remove)


def declare_wait(faults: Commands) -> None:
    wait = faults.add(
        "wait",
        run="control:wait_for_fault",
        brief="Wait until a fault has affected a request; exit with 1 on timeout",
        examples=("pykbroker control faults wait 1 --hits 2 --timeout 30",),
    )
    wait.add_argument("number", metavar="ID", type=positive, help="Id of the fault")
    wait.add_argument(
        "--hits",
        metavar="N",
        type=positive,
        default=1,
        help="Number of affected requests to wait for (default: 1)",
    )
    add_options(wait)


def declare_clock(clock: Commands) -> None:
    simple(clock, "show", "control:show_clock", "Show the time of the broker")
    simple(clock, "freeze", "control:freeze_clock", "Stop the clock")
    simple(clock, "run", "control:run_clock", "Resume the clock")
    advance = clock.add(
        "advance",
        run="control:advance_clock",
        brief="Move the clock forward and wait until all due timers have run",
        examples=("pykbroker control clock advance 8d",),
    )
    add_duration(advance)
    skew = clock.add(
        "skew",
        run="control:skew_clock",
        brief="Change the wall clock without running timers",
        examples=("pykbroker control clock skew 2h --back",),
    )
    add_duration(skew)
    skew.add_argument("--back", action="store_true", help="Move the clock backward")


def add_duration(command: CommandParser) -> None:
    command.add_argument(
        "duration", metavar="DURATION", type=duration_ms, help="Duration, such as 8d, 2h30m or 1.5s"
    )
    add_options(command)


def declare_broker(control: Commands) -> None:
    simple(
        control,
        "state",
        "control:show_state",
        "Show the address of the broker and whether it accepts connections",
    )
    reset = control.add(
        "reset",
        run="control:reset",
        brief="Reset the broker: empty topics, no groups, no faults, current time",
        examples=("pykbroker control reset", "pykbroker control reset --topic trucks:10"),
    )
    reset.add_argument(
        "--topic",
        metavar="NAME[:PARTITIONS]",
        type=topic_spec,
        action="append",
        default=[],
        dest="topics",
        help="Create this topic instead of those given at startup (repeatable)",
    )
    add_options(reset)
    simple(control, "restart", "control:restart", "Stop the broker cleanly and start it again")
    simple(control, "crash", "control:crash", "Stop the broker as if killed and start it again")
    outage = control.add_group("outage", brief="Make the broker unreachable")
    simple(outage, "begin", "control:begin_outage", "Refuse connections until `outage end`")
    simple(outage, "end", "control:end_outage", "Start the broker again as after a crash")


def declare_inspection(control: Commands) -> None:
    records = control.add(
        "wait-for",
        run="control:wait_for_records",
        brief="Wait until a topic has N records and print them",
        subject=("topic",),
        examples=("pykbroker control wait-for trucks --count 3",),
    )
    records.add_argument("topic", metavar="TOPIC", help="Topic to read")
    records.add_argument(
        "--count", metavar="N", type=positive, default=1, help="Number of records (default: 1)"
    )
    add_options(records)
    simple(
        control,
        "timeline",
        "control:show_timeline",
        "Show events in the broker: clients, groups, errors, current state",
    )


def simple(commands: Commands, name: str, run: str, brief: str) -> None:
    """Adds a command without arguments of its own."""
    command = commands.add(name, run=run, brief=brief, examples=())
    example = command.prog
    command.epilog = f"Example:\n  {example}"
    add_options(command)


def add_options(command: CommandParser) -> None:
    group = command.add_argument_group("Connection")
    group.add_argument(
        "--control",
        metavar="HOST:PORT",
        type=loopback_address,
        default=os.environ.get(CONTROL_VARIABLE) or CONTROL_DEFAULT,
        help="Control port of the broker, see `serve --control` "
        f"(default: ${CONTROL_VARIABLE} or {CONTROL_DEFAULT})",
    )
    add_timeout(group, default=10, text="Timeout in seconds of commands that wait")
    add_json(command)
