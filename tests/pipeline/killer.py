"""Ends, or stops, the process that imports it, at the moment that the environment names."""

import os
import random
import signal
from itertools import count
from pathlib import Path

PASSES = count(1)


def at_the_moment(moment: object) -> None:
    """`KILL_AT=MARKED:2` is the second time; `KILL_NOW_AND_THEN=0.01` a share of all moments."""
    name = getattr(moment, "name", moment)
    stopped, _, time_to_stop = os.environ.get("STOP_AT", "").partition(":")
    killed, _, time_to_kill = os.environ.get("KILL_AT", "").partition(":")
    if name in {stopped, killed}:
        passed = str(next(PASSES))
        if name == stopped and passed == time_to_stop:
            Path(os.environ["STOPPED"]).touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        if name == killed and passed == time_to_kill:
            kill()
    if random.random() < float(os.environ.get("KILL_NOW_AND_THEN", "0")):
        kill()


def kill() -> None:
    """With the whole of Spark, if this is a part of it."""
    own = os.getpid()
    if "KILL_ALL" in os.environ:
        kill_session(os.getsid(0), but=own)
    os.kill(own, signal.SIGKILL)


def kill_session(session: int, *, but: int = 0) -> None:
    """Driver, JVM and workers: whoever a process of ours has started."""
    for process in (int(it.name) for it in Path("/proc").iterdir() if it.name.isdecimal()):
        try:
            if process != but and os.getsid(process) == session:
                os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
