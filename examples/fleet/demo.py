"""The whole fleet on one machine: each part in a process of its own, until Ctrl-C."""

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
LOOK_SECONDS = 0.3

Process = subprocess.Popen[str]

log = logging.getLogger("demo")


def run(stopped: Event, *, simulator: Sequence[str], port: int, with_pipeline: bool) -> int:
    """Starts the parts one by one and ends them in the opposite order."""
    fleet = __package__ or "fleet"
    with ExitStack() as running:
        start = running.enter_context
        data = Path(start(tempfile.TemporaryDirectory(prefix="fleet-", ignore_cleanup_errors=True)))
        broker = start(process("pykbroker", *BROKER, f"--data={data / 'broker'}", output=PIPE))
        bootstrap = place_of(broker, mark="bootstrap=")
        topics.create(bootstrap)
        address = f"--bootstrap={bootstrap}"
        dashboard = start(process(fleet, "show", address, f"--port={port}", output=PIPE))
        url = place_of(dashboard, mark="")
        parts = {
            "broker": broker,
            "dashboard": dashboard,
            "notification service": start(process(fleet, "notify", address)),
            "simulator": start(process(fleet, "simulate", address, *simulator)),
        }
        log.info("the fleet is on the road: %s", url)
        log.info("the broker is at %s; Ctrl-C ends everything", bootstrap)
        if with_pipeline and can_run_pipeline():
            parts["pipeline"] = start(pipeline(address, data))
            log.info("the pipeline starts; its archive and its log are in %s", data)
        else:
            log.info("no pipeline: the page will have no statistics and no alerts")
        return watch(parts, stopped)


@contextmanager
def pipeline(address: str, data: Path) -> Iterator[Process]:
    """What it tells of its batches goes to a file."""
    words = ("pipeline", "run", str(PIPELINE), address, f"--directory={data}")
    with (
        (data / "pipeline.log").open("w") as batches,
        process("pykbroker", *words, output=batches, **QUICK_JVM) as part,
    ):
        try:
            yield part
        finally:
            log.info("waits for the pipeline, which ends its batch; at most %d s", STOP_SECONDS_MAX)


QUICK_JVM = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""A demo wants its first statistics soon: the JVM compiles quickly rather than well."""

BROKER = ["serve", "--listen=127.0.0.1:0", "--log-level=warning"]


def can_run_pipeline() -> bool:
    """Asks the doctor, who tells what is missing."""
    doctor = [sys.executable, "-m", "pykbroker", "pipeline", "doctor"]
    return subprocess.run(doctor, check=False).returncode == 0


def watch(parts: dict[str, Process], stopped: Event) -> int:
    """Until somebody has enough; a part that ends by itself ends the demo."""
    while not stopped.wait(LOOK_SECONDS):
        for name, part in parts.items():
            if part.poll() is not None:
                log.error("the %s has ended by itself, exit code %d", name, part.returncode)
                return 1
    log.info("ends")
    return 0


@contextmanager
def process(
    module: str, *arguments: str, output: int | TextIO | None = None, **environment: str
) -> Iterator[Process]:
    """A part in a session of its own: Ctrl-C is heard by us alone, and we know the right order."""
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


def place_of(part: Process, *, mark: str) -> str:
    """Where a part is to be found: it says so on its first line, when it is ready."""
    assert part.stdout is not None
    words = part.stdout.readline().split()
    found = [it.removeprefix(mark) for it in words if it.startswith(mark)]
    if not found:
        raise RuntimeError("a part did not start; what it said stands above")
    return found[0]
