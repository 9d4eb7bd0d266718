"""Runs a client's program as a process that speaks the JSON line protocol."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pathlib import Path

    from compat.suite.manifest import StockClient

STDERR_TAIL_BYTES = 4_000
_END_TIMEOUT_SECONDS = 2.0
_NAMES = {code.value: code.name for code in ErrorCode}


class ProgramFailedError(RuntimeError):
    """The program exited, did not respond in time or sent an invalid response."""


class ClientError(Exception):
    """An error that the library reported to its user."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class LineProcess:
    """A process of a client's program. The next command is sent after the response."""

    def __init__(self, client: StockClient, command: list[str], errors: Path) -> None:
        self.client = client
        self._errors = errors
        options = {"PYKBROKER_COMPAT_OPTIONS": json.dumps(dict(client.options))}
        with errors.open("wb") as stderr:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=os.environ | options,
            )
        self._responses: queue.Queue[bytes] = queue.Queue()
        assert self._process.stdout is not None
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), daemon=True
        )
        self._reader.start()
        self._last_id = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def send(self, command: str, options: dict[str, Any]) -> int:
        """Sends a command; returns its id."""
        self._last_id += 1
        line = json.dumps({"id": self._last_id, "do": command, **options})
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ProgramFailedError(self._failure("closed its standard input")) from error
        return self._last_id

    def receive(self, timeout_seconds: float) -> Any:
        """Returns the response to the last command. Raises ClientError or ProgramFailedError."""
        try:
            line = self._responses.get(timeout=max(0.0, timeout_seconds))
        except queue.Empty:
            self.kill()
            raise ProgramFailedError(
                self._failure(f"did not respond within {timeout_seconds:.0f} s")
            ) from None
        if not line:
            raise ProgramFailedError(self._failure(f"exited with code {self._process.wait()}"))
        return self._result(line)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._close()

    def end(self) -> None:
        """Closes standard input, which ends the program; kills it after a timeout."""
        self._close()
        try:
            self._process.wait(_END_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reader.join()

    def errors(self) -> str:
        """Returns the end of the program's standard error."""
        if not self._errors.exists():
            return ""
        return self._errors.read_bytes()[-STDERR_TAIL_BYTES:].decode(errors="replace")

    def _close(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # the program may have exited with unread input
            self._process.stdin.close()

    def _read(self, output: IO[bytes]) -> None:
        with output:
            for line in output:
                self._responses.put(line)
        self._responses.put(b"")

    def _result(self, line: bytes) -> Any:
        try:
            response = json.loads(line)
        except ValueError:
            response = None
        if not isinstance(response, dict) or response.get("id") != self._last_id:
            self.kill()
            raise ProgramFailedError(self._failure(f"sent an invalid response: {line[:200]!r}"))
        if error := response.get("error"):
            raise client_error(error)
        return response["ok"]

    def _failure(self, what: str) -> str:
        tail = "\n".join(self.errors().splitlines()[-15:])
        return f"the program of {self.client} {what}\n{tail}".rstrip()


def client_error(error: dict[str, Any]) -> ClientError:
    """Converts a reported error; numeric codes become names."""
    return ClientError(_code_name(error.get("code")), str(error.get("text", "")))


def _code_name(code: object) -> str:
    return _NAMES.get(code, str(code)) if isinstance(code, int) else str(code)
