"""Common parts of consumer programs that print their events.

Options are JSON on the command line. Each line on standard output is one event with the time of the
monotonic clock, so that events of several members can be ordered. SIGTERM makes the program leave
its group, as does the end of standard input, which means that its parent has died.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

POLL_SECONDS = 0.1

Options = Mapping[str, Any]
Offsets = dict[tuple[str, int], list[int]]

stopping = threading.Event()


def run_program(run: Callable[[Options], None]) -> None:
    """Runs a program until it is stopped."""
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    threading.Thread(target=_stop_when_the_parent_is_gone, daemon=True).start()
    run(json.loads(sys.argv[1]))
    emit("ended")


def _stop_when_the_parent_is_gone() -> None:
    os.read(sys.stdin.fileno(), 1)
    stopping.set()


def emit(event: str, **more: object) -> None:
    line = json.dumps({"at_ns": time.monotonic_ns(), "event": event, **more})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def emit_partitions(event: str, partitions: Iterable[Any]) -> None:
    emit(event, partitions=sorted([it.topic, it.partition] for it in partitions))


def emit_read(offsets: Offsets) -> None:
    for (topic, partition), found in offsets.items():
        emit("read", topic=topic, partition=partition, first=min(found), last=max(found))


def offsets_of(found: Mapping[Any, Iterable[Any]]) -> Offsets:
    """Returns the offsets of records that a library returns by partition."""
    return {
        (place.topic, place.partition): [it.offset for it in records]
        for place, records in found.items()
    }


def commit_and_emit(commit: Callable[[], object], refused: type[Exception]) -> None:
    """Commits and prints the result. A commit of an old generation fails without consequence."""
    try:
        commit()
    except refused as error:
        emit("not committed", reason=repr(error))
    else:
        emit("committed")
