"""Entry point of the compaction process: reads jobs from stdin and exits when stdin closes.

The broker holds the other end of the pipe. When the broker exits or crashes, this process exits
immediately, so that two processes never write to one log.
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

# Lower priority than processes that serve requests.
NICENESS = 10

Message = Sequence[object]


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the broker decides when this process ends
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=read_jobs, args=(jobs,), daemon=True).start()
    while True:
        for message in work(Job.decode(jobs.get())):
            send(message)


def read_jobs(jobs: "queue.SimpleQueue[str]") -> None:
    for line in sys.stdin:
        jobs.put(line)
    os._exit(0)  # may interrupt the other thread: unfinished `.cleaned` files are ignored


def send(message: Message) -> None:
    try:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)  # the broker has exited


def work(job: Job) -> Iterator[Message]:
    """Yields the messages of one job; `CompactionProcess` decodes them."""
    filesystem = LOCAL_DISK if job.is_durable else VOLATILE_DISK
    try:
        rewriting = SegmentRewriter(job, filesystem, Throttler(job.bytes_per_second))
        yield "mapped", rewriting.build_offset_map()
        while (rewritten := rewriting.write_next()) is not None:
            yield "rewritten", rewritten
        yield "done", rewriting.stats
    except CorruptBatch as problem:
        yield "corrupt", str(problem)
    except DiskFull as problem:
        yield "full", str(problem)
    except OSError as problem:
        yield (
            "failed",
            problem.errno or errno.EIO,
            problem.strerror or str(problem),
            problem.filename,
        )


if __name__ == "__main__":
    main()
