"""The line protocol of compat/README.md, for programs that are written in Python."""

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
    """An error that a library hands out as a value; it is told as if it had been raised."""

    def __init__(self, code: int | str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Unsupported(Exception):
    """The program does not know the command."""


class Program:
    """Takes commands: each is a method of its name, with its options as keywords.

    What has been opened lies in `open`, under the name that the suite gave it.
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
                self.let_go(self.open.pop(name))
            except Exception:
                LOG.exception("closing %s", name)

    def close(self, on: str) -> None:
        self.shut(self.open.pop(on))

    def shut(self, opened: Any) -> None:
        """Close in good order."""
        opened.close()

    def let_go(self, opened: Any) -> None:
        """Close quickly, whether or not a broker is there."""
        opened.close()

    def code_of(self, error: BaseException) -> int | str:
        """The code that the library gives with an error."""
        raise NotImplementedError


def run(program: Program) -> None:
    """Answer one line after the other until there are no more."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    answers = sys.stdout
    sys.stdout = sys.stderr  # what a library prints is no answer
    for line in sys.stdin:
        command = json.loads(line)
        answer = {"id": command["id"], **_answered(program, command)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    program.reset()


def _answered(program: Program, command: Options) -> Options:
    options = {name: value for name, value in command.items() if name not in ("id", "do")}
    try:
        return {"ok": _method(program, command["do"])(**options) or {}}
    except Exception as error:
        LOG.warning("%s", command["do"], exc_info=True)
        return {"error": error_told(program, error)}


def _method(program: Program, command: str) -> Callable[..., Options | None]:
    method: Callable[..., Options | None] | None = getattr(program, command, None)
    if method is None:
        raise Unsupported(command)
    return method


def error_told(program: Program, error: BaseException) -> Options:
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
    """The headers of a record that is to be written."""
    return [(name, octets(value)) for name, value in row["headers"]]


def record(  # noqa: PLR0917 (the fields of a record, in their order)
    place: PartitionKey,
    offset: int,
    timestamp_ms: int | None,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]],
) -> Options:
    """A record that was read, as it is told."""
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
    """For each record what came of it, an error included."""
    told = []
    for row in rows:
        try:
            told.append(outcome(row))
        except Exception as error:  # noqa: BLE001 (every error is the suite's to judge)
            told.append({"error": error_told(program, error)})
    return told


class Positions:
    """Behind the last record that polls have handed out, for each partition."""

    def __init__(self) -> None:
        self.offsets: dict[PartitionKey, int] = {}

    def pass_by(self, records: Iterable[Options]) -> None:
        for it in records:
            self.offsets[it["topic"], it["partition"]] = it["offset"] + 1

    def to_commit(self, given: Sequence[Options] | None) -> list[tuple[PartitionKey, int, str]]:
        """What a commit is about: partition, offset and metadata of each."""
        if given is None:
            return [(place, offset, "") for place, offset in self.offsets.items()]
        return [
            ((it["topic"], it["partition"]), it["offset"], it.get("metadata") or "") for it in given
        ]
