"""`pykbroker control …`: makes a broker fail, moves its time, looks into it, over its HTTP port."""

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

ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
SPARE_SECONDS: Final = 30.0
"""Beyond the time that the broker is asked to wait."""
WRONG_USAGE: Final = 400

FAULT_HEADINGS: Final = ("ID", "HITS", "DUE", "FAULT")


class ControlRefused(CommandFailed):
    """The broker said no, or not yet."""


# --- faults


def add_fault(options: Namespace) -> None:
    asked = {**dict(options.arguments), "fault": options.fault}
    show_faults(options, [ask(options, "POST", "/faults", asked)])


def list_faults(options: Namespace) -> None:
    show_faults(options, ask(options, "GET", "/faults", kind=list))


def list_kinds(options: Namespace) -> None:
    kinds = ask(options, "GET", "/faults/kinds", kind=list)
    if options.json:
        print_json(kinds)
    else:
        rows = [(it["fault"], " ".join(it["takes"]), it["does"]) for it in kinds]
        print(table(("FAULT", "TAKES", "DOES"), rows))


def remove_faults(options: Namespace) -> None:
    if options.all == bool(options.numbers):
        raise CannotBegin("say which faults: their IDs, or --all")
    if options.all:
        show_faults(options, ask(options, "DELETE", "/faults", kind=list))
    else:
        ended = [ask(options, "DELETE", f"/faults/{it}") for it in options.numbers]
        show_faults(options, ended)


def wait_for_fault(options: Namespace) -> None:
    path = f"/faults/{options.number}?{waiting(options, hits=options.hits)}"
    show_faults(options, [ask(options, "GET", path)])


def check_faults(options: Namespace) -> None:
    show_faults(options, ask(options, "GET", "/faults/check", kind=list))


def show_faults(options: Namespace, faults: list[dict[str, Any]]) -> None:
    if options.json:
        print_json(faults)
    else:
        rows = [(it["id"], it["hits"], it["is_due"], it["fault"]) for it in faults]
        print(table(FAULT_HEADINGS, rows))


# --- time


def show_clock(options: Namespace) -> None:
    show_time(options, ask(options, "GET", "/clock"))


def advance_clock(options: Namespace) -> None:
    asked = {"milliseconds": options.duration}
    show_time(options, ask(options, "POST", "/clock/advance", asked))


def skew_clock(options: Namespace) -> None:
    asked = {"milliseconds": -options.duration if options.back else options.duration}
    show_time(options, ask(options, "POST", "/clock/skew", asked))


def freeze_clock(options: Namespace) -> None:
    show_time(options, ask(options, "POST", "/clock/freeze"))


def run_clock(options: Namespace) -> None:
    show_time(options, ask(options, "POST", "/clock/run"))


def show_time(options: Namespace, clock: dict[str, Any]) -> None:
    if options.json:
        print_json(clock)
    else:
        print(f"{clock['now']}{' (it stands)' if clock['stands'] else ''}")


# --- the whole broker


def show_state(options: Namespace) -> None:
    state = ask(options, "GET", "/")
    state.pop("paths", None)
    show_whether_up(options, state)


def reset(options: Namespace) -> None:
    asked = {"topics": {it.name: max(it.partitions, 1) for it in options.topics}}
    topics = ask(options, "POST", "/reset", asked if options.topics else None, kind=list)
    if options.json:
        print_json(topics)
    else:
        print(
            table(("TOPIC", "PARTITIONS"), [(it["name"], len(it["partitions"])) for it in topics])
        )


def restart(options: Namespace) -> None:
    show_whether_up(options, ask(options, "POST", "/restart"))


def crash(options: Namespace) -> None:
    show_whether_up(options, ask(options, "POST", "/crash"))


def begin_outage(options: Namespace) -> None:
    show_whether_up(options, ask(options, "POST", "/outage"))


def end_outage(options: Namespace) -> None:
    show_whether_up(options, ask(options, "DELETE", "/outage"))


def show_whether_up(options: Namespace, state: dict[str, Any]) -> None:
    if options.json:
        print_json(state)
    else:
        print(f"{state['bootstrap']} {'serves' if state['is_up'] else 'refuses connections'}")


# --- looking


def wait_for_records(options: Namespace) -> None:
    """They are printed as `consume --format json` prints them."""
    path = f"/topics/{quote(options.topic, safe='', errors='surrogateescape')}/records"
    found = ask(options, "GET", f"{path}?{waiting(options, count=options.count)}")
    for record in found["records"]:
        print(json.dumps(record, ensure_ascii=False))


def show_timeline(options: Namespace) -> None:
    if options.json:
        print_json(ask(options, "GET", "/timeline"))
    else:
        print(ask(options, "GET", "/story")["story"])


# --- asking


def waiting(options: Namespace, **wanted: int) -> str:
    return urlencode({**wanted, "timeout_s": options.timeout_s})


def ask(
    options: Namespace, method: str, path: str, document: Any = None, *, kind: type = dict
) -> Any:
    """What the broker answers, a document or a list of some; raises for anything but a yes."""
    host, port = options.control
    address = Address(host, port)
    connection = HTTPConnection(host, port, timeout=options.timeout_s + SPARE_SECONDS)
    body = None if document is None else json.dumps(document).encode()
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        found = json.loads(answer.read(ANSWER_BYTES_MAX), object_hook=Document)
    except ConnectionRefusedError:
        raise CannotBegin(f"nobody listens at {address}") from None
    except HTTPException as reason:
        text = f"{address} is no control port: it answered {shown(str(reason))}"
        raise CommandFailed(text) from reason
    except (OSError, ValueError, RecursionError) as reason:
        raise CommandFailed(f"{address} is no control port: {reason}") from reason
    finally:
        connection.close()
    if answer.status >= WRONG_USAGE:
        wrong = CannotBegin if answer.status == WRONG_USAGE else ControlRefused
        said = found.get("error") if isinstance(found, dict) else None
        raise wrong(said or f"HTTP status {answer.status}")
    if not is_of_kind(found, kind):
        raise CommandFailed(f"{address} is no control port: it answered something else")
    return found


def is_of_kind(found: Any, kind: type) -> bool:
    documents = found if kind is list else [found]
    return isinstance(found, kind) and all(isinstance(it, dict) for it in documents)


class Document(dict[str, Any]):
    """What another server than ours answers lacks what a command looks for."""

    def __missing__(self, name: str) -> Any:
        raise CommandFailed(f"this is no control port: its answer has no {name!r}")
