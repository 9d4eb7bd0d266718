"""The broker's end of the process that rewrites segments, so that requests never wait for it.

A thread would take turns with the one that answers requests, milliseconds each; a process has a
core of its own, and the kernel knows that it is less urgent.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import Any

from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.compaction.job import CompactionStats, Job, OffsetMapBuilt, Rewritten
from pykbroker_storage.filesystem import DiskFull
from pykbroker_storage.segment import CompactedBytes

WORKER = "pykbroker_storage.compaction.worker"


class ProcessEnded(Exception):
    """It is gone, by its own fault or because it was told to; its job is to be done anew."""


class CompactionProcess:
    """One job at a time; started when it is needed first.

    The methods block, but `stop` may be called from any thread and lets the others return.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._is_stopped = False

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def begin(self, job: Job) -> OffsetMapBuilt:
        """Gives it a job and waits until all keys are noted."""
        if self._process is None:
            try:
                self._process = _spawn()
            except OSError as problem:  # which says nothing about the log
                raise ProcessEnded(f"it cannot be started: {problem}") from problem
        if self._is_stopped:  # before there was anything to kill
            self._process.kill()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(job.encode() + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ProcessEnded("it took no job") from None
        noted = self._answer()
        assert isinstance(noted, OffsetMapBuilt)
        return noted

    def next(self) -> Rewritten | CompactionStats:
        """The next segment that is ready; what was done in all when the job is done."""
        answer = self._answer()
        assert isinstance(answer, Rewritten | CompactionStats)
        return answer

    def stop(self) -> None:
        """At once, whatever it does; a segment that it was writing is left over."""
        self._is_stopped = True
        if self._process is not None:
            self._process.kill()

    def end(self) -> None:
        """It is not needed for now; nobody else may be in another method."""
        process, self._process = self._process, None
        self._is_stopped = False
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):
                    assert pipe is not None
                    pipe.close()
            process.wait()

    def _answer(self) -> OffsetMapBuilt | Rewritten | CompactionStats:
        """Raises `CorruptBatch`, `DiskFull`, another `OSError` or `ProcessEnded`."""
        assert self._process is not None, "no job has begun"
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise ProcessEnded(f"exit code {self._process.wait()}")
        return _understood(json.loads(line))


def _understood(answer: list[Any]) -> OffsetMapBuilt | Rewritten | CompactionStats:
    match answer:
        case ["noted", noted]:
            return OffsetMapBuilt(*noted)
        case ["rewritten", [base_offset, source_count, left]]:
            return Rewritten(base_offset, source_count, CompactedBytes(*left))
        case ["done", tally]:
            return CompactionStats(*tally)
        case ["corrupt", message]:
            raise CorruptBatch(message)
        case ["full", message]:
            raise DiskFull(message)
        case ["failed", number, message]:
            raise OSError(number, message)
    raise AssertionError(answer)


def _spawn() -> subprocess.Popen[str]:
    """It finds the modules where this process finds them, and nowhere else."""
    return subprocess.Popen(  # noqa: S603 (nothing in it comes from anybody else)
        [sys.executable, "-P", "-m", WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
