"""One process of the client under test, as a scenario drives it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from compat.suite.assertions import ScenarioFailedError, must
from compat.suite.commands import complete, required_features
from compat.suite.line_process import ClientError, client_error
from compat.suite.records import Read, Written, from_line, to_line
from compat.suite.timeout_factor import scaled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from compat.suite.line_process import LineProcess

COMMAND_TIMEOUT_SECONDS = 60.0
SLOW_COMMANDS = {"read_batch": 200.0, "write_batch": 200.0, "stream": 200.0}
"""Whoever is given the first of these starts Spark before."""
POLL_MS = 1_000
DELIVERY_TIMEOUT_MS = 20_000
REQUEST_TIMEOUT_MS = 10_000
SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_INTERVAL_MS = 500
_SHOWN_MAX = 300

PartitionKey = tuple[str, int]


class CannotError(Exception):
    """The library has no way to do this; the message is the manifest's reason."""


class Polled(NamedTuple):
    records: list[Read]
    assignment: frozenset[PartitionKey]


class Step(NamedTuple):
    """A command and what came of it, for whoever reads a failure."""

    actor: str
    said: str
    answered: str


@dataclass(slots=True)
class Actor:
    """Asks one thing at a time; what is given no other way is what the suite always asks for."""

    name: str
    process: LineProcess
    bootstrap: str
    deadline: float
    steps: list[Step]
    _command: str = ""
    _said: str = ""
    _opened: dict[str, str] = field(default_factory=dict)

    # --- any command

    def do(self, command: str, on: str | None = None, **options: Any) -> Any:
        """Give a command and wait for its answer; an error of the library is raised."""
        self.begin_to(command, on, **options)
        return self.finish()

    def begin_to(self, command: str, on: str | None = None, **options: Any) -> None:
        """Give a command whose answer `finish` waits for."""
        given = complete(command, options)
        reason = self.process.client.missing_feature(required_features(command, given))
        if reason is not None:
            raise CannotError(reason)
        place = {} if on is None else {"on": on}
        self._command = command
        self._said = _shown({command: on, **{k: v for k, v in given.items() if v is not None}})
        self.process.say(command, place | given)

    def finish(self) -> Any:
        longest = SLOW_COMMANDS.get(self._command, COMMAND_TIMEOUT_SECONDS)
        left = max(1.0, min(scaled(longest), self.deadline - time.monotonic()))
        try:
            answer = self.process.answer(left)
        except Exception as error:
            self.steps.append(Step(self.name, self._said, f"{type(error).__name__} {error}"))
            raise
        self.steps.append(Step(self.name, self._said, _shown(answer)))
        return answer

    def refused(self, command: str, on: str | None = None, **options: Any) -> ClientError:
        """A command that must end in an error, which is returned."""
        try:
            answer = self.do(command, on, **options)
        except ClientError as error:
            return error
        raise ScenarioFailedError(f"{command} was not refused; the answer was {_shown(answer)}")

    # --- the usual ones

    def open_producer(self, on: str = "p", **options: Any) -> None:
        usual = {
            "acks": "all",
            "compression": "none",
            "idempotent": False,
            "delivery_timeout_ms": DELIVERY_TIMEOUT_MS,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
        }
        self._open("open_producer", on, usual | options)

    def open_consumer(self, on: str = "c", **options: Any) -> None:
        usual = {
            "protocol": "classic",
            "isolation": "read_uncommitted",
            "reset": "earliest",
        }
        if options.get("group") and options.get("protocol") != "consumer":
            usual |= {
                "session_timeout_ms": SESSION_TIMEOUT_MS,  # type: ignore[dict-item] # numbers too
                "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,  # type: ignore[dict-item] # likewise
            }
        self._open("open_consumer", on, usual | options)

    def open_admin(self, on: str = "a", **options: Any) -> None:
        self._open("open_admin", on, {"request_timeout_ms": REQUEST_TIMEOUT_MS} | options)

    def produce(self, rows: Sequence[dict[str, Any]], *, on: str = "p") -> list[Written]:
        """Write records, each of which must be taken."""
        told = self.try_to_produce(rows, on=on)
        for it in told:
            if isinstance(it, ClientError):
                raise it
        return [it for it in told if isinstance(it, Written)]

    def try_to_produce(
        self, rows: Sequence[dict[str, Any]], *, on: str = "p"
    ) -> list[Written | ClientError]:
        """Write records; for each, where it went or why it did not."""
        answer = self.do("produce", on, records=[to_line(it) for it in rows])
        told = [_written(it) for it in answer["written"]]
        must(len(told) == len(rows), f"{len(rows)} records were given, {len(told)} answered for")
        return told

    def poll(self, *, on: str = "c", timeout_ms: int = POLL_MS) -> Polled:
        return polled(self.do("poll", on, timeout_ms=timeout_ms))

    def read(
        self, count: int, *, on: str = "c", seconds: float = 20.0, idle_ms: int = POLL_MS
    ) -> list[Read]:
        """Poll until so many records have come; more than that is told as well."""
        found: list[Read] = []
        deadline = min(time.monotonic() + scaled(seconds), self.deadline)
        while len(found) < count:
            if time.monotonic() > deadline:
                raise ScenarioFailedError(
                    f"{len(found)} of {count} records came in {seconds:.0f} s"
                )
            found += self.poll(on=on, timeout_ms=idle_ms).records
        return found

    def read_from(self, places: Iterable[tuple[str, int, int | str]], *, on: str = "c") -> None:
        """Assign partitions, each from an offset on."""
        partitions = [{"topic": t, "partition": p, "offset": o} for t, p, o in places]
        self.do("assign", on, partitions=partitions)

    def close(self, on: str) -> None:
        self.do("close", on)

    def _open(self, command: str, on: str, options: dict[str, Any]) -> None:
        usual = {"bootstrap": self.bootstrap, "client_id": f"compat-{self.name}"}
        self.do(command, on, **(usual | options))


def polled(answer: dict[str, Any]) -> Polled:
    return Polled(
        [from_line(it) for it in answer["records"]],
        frozenset((topic, partition) for topic, partition in answer["assignment"] or ()),
    )


def until(is_so: Callable[[], bool], what: str, *, seconds: float = 20.0) -> None:
    """Look again and again until something is so."""
    deadline = time.monotonic() + scaled(seconds)
    while not is_so():
        must(time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}")
        time.sleep(0.05)


def _written(told: dict[str, Any]) -> Written | ClientError:
    if error := told.get("error"):
        return client_error(error)
    return Written(told["topic"], told["partition"], told.get("offset"))


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}… ({len(text)} characters)"
