"""Keeps CPUs awake while a benchmark runs.

A broker with one request in flight sleeps between requests. On a virtual machine the hypervisor
then reassigns the CPU, and its caches are cold afterwards: the same request took 36 us of CPU on a
busy machine and 120 us on an idle one. So a process per CPU spins with SCHED_IDLE, the lowest
scheduling class, which yields to every other process.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_ENDS_WITH_ITS_PARENT = "while os.getppid() == parent: sum(range(1_000_000))"
_SPIN = f"""
import os, sys
parent, processor = map(int, sys.argv[1:])
os.sched_setaffinity(0, {{processor}})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
{_ENDS_WITH_ITS_PARENT}
"""


@contextmanager
def processors_awake() -> Iterator[None]:
    """Keeps all CPUs of this process's affinity mask busy."""
    with ExitStack() as stack:
        for processor in os.sched_getaffinity(0):
            arguments = [sys.executable, "-c", _SPIN, str(os.getpid()), str(processor)]
            spinner = stack.enter_context(subprocess.Popen(arguments))
            stack.callback(spinner.kill)
        yield
