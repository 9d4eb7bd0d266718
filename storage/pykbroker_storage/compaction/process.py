"""Starts and controls the process that rewrites segments in the background.

A thread would compete with the event loop for the interpreter lock, for milliseconds at a time. A
process runs on its own core with a lower priority.
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
    """The process crashed or was stopped; its job must be repeated."""


class CompactionProcess:
    """Runs one job at a time; starts the process for the first one.

    The methods block. `stop` may be called from any thread and makes the others return.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._is_stopped = False

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def begin(self, job: Job) -> OffsetMapBuilt:
        """Sends a job and waits until the offset map is built."""
        if self._process is None:
            try:
                self._process = _spawn()
            except OSError as problem:  # not an error of the log
                raise ProcessEnded(f"compaction process cannot be started ({problem})") from problem
        if self._is_stopped:  # `stop` was called before the process existed
            self._process.kill()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(job.encode() + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ProcessEnded("compaction process ended before it accepted a job") from None
        built = self._receive()
        assert isinstance(built, OffsetMapBuilt)
        return built

    def next(self) -> Rewritten | CompactionStats:
        """Waits for the next rewritten segment, or for the statistics at the end of the job."""
        message = self._receive()
        assert isinstance(message, Rewritten | CompactionStats)
        return message

    def stop(self) -> None:
        """Kills the process immediately; its unfinished `.cleaned` files remain."""
        self._is_stopped = True
        if self._process is not None:
            self._process.kill()

    def end(self) -> None:
        """Ends the process; no other method may run at the same time."""
        process, self._process = self._process, None
        self._is_stopped = False
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):
                    assert pipe is not None
                    pipe.close()
            process.wait()

    def _receive(self) -> OffsetMapBuilt | Rewritten | CompactionStats:
        """Raises `CorruptBatch`, `DiskFull`, another `OSError` or `ProcessEnded`."""
        assert self._process is not None, "no job is running"
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise ProcessEnded(f"exit code {self._process.wait()}")
        return _decoded(json.loads(line))


def _decoded(message: list[Any]) -> OffsetMapBuilt | Rewritten | CompactionStats:
    match message:
        case ["mapped", built]:
            return OffsetMapBuilt(*built)
        case ["rewritten", [base_offset, source_count, compacted]]:
            return Rewritten(base_offset, source_count, CompactedBytes(*compacted))
        case ["done", stats]:
            return CompactionStats(*stats)
        case ["corrupt", reason]:
            raise CorruptBatch(reason)
        case ["full", reason]:
            raise DiskFull(reason)
        case ["failed", number, reason, path]:
            raise OSError(number, reason, path)
    raise AssertionError(message)


def _spawn() -> subprocess.Popen[str]:
    """Starts the worker with the module path of this process."""
    return subprocess.Popen(  # noqa: S603 (no argument comes from outside)
        [sys.executable, "-P", "-m", WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
