"""A restart with a gigabyte of data, after a clean stop and after kill -9."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

from benchmarks import wire
from benchmarks.client_process import run_client
from benchmarks.measurement import Sample
from benchmarks.rivals import Rival, ended_after, seconds_until
from benchmarks.topics import create
from benchmarks.workloads.kinds import LifecycleWorkload, Scale

RECORD_BYTES = 1000
TOPIC = "restart"


def run(rival: Rival, scratch: Path, scale: Scale) -> Iterator[Sample]:
    """Each round starts from copies of the same two directories, because recovery changes them."""
    records = scale.restart_bytes // RECORD_BYTES
    clean, killed = scratch / "clean", scratch / "killed"
    if not clean.exists():
        _prepare(rival, scratch, records)
    for case, original in (("after a clean end", clean), ("after kill -9", killed)):
        seconds = _start_on_copy(rival, original, scratch / "data", records)
        size = f"{scale.restart_bytes / 1e9:g} GB"
        yield Sample(case=f"{size} {case}", metric="start to data served", unit="s", value=seconds)


def _prepare(rival: Rival, scratch: Path, records: int) -> None:
    """Copies the files of a suspended broker, which is the state after a kill."""
    shutil.rmtree(scratch)
    data = scratch / "data"
    with ended_after(rival.make(data)) as broker:
        broker.start()
        create(broker, [TOPIC], partitions=1)
        run_client("librdkafka", "produce", broker.bootstrap, TOPIC, 1, records, RECORD_BYTES)
        os.kill(broker.pid, signal.SIGSTOP)
        shutil.copytree(data, scratch / "killed")
        os.kill(broker.pid, signal.SIGCONT)
    data.rename(scratch / "clean")


def _start_on_copy(rival: Rival, original: Path, data: Path, records: int) -> float:
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(original, data)
    with ended_after(rival.make(data)) as broker:
        return seconds_until(broker, lambda: wire.log_end_offset(broker.port, TOPIC) == records)


WORKLOAD = LifecycleWorkload(name="restart", run=run)
