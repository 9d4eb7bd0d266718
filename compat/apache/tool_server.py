"""Runs console tools in one warm JVM: 0.1 s per tool instead of 1 s."""

import select
import subprocess
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from compat.apache.installation import install
from compat.apache.tools import (
    SHORT_LIVED_JVM,
    TOOL_TIMEOUT_SECONDS,
    TOOLS,
    ApacheTools,
    Completed,
    java_command,
)

SOURCE = Path(__file__).with_name("ToolServer.java")

# Tools that run long, are interrupted or measure performance get their own process.
_SHORT_TOOLS = frozenset(
    {
        "acls",
        "api-versions",
        "client-metrics",
        "cluster",
        "configs",
        "consumer-groups",
        "delegation-tokens",
        "delete-records",
        "dump-log",
        "features",
        "get-offsets",
        "groups",
        "leader-election",
        "log-dirs",
        "metadata-quorum",
        "metadata-shell",
        "reassign-partitions",
        "share-groups",
        "storage",
        "streams-groups",
        "streams-reset",
        "topics",
        "transactions",
    }
)


class ToolServer:
    """The JVM process. It is restarted after a tool that ends the JVM."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = [*command]
        self._process: subprocess.Popen[bytes] | None = None
        self._one_at_a_time = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()  # it has no state to save
            self._process.communicate()
            self._process = None

    def run(
        self, main: str, arguments: Sequence[str], standard_input: str, timeout_seconds: float
    ) -> Completed:
        """Runs a main class to its end."""
        command = [main, *arguments]
        words = [main, standard_input, *arguments]
        request = b" ".join(b64encode(word.encode()) for word in words) + b"\n"
        with self._one_at_a_time:
            process = self._running()
            assert process.stdin is not None
            process.stdin.write(request)
            process.stdin.flush()
            answer = self._answer(process, command, timeout_seconds)
        code, output, errors = answer.split(b" ")
        return Completed(
            command,
            int(code),
            b64decode(output).decode(errors="replace"),
            b64decode(errors).decode(errors="replace"),
        )

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        return self._process

    def _answer(
        self, process: subprocess.Popen[bytes], command: list[str], timeout_seconds: float
    ) -> bytes:
        """Waits for the response line, which is written when the tool has ended."""
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], timeout_seconds)
        if not ready:
            self.close()
            raise subprocess.TimeoutExpired(command, timeout_seconds)
        answer = process.stdout.readline()
        if not answer.endswith(b"\n"):
            code = process.wait()
            self.close()
            message = b64encode(b"the tool ended the JVM; its output is lost")
            return b"%d  %b" % (code, message)
        return answer.rstrip(b"\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmTools(ApacheTools):
    """Console tools; the short ones run in one warm JVM."""

    server: ToolServer

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[Self]:
        libraries = install()
        with ToolServer(java_command(libraries, SHORT_LIVED_JVM, str(SOURCE))) as server:
            yield cls(libraries=libraries, server=server)

    def tool(
        self,
        name: str,
        *arguments: object,
        input: str | None = None,  # noqa: A002 (named as in subprocess.run)
        timeout_seconds: float = TOOL_TIMEOUT_SECONDS,
    ) -> Completed:
        if name not in _SHORT_TOOLS:
            # `super()` does not work: `slots=True` creates the class a second time.
            return ApacheTools.tool(
                self, name, *arguments, input=input, timeout_seconds=timeout_seconds
            )
        given = [str(argument) for argument in arguments]
        return self.server.run(TOOLS[name], given, input or "", timeout_seconds)
