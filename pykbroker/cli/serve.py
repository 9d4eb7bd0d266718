"""The command that is the broker: from options to settings, from a start to a clean end."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pykbroker.broker import Broker, CannotStart
from pykbroker.cli.failure import CannotBegin
from pykbroker.cli.process import (
    StopSignals,
    end_on_sigterm,
    new_event_loop,
    seconds_since_process_start,
)
from pykbroker.cli.serve_settings import given_properties
from pykbroker.settings import InvalidSetting, load_settings
from pykbroker.telemetry import LogFormat, configure_logging

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from pykbroker.settings import Settings


def serve(options: Namespace) -> int:
    configure_logging(options.log_level, LogFormat(options.log_format))
    end_on_sigterm()  # until the event loop listens for it
    with data_directory(options) as data:
        try:
            settings = load_settings(*given_properties(options, data))
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(serve_until_stopped(options, settings, data))
        except (CannotStart, InvalidSetting) as reason:
            raise CannotBegin(str(reason)) from reason
    return 0


@contextmanager
def data_directory(options: Namespace) -> Iterator[str | None]:
    """A directory that lives as long as this command, if it was asked for."""
    if not options.ephemeral:
        yield options.data
        return
    directory = tempfile.mkdtemp(prefix="pykbroker-")
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def serve_until_stopped(options: Namespace, settings: Settings, data: str | None) -> None:
    signals = StopSignals(discard=data if options.ephemeral else None)
    signals.listen()
    broker = await signals.unless_stopped(start_broker(options, settings))
    if broker is None:
        return
    try:
        if options.port_file:
            write_port_file(Path(options.port_file), broker)
        gc.freeze()  # what lives as long as the process need not be looked at again and again
        print(ready_line(broker), flush=True)
        await signals.stop_asked()
    finally:
        await broker.stop()


async def start_broker(options: Namespace, settings: Settings) -> Broker:
    broker = await Broker.start(settings, ephemeral=options.ephemeral)
    try:
        await broker.create_topics(options.topics)
    except BaseException:
        await broker.stop()
        raise
    return broker


def ready_line(broker: Broker) -> str:
    return (
        f"pykbroker ready bootstrap={broker.bootstrap} node={broker.node_id} "
        f"cluster={broker.cluster_id} in {seconds_since_process_start():.2f} s"
    )


def write_port_file(path: Path, broker: Broker) -> None:
    """Who waits for the file finds it whole."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(f"{broker.bound_port}\n")
        unfinished.replace(path)
    except OSError as reason:
        raise CannotBegin(f"--port-file {path}: {reason.strerror}") from reason
