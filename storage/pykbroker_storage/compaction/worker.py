"""Compaction in a process of its own: takes jobs from its input, and ends with it.

The broker holds the other end of the input; when the broker is gone, however it went, so is this
process a moment later, and no two of them ever write to one log.
"""

import errno
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator, Sequence

from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.compaction.job import Job
from pykbroker_storage.compaction.segment_rewriter import SegmentRewriter
from pykbroker_storage.compaction.throttler import Throttler
from pykbroker_storage.filesystem import LOCAL_DISK, VOLATILE_DISK, DiskFull

# What else runs on the machine answers somebody; this can wait.
NICENESS = 10

Answer = Sequence[object]


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the broker says when to end
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=take_jobs, args=(jobs,), daemon=True).start()
    while True:
        for answer in work(Job.decode(jobs.get())):
            tell(answer)


def take_jobs(jobs: "queue.SimpleQueue[str]") -> None:
    for line in sys.stdin:
        jobs.put(line)
    os._exit(0)  # in the middle of whatever the other thread does: what it writes does not count


def tell(answer: Answer) -> None:
    try:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)  # the broker has gone a moment ago


def work(job: Job) -> Iterator[Answer]:
    """What is to be told of one job, as it goes on; `CompactionProcess` understands it."""
    filesystem = LOCAL_DISK if job.is_durable else VOLATILE_DISK
    try:
        rewriting = SegmentRewriter(job, filesystem, Throttler(job.bytes_per_second))
        yield "noted", rewriting.note_keys()
        while (rewritten := rewriting.write_next()) is not None:
            yield "rewritten", rewritten
        yield "done", rewriting.tally
    except CorruptBatch as problem:
        yield "corrupt", str(problem)
    except DiskFull as problem:
        yield "full", str(problem)
    except OSError as problem:
        yield "failed", problem.errno or errno.EIO, str(problem)


if __name__ == "__main__":
    main()
