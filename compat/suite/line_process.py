"""A client's program as a process: one line of JSON in, one line of JSON out."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
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
    """The program ended, was silent for too long or said what is no answer."""


class ClientError(Exception):
    """The library told its user of an error."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class LineProcess:
    """One process of a client's program; whoever has it asks one thing at a time."""

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
        self._answers: queue.Queue[bytes] = queue.Queue()
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

    def say(self, command: str, options: dict[str, Any]) -> int:
        """Give a command without waiting for its answer."""
        self._last_id += 1
        line = json.dumps({"id": self._last_id, "do": command, **options})
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ProgramFailedError(self._story("takes no commands any more")) from error
        return self._last_id

    def answer(self, timeout_seconds: float) -> Any:
        """The answer to the last command."""
        deadline = time.monotonic() + timeout_seconds
        try:
            line = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            self.kill()
            raise ProgramFailedError(
                self._story(f"did not answer within {timeout_seconds:.0f} s")
            ) from None
        if not line:
            raise ProgramFailedError(self._story(f"ended, exit code {self._process.wait()}"))
        return self._judged(line)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._close()

    def end(self) -> None:
        """Let it end by itself, as the end of its input tells it to; not for long."""
        self._close()
        try:
            self._process.wait(_END_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reader.join()

    def errors(self) -> str:
        """The last that the program wrote to its standard error."""
        if not self._errors.exists():
            return ""
        return self._errors.read_bytes()[-STDERR_TAIL_BYTES:].decode(errors="replace")

    def _close(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # what it did not read is lost with it
            self._process.stdin.close()

    def _read(self, output: IO[bytes]) -> None:
        with output:
            for line in output:
                self._answers.put(line)
        self._answers.put(b"")

    def _judged(self, line: bytes) -> Any:
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or answer.get("id") != self._last_id:
            self.kill()
            raise ProgramFailedError(self._story(f"said what is no answer: {line[:200]!r}"))
        if error := answer.get("error"):
            raise client_error(error)
        return answer["ok"]

    def _story(self, what: str) -> str:
        tail = "\n".join(self.errors().splitlines()[-15:])
        return f"the program of {self.client} {what}\n{tail}".rstrip()


def client_error(error: dict[str, Any]) -> ClientError:
    """An error as it was told, its code by name."""
    return ClientError(_code_name(error.get("code")), str(error.get("text", "")))


def _code_name(code: object) -> str:
    return _NAMES.get(code, str(code)) if isinstance(code, int) else str(code)
