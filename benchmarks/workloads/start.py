"""Time from process start to the first Metadata response, and memory of an idle broker."""

import os
import shutil
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measurement import APACHE, Sample
from benchmarks.rivals import Rival, ended_after, seconds_until_metadata
from benchmarks.workloads.kinds import LifecycleWorkload, Scale, memory_of
from compat.apache.installation import install, java

_SETTLE_SECONDS = 3.0


def run(rival: Rival, scratch: Path, _scale: Scale) -> Iterator[Sample]:
    """Cold: the program is read from disk. Warm: it is in the page cache."""
    for case in ("cold, no data", "warm, no data"):
        shutil.rmtree(scratch, ignore_errors=True)
        broker = rival.make(scratch / "data")
        if case.startswith("cold"):
            _drop_program_cache(rival)
        with ended_after(broker):
            seconds = seconds_until_metadata(broker)
            yield Sample(case=case, metric="start to first Metadata", unit="s", value=seconds)
            if case.startswith("warm"):
                time.sleep(_SETTLE_SECONDS)
                yield from memory_of(broker, "idle")


def _drop_program_cache(rival: Rival) -> None:
    """Drops the program's files from the page cache; pages mapped by other processes stay."""
    for folder in _program_folders(rival):
        for file in folder.rglob("*"):
            if file.is_file():
                _drop_cache(file)


def _program_folders(rival: Rival) -> list[Path]:
    if rival.name == APACHE:
        return [install(), Path(java()).resolve().parent.parent]
    packages = {sysconfig.get_path("stdlib"), sysconfig.get_path("platlib")}
    checkout = Path(__file__).parents[2]
    ours = [checkout / name for name in ("pykbroker", "protocol", "storage")]
    return [*map(Path, packages), Path(sys.base_prefix) / "lib", *ours]


def _drop_cache(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


WORKLOAD = LifecycleWorkload(name="start", run=run, warms_up=True)
