"""Kills or stops its process at the crash point in the environment."""

import os
import random
import signal
from itertools import count
from pathlib import Path

PASSES = count(1)


def at_crash_point(point: object) -> None:
    """`KILL_AT=MARKED:2` is the second pass; `KILL_PROBABILITY=0.01` applies to all points."""
    name = getattr(point, "name", point)
    stopped, _, time_to_stop = os.environ.get("STOP_AT", "").partition(":")
    killed, _, time_to_kill = os.environ.get("KILL_AT", "").partition(":")
    if name in {stopped, killed}:
        passed = str(next(PASSES))
        if name == stopped and passed == time_to_stop:
            Path(os.environ["STOPPED"]).touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        if name == killed and passed == time_to_kill:
            kill()
    if random.random() < float(os.environ.get("KILL_PROBABILITY", "0")):
        kill()


def kill() -> None:
    """Kills this process, with `KILL_ALL` all of Spark."""
    own = os.getpid()
    if "KILL_ALL" in os.environ:
        kill_session(os.getsid(0), but=own)
    os.kill(own, signal.SIGKILL)


def kill_session(session: int, *, but: int = 0) -> None:
    """Kills all processes of the session: driver, JVM and workers."""
    for process in (int(it.name) for it in Path("/proc").iterdir() if it.name.isdecimal()):
        try:
            if process != but and os.getsid(process) == session:
                os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
