"""The routes of the control port and their handlers."""

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
from pykbroker.testing.control.http import HttpError
from pykbroker.testing.control.numbered_faults import NumberedFaults
from pykbroker.testing.inspection import NotReadable, TooFewRecords, UnknownTopic
from pykbroker.testing.seeding import NotWritten

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pykbroker.testing.control.controllable_broker import ControllableBroker
    from pykbroker.testing.control.http import HttpRequest

RECORDS_DEFAULT: Final = 1_000
WAIT_SECONDS: Final = 10.0
SPAN_DAYS_MAX: Final = 3_650
SPANS: Final = ("days", "hours", "minutes", "seconds", "milliseconds")
ANY: Final = "*"
"""In a path: any name or id."""

ERROR_STATUSES: Final = (
    (404, (UnknownTopic, FaultMatchedNothing)),
    (409, (NotRunning, CannotStart, NotClean)),
    (409, (TopicRefused, NotWritten, NotReadable, TooFewRecords)),
    (400, (TypeError, ValueError, KeyError, OverflowError)),
)
"""The HTTP statuses of exceptions."""


class ControlRequests:
    """Handles the requests of a control port. Requests that change the broker run one at a time."""

    def __init__(self, broker: ControllableBroker) -> None:
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
        except HttpError:
            raise
        except Exception as reason:
            for status, kinds in ERROR_STATUSES:
                if isinstance(reason, kinds):
                    raise HttpError(status, str(reason)) from reason
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
    found = [it for it in ROWS if matches(it.path, request.path)]
    for row in found:
        if row.method == request.method:
            return row
    if found:
        methods = ", ".join(it.method for it in found)
        raise HttpError(405, f"allowed methods: {methods}")
    raise HttpError(404, "unknown path; GET / lists all paths")


def matches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    return len(pattern) == len(path) and all(
        mark in (ANY, word) for mark, word in zip(pattern, path, strict=True)
    )


# --- faults


async def list_faults(control: ControlRequests, _: HttpRequest) -> Any:
    return control.faults.all()


async def list_kinds(_: ControlRequests, __: HttpRequest) -> Any:
    return fault_requests.described()


async def add_fault(control: ControlRequests, request: HttpRequest) -> Any:
    return control.faults.add(object_in(request))


async def show_fault(control: ControlRequests, request: HttpRequest, number: str) -> Any:
    if "hits" not in request.query:
        return control.faults.one(number)
    hits = read_argument("hits", as_count, request.query["hits"])
    return await control.faults.wait(number, hits, timeout_of(request))


async def remove_fault(control: ControlRequests, _: HttpRequest, number: str) -> Any:
    return control.faults.remove(number)


async def remove_faults(control: ControlRequests, _: HttpRequest) -> Any:
    return control.faults.remove_all()


async def check_faults(control: ControlRequests, _: HttpRequest) -> Any:
    return control.faults.check()


# --- clock


async def show_clock(control: ControlRequests, _: HttpRequest) -> Any:
    return json_views.clock(control.broker.clock)


async def advance_clock(control: ControlRequests, request: HttpRequest) -> Any:
    await control.broker.clock.advance(**span_in(request))
    return json_views.clock(control.broker.clock)


async def skew_clock(control: ControlRequests, request: HttpRequest) -> Any:
    control.broker.clock.skew(**span_in(request))
    return json_views.clock(control.broker.clock)


async def freeze_clock(control: ControlRequests, _: HttpRequest) -> Any:
    control.broker.clock.freeze()
    return json_views.clock(control.broker.clock)


async def run_clock(control: ControlRequests, _: HttpRequest) -> Any:
    control.broker.clock.run()
    return json_views.clock(control.broker.clock)


# --- the whole broker


async def show_all(control: ControlRequests, _: HttpRequest) -> Any:
    return {**state(control), "paths": [row.words for row in ROWS]}


def state(control: ControlRequests) -> dict[str, Any]:
    return {"bootstrap": control.broker.bootstrap, "is_up": control.broker.is_up}


async def reset(control: ControlRequests, request: HttpRequest) -> Any:
    topics = object_in(request, "topics").get("topics")
    control.broker.faults.clear()  # unused faults are reported by GET /faults/check, not here
    await control.broker.reset(None if topics is None else json_views.parse_topics(topics))
    control.faults.clear()
    return await show_topics(control, request)


async def restart(control: ControlRequests, _: HttpRequest) -> Any:
    await control.broker.restart()
    return state(control)


async def crash(control: ControlRequests, _: HttpRequest) -> Any:
    await control.broker.crash()
    return state(control)


async def begin_outage(control: ControlRequests, _: HttpRequest) -> Any:
    await control.broker.begin_outage()
    return state(control)


async def end_outage(control: ControlRequests, _: HttpRequest) -> Any:
    await control.broker.end_outage()
    return state(control)


# --- topics and records


async def show_topics(control: ControlRequests, _: HttpRequest) -> Any:
    return json_views.topics(control.broker.serving)


async def create_topics(control: ControlRequests, request: HttpRequest) -> Any:
    await control.broker.create_topics(json_views.parse_topics(request.document))
    return await show_topics(control, request)


async def show_records(control: ControlRequests, request: HttpRequest, topic: str) -> Any:
    """With `count`, waits for that number of records."""
    query = request.query
    if "count" in query:
        count = read_argument("count", as_count, query["count"])
        found = await control.broker.wait_for(
            topic, count=count, timeout_seconds=timeout_of(request)
        )
    else:
        found = control.broker.records(
            topic,
            partition=read_given(query, "partition", as_count),
            committed_only=query.get("committed_only", "true") != "false",
        )
    shown_max = read_argument("max", as_count, query.get("max", RECORDS_DEFAULT))
    return {"count": len(found), "records": [json_views.record(it) for it in found[:shown_max]]}


async def write_records(control: ControlRequests, request: HttpRequest, topic: str) -> Any:
    """`records` are objects, `rows` are values."""
    document = object_in(request, "records", "rows")
    records, rows = (read_given(document, name, as_list) or [] for name in ("records", "rows"))
    return {"written": control.broker.produce(topic, [*map(json_views.row, records), *rows])}


async def show_offsets(control: ControlRequests, _: HttpRequest, group: str) -> Any:
    return json_views.offsets(control.broker.offsets(group))


async def show_timeline(control: ControlRequests, _: HttpRequest) -> Any:
    return json_views.timeline(control.broker.timeline)


async def show_story(control: ControlRequests, _: HttpRequest) -> Any:
    return {"story": control.broker.story()}


# --- request parameters


def object_in(request: HttpRequest, *known: str) -> dict[str, Any]:
    """The body, an object or missing. Rejects fields other than 'known', if given."""
    document = {} if request.document is None else request.document
    if not isinstance(document, dict):
        raise HttpError(400, "the body must be an object")
    if known and (unknown := sorted(set(document) - set(known))):
        fields = f"{', '.join(unknown)}; known fields: {', '.join(known)}"
        raise HttpError(400, f"unknown fields: {fields}")
    return document


def span_in(request: HttpRequest) -> dict[str, float]:
    document = object_in(request, *SPANS)
    span = {name: read_argument(name, as_number, value) for name, value in document.items()}
    if not all(abs(it) <= SPAN_DAYS_MAX * 86_400_000 for it in span.values()):
        raise HttpError(400, f"the clock can be moved by at most {SPAN_DAYS_MAX} days")
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
    Row("GET", ("story",), show_story),
)
