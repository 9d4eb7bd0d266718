"""A process of the client under test, driven by a scenario."""

from __future__ import annotations

import time
from dataclasses import dataclass
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
"""The first of these commands in a process also starts Spark."""
POLL_MS = 1_000
DELIVERY_TIMEOUT_MS = 20_000
REQUEST_TIMEOUT_MS = 10_000
SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_INTERVAL_MS = 500
_TEXT_LENGTH_MAX = 300

PartitionKey = tuple[str, int]


class CannotError(Exception):
    """The library lacks this feature; the message is the reason from the manifest."""


class Polled(NamedTuple):
    records: list[Read]
    assignment: frozenset[PartitionKey]


class Step(NamedTuple):
    """A command and its response, shown for failed cells."""

    actor: str
    command: str
    response: str


@dataclass(slots=True)
class Actor:
    """Sends one command at a time and adds the suite's default options."""

    name: str
    process: LineProcess
    bootstrap: str
    deadline: float
    steps: list[Step]
    _command: str = ""
    _command_text: str = ""

    # --- any command

    def do(self, command: str, on: str | None = None, **options: Any) -> Any:
        """Sends a command and returns the response. Raises ClientError for a library error."""
        self.begin_to(command, on, **options)
        return self.finish()

    def begin_to(self, command: str, on: str | None = None, **options: Any) -> None:
        """Sends a command; `finish` waits for its response."""
        completed = complete(command, options)
        reason = self.process.client.missing_feature(required_features(command, completed))
        if reason is not None:
            raise CannotError(reason)
        target = {} if on is None else {"on": on}
        self._command = command
        present = {key: value for key, value in completed.items() if value is not None}
        self._command_text = _shortened({command: on, **present})
        self.process.send(command, target | completed)

    def finish(self) -> Any:
        longest = SLOW_COMMANDS.get(self._command, COMMAND_TIMEOUT_SECONDS)
        remaining = max(1.0, min(scaled(longest), self.deadline - time.monotonic()))
        try:
            response = self.process.receive(remaining)
        except Exception as error:
            text = f"{type(error).__name__} {error}"
            self.steps.append(Step(self.name, self._command_text, text))
            raise
        self.steps.append(Step(self.name, self._command_text, _shortened(response)))
        return response

    def refused(self, command: str, on: str | None = None, **options: Any) -> ClientError:
        """Sends a command that must fail; returns the error."""
        try:
            response = self.do(command, on, **options)
        except ClientError as error:
            return error
        raise ScenarioFailedError(
            f"{command} did not fail; the response was {_shortened(response)}"
        )

    # --- common commands

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
        """Produces records. Raises the error of the first failed record."""
        results = self.try_to_produce(rows, on=on)
        for it in results:
            if isinstance(it, ClientError):
                raise it
        return [it for it in results if isinstance(it, Written)]

    def try_to_produce(
        self, rows: Sequence[dict[str, Any]], *, on: str = "p"
    ) -> list[Written | ClientError]:
        """Produces records; returns the offset or the error of each."""
        response = self.do("produce", on, records=[to_line(it) for it in rows])
        results = [_written(it) for it in response["written"]]
        must(len(results) == len(rows), f"{len(rows)} records were sent, {len(results)} reported")
        return results

    def poll(self, *, on: str = "c", timeout_ms: int = POLL_MS) -> Polled:
        return polled(self.do("poll", on, timeout_ms=timeout_ms))

    def read(
        self, count: int, *, on: str = "c", seconds: float = 20.0, idle_ms: int = POLL_MS
    ) -> list[Read]:
        """Polls until at least `count` records are read; returns all of them."""
        found: list[Read] = []
        deadline = min(time.monotonic() + scaled(seconds), self.deadline)
        while len(found) < count:
            if time.monotonic() > deadline:
                raise ScenarioFailedError(
                    f"{len(found)} of {count} records read in {seconds:.0f} s"
                )
            found += self.poll(on=on, timeout_ms=idle_ms).records
        return found

    def read_from(self, starts: Iterable[tuple[str, int, int | str]], *, on: str = "c") -> None:
        """Assigns partitions with their start offsets."""
        partitions = [{"topic": t, "partition": p, "offset": o} for t, p, o in starts]
        self.do("assign", on, partitions=partitions)

    def close(self, on: str) -> None:
        self.do("close", on)

    def _open(self, command: str, on: str, options: dict[str, Any]) -> None:
        usual = {"bootstrap": self.bootstrap, "client_id": f"compat-{self.name}"}
        self.do(command, on, **(usual | options))


def polled(response: dict[str, Any]) -> Polled:
    return Polled(
        [from_line(it) for it in response["records"]],
        frozenset((topic, partition) for topic, partition in response["assignment"] or ()),
    )


def until(condition: Callable[[], bool], what: str, *, seconds: float = 20.0) -> None:
    """Polls a condition until it is true. `what` describes it in the error."""
    deadline = time.monotonic() + scaled(seconds)
    while not condition():
        must(time.monotonic() < deadline, f"timed out after {seconds:.0f} s: {what}")
        time.sleep(0.05)


def _written(entry: dict[str, Any]) -> Written | ClientError:
    if error := entry.get("error"):
        return client_error(error)
    return Written(entry["topic"], entry["partition"], entry.get("offset"))


def _shortened(value: Any) -> str:
    text = str(value)
    if len(text) <= _TEXT_LENGTH_MAX:
        return text
    return f"{text[:_TEXT_LENGTH_MAX]}… ({len(text)} characters)"
