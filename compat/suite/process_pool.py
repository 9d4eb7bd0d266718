"""Processes of clients' programs, kept warm from one scenario to the next."""

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
"""Processes of one client that are kept: as many as most scenarios take at once."""
RESET_TIMEOUT_SECONDS = 10.0
HELLO_TIMEOUT_SECONDS = 30.0


class ProcessPool:
    """Gives out processes that are clean; a context manager that leaves none behind."""

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
        """A new process that has said what it is."""
        errors = self._directory / f"{client.name}-{client.version}-{next(self._numbers)}.err"
        process = LineProcess(client, installed(client), errors)
        try:
            process.say("hello", {})
            told = process.answer(scaled(HELLO_TIMEOUT_SECONDS))
        except ClientError as error:
            process.kill()
            raise ProgramFailedError(
                f"the program of {client} does not say hello: {error}"
            ) from error
        if told.get("version") != client.version:
            process.kill()
            raise ProgramFailedError(f"{client} was to be tried, but {told} answered")
        return process

    def give_back(self, process: LineProcess) -> None:
        """Whoever gives it back has no answer outstanding, or has killed it."""
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
            process.say("reset", {})
            process.answer(scaled(RESET_TIMEOUT_SECONDS))
        except (ProgramFailedError, ClientError):
            return False
        return True
