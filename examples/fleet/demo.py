"""Runs the fleet on one machine, each part in its own process, until Ctrl-C."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, TextIO

from . import topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from threading import Event

PIPELINE = Path(__file__).with_name("pipeline.toml")
STOP_SECONDS_MAX = 30
POLL_SECONDS = 0.3

Process = subprocess.Popen[str]

log = logging.getLogger("demo")


def run(stopped: Event, *, simulator: Sequence[str], port: int, with_pipeline: bool) -> int:
    """Starts the parts in order and stops them in reverse order."""
    fleet = __package__ or "fleet"
    with ExitStack() as running:
        start = running.enter_context
        data = Path(start(tempfile.TemporaryDirectory(prefix="fleet-", ignore_cleanup_errors=True)))
        broker = start(process("pykbroker", *BROKER, f"--data={data / 'broker'}", output=PIPE))
        bootstrap = address_of(broker, mark="bootstrap=")
        topics.create(bootstrap)
        address = f"--bootstrap={bootstrap}"
        dashboard = start(process(fleet, "show", address, f"--port={port}", output=PIPE))
        url = address_of(dashboard, mark="")
        parts = {
            "broker": broker,
            "dashboard": dashboard,
            "notification service": start(process(fleet, "notify", address)),
            "simulator": start(process(fleet, "simulate", address, *simulator)),
        }
        log.info("dashboard: %s", url)
        log.info("broker: %s; press Ctrl-C to stop", bootstrap)
        if with_pipeline and can_run_pipeline():
            parts["pipeline"] = start(pipeline(address, data))
            log.info("pipeline: starting; archive and log are in %s", data)
        else:
            log.info("pipeline: not started; the page shows no statistics and no alerts")
        return watch(parts, stopped)


@contextmanager
def pipeline(address: str, data: Path) -> Iterator[Process]:
    """Runs the pipeline with its output in a file."""
    words = ("pipeline", "run", str(PIPELINE), address, f"--directory={data}")
    with (
        (data / "pipeline.log").open("w") as batches,
        process("pykbroker", *words, output=batches, **QUICK_JVM) as part,
    ):
        try:
            yield part
        finally:
            log.info("pipeline: finishing its batch, at most %d s", STOP_SECONDS_MAX)


QUICK_JVM = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""Reduces the start time of the JVM with fast compilation."""

BROKER = ["serve", "--listen=127.0.0.1:0", "--log-level=warning"]


def can_run_pipeline() -> bool:
    """Runs `pipeline doctor`, which prints what is missing."""
    doctor = [sys.executable, "-m", "pykbroker", "pipeline", "doctor"]
    return subprocess.run(doctor, check=False).returncode == 0


def watch(parts: dict[str, Process], stopped: Event) -> int:
    """Waits for the stop signal; returns 1 if a part exits before."""
    while not stopped.wait(POLL_SECONDS):
        for name, part in parts.items():
            if part.poll() is not None:
                log.error("%s: exited with code %d; stopping the demo", name, part.returncode)
                return 1
    log.info("stopping")
    return 0


@contextmanager
def process(
    module: str, *arguments: str, output: int | TextIO | None = None, **environment: str
) -> Iterator[Process]:
    """Runs a part in its own session, so that Ctrl-C reaches only this process."""
    part = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdout=output,
        env={**os.environ, **environment},
        text=True,
        start_new_session=True,
    )
    try:
        yield part
    finally:
        part.terminate()
        try:
            part.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(part.pid, signal.SIGKILL)
            part.wait()


def address_of(part: Process, *, mark: str) -> str:
    """Returns the address that a part prints in its first line once it is ready."""
    assert part.stdout is not None
    words = part.stdout.readline().split()
    found = [it.removeprefix(mark) for it in words if it.startswith(mark)]
    if not found:
        raise RuntimeError("a part did not start; its output is above")
    return found[0]
