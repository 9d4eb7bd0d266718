"""`pykbroker control …`: calls the HTTP control port of a broker."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from pykbroker.address import Address
from pykbroker.cli.command_line.values import shown
from pykbroker.cli.failure import CannotBegin, CommandFailed
from pykbroker.cli.output import print_json, table

if TYPE_CHECKING:
    from argparse import Namespace

RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
GRACE_SECONDS: Final = 30.0
"""Added to the timeout of the request, which the broker itself observes."""
HTTP_BAD_REQUEST: Final = 400

FAULT_HEADINGS: Final = ("ID", "HITS", "ACTIVE", "FAULT")


class RequestRejected(CommandFailed):
    """The broker rejected the request, or the wait timed out."""


# --- faults


def add_fault(options: Namespace) -> None:
    body = {**dict(options.arguments), "fault": options.fault}
    show_faults(options, [call(options, "POST", "/faults", body)])


def list_faults(options: Namespace) -> None:
    show_faults(options, call(options, "GET", "/faults", kind=list))


def list_kinds(options: Namespace) -> None:
    kinds = call(options, "GET", "/faults/kinds", kind=list)
    if options.json:
        print_json(kinds)
    else:
        rows = [(it["fault"], " ".join(it["takes"]), it["does"]) for it in kinds]
        print(table(("FAULT", "TAKES", "DOES"), rows))


def remove_faults(options: Namespace) -> None:
    if options.all == bool(options.numbers):
        raise CannotBegin("specify either fault ids or --all")
    if options.all:
        show_faults(options, call(options, "DELETE", "/faults", kind=list))
    else:
        ended = [call(options, "DELETE", f"/faults/{it}") for it in options.numbers]
        show_faults(options, ended)


def wait_for_fault(options: Namespace) -> None:
    path = f"/faults/{options.number}?{wait_query(options, hits=options.hits)}"
    show_faults(options, [call(options, "GET", path)])


def check_faults(options: Namespace) -> None:
    show_faults(options, call(options, "GET", "/faults/check", kind=list))


def show_faults(options: Namespace, faults: list[dict[str, Any]]) -> None:
    if options.json:
        print_json(faults)
    else:
        rows = [(it["id"], it["hits"], it["is_due"], it["fault"]) for it in faults]
        print(table(FAULT_HEADINGS, rows))


# --- clock


def show_clock(options: Namespace) -> None:
    show_time(options, call(options, "GET", "/clock"))


def advance_clock(options: Namespace) -> None:
    body = {"milliseconds": options.duration}
    show_time(options, call(options, "POST", "/clock/advance", body))


def skew_clock(options: Namespace) -> None:
    body = {"milliseconds": -options.duration if options.back else options.duration}
    show_time(options, call(options, "POST", "/clock/skew", body))


def freeze_clock(options: Namespace) -> None:
    show_time(options, call(options, "POST", "/clock/freeze"))


def run_clock(options: Namespace) -> None:
    show_time(options, call(options, "POST", "/clock/run"))


def show_time(options: Namespace, clock: dict[str, Any]) -> None:
    if options.json:
        print_json(clock)
    else:
        print(f"{clock['now']}{' (stopped)' if clock['stands'] else ''}")


# --- broker


def show_state(options: Namespace) -> None:
    state = call(options, "GET", "/")
    state.pop("paths", None)
    show_status(options, state)


def reset(options: Namespace) -> None:
    body = {"topics": {it.name: max(it.partitions, 1) for it in options.topics}}
    topics = call(options, "POST", "/reset", body if options.topics else None, kind=list)
    if options.json:
        print_json(topics)
    else:
        print(
            table(("TOPIC", "PARTITIONS"), [(it["name"], len(it["partitions"])) for it in topics])
        )


def restart(options: Namespace) -> None:
    show_status(options, call(options, "POST", "/restart"))


def crash(options: Namespace) -> None:
    show_status(options, call(options, "POST", "/crash"))


def begin_outage(options: Namespace) -> None:
    show_status(options, call(options, "POST", "/outage"))


def end_outage(options: Namespace) -> None:
    show_status(options, call(options, "DELETE", "/outage"))


def show_status(options: Namespace, state: dict[str, Any]) -> None:
    if options.json:
        print_json(state)
    else:
        verb = "accepts" if state["is_up"] else "refuses"
        print(f"{state['bootstrap']} {verb} connections")


# --- inspection


def wait_for_records(options: Namespace) -> None:
    """Prints records in the format of `consume --format json`."""
    path = f"/topics/{quote(options.topic, safe='', errors='surrogateescape')}/records"
    found = call(options, "GET", f"{path}?{wait_query(options, count=options.count)}")
    for record in found["records"]:
        print(json.dumps(record, ensure_ascii=False))


def show_timeline(options: Namespace) -> None:
    if options.json:
        print_json(call(options, "GET", "/timeline"))
    else:
        print(call(options, "GET", "/story")["story"])


# --- HTTP


def wait_query(options: Namespace, **conditions: int) -> str:
    return urlencode({**conditions, "timeout_seconds": options.timeout_seconds})


def call(
    options: Namespace, method: str, path: str, document: Any = None, *, kind: type = dict
) -> Any:
    """Returns the response, an object or a list of objects. Raises for an error response."""
    host, port = options.control
    address = Address(host, port)
    connection = HTTPConnection(host, port, timeout=options.timeout_seconds + GRACE_SECONDS)
    body = None if document is None else json.dumps(document).encode()
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        found = json.loads(response.read(RESPONSE_BYTES_MAX), object_hook=Document)
    except ConnectionRefusedError:
        raise CannotBegin(f"cannot connect to {address}: connection refused") from None
    except HTTPException as reason:
        text = f"{address} is not a control port: invalid response {shown(str(reason))}"
        raise CommandFailed(text) from reason
    except (OSError, ValueError, RecursionError) as reason:
        raise CommandFailed(f"{address} is not a control port: {reason}") from reason
    finally:
        connection.close()
    if response.status >= HTTP_BAD_REQUEST:
        error = CannotBegin if response.status == HTTP_BAD_REQUEST else RequestRejected
        message = found.get("error") if isinstance(found, dict) else None
        raise error(message or f"HTTP status {response.status}")
    if not is_of_kind(found, kind):
        raise CommandFailed(f"{address} is not a control port: unexpected response")
    return found


def is_of_kind(found: Any, kind: type) -> bool:
    documents = found if kind is list else [found]
    return isinstance(found, kind) and all(isinstance(it, dict) for it in documents)


class Document(dict[str, Any]):
    """A JSON object of a response; a missing field means that the server is not a control port."""

    def __missing__(self, name: str) -> Any:
        raise CommandFailed(f"not a control port: the response has no field {name!r}")
