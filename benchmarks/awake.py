"""Processors that do not fall asleep between two requests.

A broker with one request in flight sleeps between any two. On a virtual machine its processor is
then given away, and comes back with cold caches: the same request cost 36 us of CPU on a busy
machine and 120 us on a quiet one. What is measured then is the hypervisor. So somebody keeps each
processor busy at the lowest class of all, who yields at once to whoever has work to do.
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
    """None of the processors that we may use is idle meanwhile."""
    with ExitStack() as stack:
        for processor in os.sched_getaffinity(0):
            arguments = [sys.executable, "-c", _SPIN, str(os.getpid()), str(processor)]
            spinner = stack.enter_context(subprocess.Popen(arguments))
            stack.callback(spinner.kill)
        yield
