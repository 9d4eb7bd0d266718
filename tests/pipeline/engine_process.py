"""Runs the engines of these tests as processes that are killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pykbroker.pipeline.crash_points import HOOK_VARIABLE

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RUN_TIMEOUT_SECONDS = 240
WAS_KILLED = -signal.SIGKILL


def start(
    script: Path, *arguments: object, environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[str]":
    paths = (HERE, ROOT, ROOT / "protocol", ROOT / "storage")
    return subprocess.Popen(
        [sys.executable, str(script), *map(str, arguments)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            HOOK_VARIABLE: "crash_hook:at_crash_point",
            **(environment or {}),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(script: Path, *arguments: object, environment: Mapping[str, str] | None = None) -> int:
    """Returns the exit code; fails with the output of the child unless it is 0 or a kill."""
    with start(script, *arguments, environment=environment) as child:
        output, _ = child.communicate(timeout=RUN_TIMEOUT_SECONDS)
    assert child.returncode in {0, WAS_KILLED}, output
    return child.returncode
