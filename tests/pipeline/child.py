"""Runs the engines of these tests as processes, to be killed."""

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
            HOOK_VARIABLE: "killer:at_the_moment",
            **(environment or {}),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(script: Path, *arguments: object, environment: Mapping[str, str] | None = None) -> int:
    """The exit code; any but success and a kill fails the test with the child's words."""
    with start(script, *arguments, environment=environment) as child:
        words, _ = child.communicate(timeout=RUN_TIMEOUT_SECONDS)
    assert child.returncode in {0, WAS_KILLED}, words
    return child.returncode
