"""Reuses processes of client programs for several scenarios."""

from __future__ import annotations

import threading
from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING, Self

from compat.suite.installation import installed
from compat.suite.line_process import ClientError, LineProcess, ProgramFailedError
from compat.suite.timeout_factor import scaled

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from compat.suite.manifest import StockClient

IDLE_MAX = 3
"""Idle processes kept for each client; most scenarios use at most three at once."""
RESET_TIMEOUT_SECONDS = 10.0
HELLO_TIMEOUT_SECONDS = 30.0


class ProcessPool:
    """Lends reset processes of clients. The context manager ends all of them on exit."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._idle: dict[str, list[LineProcess]] = defaultdict(list)
        self._busy: set[LineProcess] = set()
        self._lock = threading.Lock()
        self._numbers = count()
        directory.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._busy:
            process.kill()
        for processes in self._idle.values():
            for process in processes:
                process.end()

    def take(self, client: StockClient) -> LineProcess:
        with self._lock:
            idle = self._idle[str(client)]
            while idle:
                process = idle.pop()
                if process.is_running:
                    self._busy.add(process)
                    return process
        process = self.start(client)
        with self._lock:
            self._busy.add(process)
        return process

    def start(self, client: StockClient) -> LineProcess:
        """Starts a process and checks the client's version."""
        errors = self._directory / f"{client.name}-{client.version}-{next(self._numbers)}.err"
        process = LineProcess(client, installed(client), errors)
        try:
            process.send("hello", {})
            response = process.receive(scaled(HELLO_TIMEOUT_SECONDS))
        except ClientError as error:
            process.kill()
            raise ProgramFailedError(f"the program of {client} failed at hello: {error}") from error
        if response.get("version") != client.version:
            process.kill()
            raise ProgramFailedError(f"expected {client}, but the program is {response}")
        return process

    def give_back(self, process: LineProcess) -> None:
        """Returns a process to the pool. It has no pending response, or was killed."""
        is_clean = process.is_running and self._reset(process)
        with self._lock:
            self._busy.discard(process)
            idle = self._idle[str(process.client)]
            if is_clean and len(idle) < IDLE_MAX:
                idle.append(process)
                return
        process.kill()

    @staticmethod
    def _reset(process: LineProcess) -> bool:
        try:
            process.send("reset", {})
            process.receive(scaled(RESET_TIMEOUT_SECONDS))
        except (ProgramFailedError, ClientError):
            return False
        return True
