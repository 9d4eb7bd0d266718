"""What can be asked over the control port: a row for each thing, and the function that does it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pykbroker.broker import CannotStart
from pykbroker.testing.active_fault import FaultMatchedNothing
from pykbroker.testing.async_broker import NotRunning, TopicRefused
from pykbroker.testing.broker_reset import NotClean
from pykbroker.testing.control import fault_requests, json_views
from pykbroker.testing.control.arguments import (
    as_count,
    as_list,
    as_number,
    as_seconds,
    read_argument,
    read_given,
)
from pykbroker.testing.control.http import HttpRefusal
from pykbroker.testing.control.numbered_faults import NumberedFaults
from pykbroker.testing.inspection import NotReadable, TooFewRecords, UnknownTopic
from pykbroker.testing.seeding import NotWritten

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pykbroker.testing.control.controlled import ControlledBroker
    from pykbroker.testing.control.http import HttpRequest

RECORDS_DEFAULT: Final = 1_000
WAIT_SECONDS: Final = 10.0
SPAN_DAYS_MAX: Final = 3_650
SPANS: Final = ("days", "hours", "minutes", "seconds", "milliseconds")
ANY: Final = "*"
"""In a path: a name or number of the asker's."""

REFUSALS: Final = (
    (404, (UnknownTopic, FaultMatchedNothing)),
    (409, (NotRunning, CannotStart, NotClean)),
    (409, (TopicRefused, NotWritten, NotReadable, TooFewRecords)),
    (400, (TypeError, ValueError, KeyError, OverflowError)),
)
"""What the broker says no with, and how HTTP has it."""


class Desk:
    """Answers the requests of one control port; what changes the broker goes one at a time."""

    def __init__(self, broker: ControlledBroker) -> None:
        self.broker = broker
        self.faults = NumberedFaults(broker.faults)
        self.changing = asyncio.Lock()

    async def answer(self, request: HttpRequest) -> tuple[int, Any]:
        row = find_row(request)
        names = [word for word, mark in zip(request.path, row.path, strict=True) if mark == ANY]
        try:
            if row.method == "GET":
                document = await row.do(self, request, *names)
            else:
                async with self.changing:
                    document = await row.do(self, request, *names)
        except HttpRefusal:
            raise
        except Exception as reason:
            for status, kinds in REFUSALS:
                if isinstance(reason, kinds):
                    raise HttpRefusal(status, str(reason)) from reason
            raise
        return row.status, document


class Row(NamedTuple):
    method: str
    path: tuple[str, ...]
    do: Callable[..., Awaitable[Any]]
    status: int = 200

    @property
    def words(self) -> str:
        return f"{self.method} /{'/'.join(self.path)}"


def find_row(request: HttpRequest) -> Row:
    there = [it for it in ROWS if fits(it.path, request.path)]
    for row in there:
        if row.method == request.method:
            return row
    if there:
        methods = ", ".join(it.method for it in there)
        raise HttpRefusal(405, f"this path takes {methods}")
    raise HttpRefusal(404, "nothing is there; GET / tells what is")


def fits(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    return len(pattern) == len(path) and all(
        mark in (ANY, word) for mark, word in zip(pattern, path, strict=True)
    )


# --- faults


async def list_faults(desk: Desk, _: HttpRequest) -> Any:
    return desk.faults.all()


async def list_kinds(_: Desk, __: HttpRequest) -> Any:
    return fault_requests.described()


async def add_fault(desk: Desk, request: HttpRequest) -> Any:
    return desk.faults.add(object_in(request))


async def show_fault(desk: Desk, request: HttpRequest, number: str) -> Any:
    if "hits" not in request.query:
        return desk.faults.one(number)
    hits = read_argument("hits", as_count, request.query["hits"])
    return await desk.faults.wait(number, hits, timeout_of(request))


async def remove_fault(desk: Desk, _: HttpRequest, number: str) -> Any:
    return desk.faults.remove(number)


async def remove_faults(desk: Desk, _: HttpRequest) -> Any:
    return desk.faults.remove_all()


async def check_faults(desk: Desk, _: HttpRequest) -> Any:
    return desk.faults.check()


# --- time


async def show_clock(desk: Desk, _: HttpRequest) -> Any:
    return json_views.clock(desk.broker.clock)


async def advance_clock(desk: Desk, request: HttpRequest) -> Any:
    await desk.broker.clock.advance(**span_in(request))
    return json_views.clock(desk.broker.clock)


async def skew_clock(desk: Desk, request: HttpRequest) -> Any:
    desk.broker.clock.skew(**span_in(request))
    return json_views.clock(desk.broker.clock)


async def freeze_clock(desk: Desk, _: HttpRequest) -> Any:
    desk.broker.clock.freeze()
    return json_views.clock(desk.broker.clock)


async def run_clock(desk: Desk, _: HttpRequest) -> Any:
    desk.broker.clock.run()
    return json_views.clock(desk.broker.clock)


# --- the whole broker


async def show_all(desk: Desk, _: HttpRequest) -> Any:
    return {**state(desk), "paths": [row.words for row in ROWS]}


def state(desk: Desk) -> dict[str, Any]:
    return {"bootstrap": desk.broker.bootstrap, "is_up": desk.broker.is_up}


async def reset(desk: Desk, request: HttpRequest) -> Any:
    asked = object_in(request, "topics").get("topics")
    desk.broker.faults.clear()  # who wants to know whether they have struck asks for it
    await desk.broker.reset(None if asked is None else json_views.wanted(asked))
    desk.faults.forget()
    return await show_topics(desk, request)


async def restart(desk: Desk, _: HttpRequest) -> Any:
    await desk.broker.restart()
    return state(desk)


async def crash(desk: Desk, _: HttpRequest) -> Any:
    await desk.broker.crash()
    return state(desk)


async def begin_outage(desk: Desk, _: HttpRequest) -> Any:
    await desk.broker.begin_outage()
    return state(desk)


async def end_outage(desk: Desk, _: HttpRequest) -> Any:
    await desk.broker.end_outage()
    return state(desk)


# --- looking and writing


async def show_topics(desk: Desk, _: HttpRequest) -> Any:
    return json_views.topics(desk.broker.serving)


async def create_topics(desk: Desk, request: HttpRequest) -> Any:
    await desk.broker.create_topics(json_views.wanted(request.document))
    return await show_topics(desk, request)


async def show_records(desk: Desk, request: HttpRequest, topic: str) -> Any:
    """With `count` they are waited for."""
    query = request.query
    if "count" in query:
        count = read_argument("count", as_count, query["count"])
        found = await desk.broker.wait_for(topic, count=count, timeout_seconds=timeout_of(request))
    else:
        found = desk.broker.records(
            topic,
            partition=read_given(query, "partition", as_count),
            committed_only=query.get("committed_only", "true") != "false",
        )
    shown_max = read_argument("max", as_count, query.get("max", RECORDS_DEFAULT))
    return {"count": len(found), "records": [json_views.record(it) for it in found[:shown_max]]}


async def write_records(desk: Desk, request: HttpRequest, topic: str) -> Any:
    """`records` are objects, `rows` bare values."""
    asked = object_in(request, "records", "rows")
    records, rows = (read_given(asked, name, as_list) or [] for name in ("records", "rows"))
    return {"written": desk.broker.produce(topic, [*map(json_views.row, records), *rows])}


async def show_offsets(desk: Desk, _: HttpRequest, group: str) -> Any:
    return json_views.offsets(desk.broker.offsets(group))


async def show_timeline(desk: Desk, _: HttpRequest) -> Any:
    return json_views.timeline(desk.broker.timeline)


async def tell_story(desk: Desk, _: HttpRequest) -> Any:
    return {"story": desk.broker.story()}


# --- how requests are read


def object_in(request: HttpRequest, *known: str) -> dict[str, Any]:
    """The body, which is an object or not there; with names given it has no others."""
    document = {} if request.document is None else request.document
    if not isinstance(document, dict):
        raise HttpRefusal(400, "the body is an object")
    if known and (strangers := sorted(set(document) - set(known))):
        raise HttpRefusal(400, f"this takes {', '.join(known)}, not {', '.join(strangers)}")
    return document


def span_in(request: HttpRequest) -> dict[str, float]:
    asked = object_in(request, *SPANS)
    span = {name: read_argument(name, as_number, value) for name, value in asked.items()}
    if not all(abs(it) <= SPAN_DAYS_MAX * 86_400_000 for it in span.values()):
        raise HttpRefusal(400, f"a clock is moved by at most {SPAN_DAYS_MAX} days")
    return span


def timeout_of(request: HttpRequest) -> float:
    for name in ("timeout_seconds", "timeout_s"):  # the second is the name in version 0.1
        if name in request.query:
            return read_argument(name, as_seconds, request.query[name])
    return WAIT_SECONDS


ROWS: Final = (
    Row("GET", (), show_all),
    Row("GET", ("faults",), list_faults),
    Row("GET", ("faults", "kinds"), list_kinds),
    Row("GET", ("faults", "check"), check_faults),
    Row("GET", ("faults", ANY), show_fault),
    Row("POST", ("faults",), add_fault, 201),
    Row("DELETE", ("faults",), remove_faults),
    Row("DELETE", ("faults", ANY), remove_fault),
    Row("GET", ("clock",), show_clock),
    Row("POST", ("clock", "advance"), advance_clock),
    Row("POST", ("clock", "skew"), skew_clock),
    Row("POST", ("clock", "freeze"), freeze_clock),
    Row("POST", ("clock", "run"), run_clock),
    Row("POST", ("reset",), reset),
    Row("POST", ("restart",), restart),
    Row("POST", ("crash",), crash),
    Row("POST", ("outage",), begin_outage),
    Row("DELETE", ("outage",), end_outage),
    Row("GET", ("topics",), show_topics),
    Row("POST", ("topics",), create_topics, 201),
    Row("GET", ("topics", ANY, "records"), show_records),
    Row("POST", ("topics", ANY, "records"), write_records, 201),
    Row("GET", ("groups", ANY, "offsets"), show_offsets),
    Row("GET", ("timeline",), show_timeline),
    Row("GET", ("story",), tell_story),
)
