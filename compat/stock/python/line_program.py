"""The line protocol of compat/README.md for programs in Python."""

from __future__ import annotations

import base64
import json
import logging
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Options = dict[str, Any]
LOG = logging.getLogger("program")
PartitionKey = tuple[str, int]


class Refused(Exception):
    """Raised for an error that a library returns as a value."""

    def __init__(self, code: int | str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Unsupported(Exception):
    """The program does not implement the command."""


class Program:
    """Runs commands: each is a method with the same name and its options as keyword arguments.

    `open` contains the open objects by the names of the suite.
    """

    client: str
    """The name of the distribution."""

    def __init__(self) -> None:
        self.open: dict[str, Any] = {}

    def hello(self) -> Options:
        return {"client": self.client, "version": version(self.client)}

    def reset(self) -> None:
        for name in list(self.open):
            try:
                self.close_quickly(self.open.pop(name))
            except Exception:
                LOG.exception("closing %s", name)

    def close(self, on: str) -> None:
        self.close_cleanly(self.open.pop(on))

    def close_cleanly(self, opened: Any) -> None:
        """Closes an object cleanly."""
        opened.close()

    def close_quickly(self, opened: Any) -> None:
        """Closes an object quickly, even if no broker is reachable."""
        opened.close()

    def code_of(self, error: BaseException) -> int | str:
        """Returns the error code of a library's exception."""
        raise NotImplementedError


def run(program: Program) -> None:
    """Reads commands from standard input and writes their responses until the input ends."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    responses = sys.stdout
    sys.stdout = sys.stderr  # output of libraries is not a response
    for line in sys.stdin:
        command = json.loads(line)
        response = {"id": command["id"], **_response(program, command)}
        responses.write(json.dumps(response) + "\n")
        responses.flush()
    program.reset()


def _response(program: Program, command: Options) -> Options:
    options = {name: value for name, value in command.items() if name not in ("id", "do")}
    try:
        return {"ok": _method(program, command["do"])(**options) or {}}
    except Exception as error:
        LOG.warning("%s", command["do"], exc_info=True)
        return {"error": error_entry(program, error)}


def _method(program: Program, command: str) -> Callable[..., Options | None]:
    method: Callable[..., Options | None] | None = getattr(program, command, None)
    if method is None:
        raise Unsupported(command)
    return method


def error_entry(program: Program, error: BaseException) -> Options:
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, Unsupported):
        return {"code": "UNSUPPORTED", "text": text}
    code = error.code if isinstance(error, Refused) else program.code_of(error)
    return {"code": code, "text": text}


def octets(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def text(found: bytes | None) -> str | None:
    return None if found is None else base64.b64encode(bytes(found)).decode()


def headers(row: Options) -> list[tuple[str, bytes | None]]:
    """Returns the headers of a record to produce."""
    return [(name, octets(value)) for name, value in row["headers"]]


def record(  # noqa: PLR0917 (the fields of a record, in their order)
    place: PartitionKey,
    offset: int,
    timestamp_ms: int | None,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]],
) -> Options:
    """Returns a consumed record in the format of the protocol."""
    return {
        "topic": place[0],
        "partition": place[1],
        "offset": offset,
        "timestamp_ms": timestamp_ms,
        "key": text(key),
        "value": text(value),
        "headers": [[name, text(it)] for name, it in headers],
    }


def each(
    program: Program, rows: Sequence[Options], outcome: Callable[[Options], Options]
) -> list[Options]:
    """Returns the result or the error of each record."""
    results = []
    for row in rows:
        try:
            results.append(outcome(row))
        except Exception as error:  # noqa: BLE001 (every error is reported to the suite)
            results.append({"error": error_entry(program, error)})
    return results


class Positions:
    """Positions after the last records returned by polls."""

    def __init__(self) -> None:
        self.offsets: dict[PartitionKey, int] = {}

    def advance(self, records: Iterable[Options]) -> None:
        for it in records:
            self.offsets[it["topic"], it["partition"]] = it["offset"] + 1

    def to_commit(self, offsets: Sequence[Options] | None) -> list[tuple[PartitionKey, int, str]]:
        """Returns partition, offset and metadata of each offset to commit."""
        if offsets is None:
            return [(place, offset, "") for place, offset in self.offsets.items()]
        return [
            ((it["topic"], it["partition"]), it["offset"], it.get("metadata") or "")
            for it in offsets
        ]
