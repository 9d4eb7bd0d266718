"""The command `serve`: starts a broker and runs it until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pykbroker.apis.offer import EVERYTHING
from pykbroker.broker import Broker, CannotStart
from pykbroker.cli.failure import CannotBegin, CommandFailed
from pykbroker.cli.process import (
    StopSignals,
    exit_on_sigterm,
    processors,
    seconds_since_process_start,
)
from pykbroker.cli.serve_settings import given_properties
from pykbroker.descriptors import LIMIT_SMALL, raise_open_file_limit, shares_of
from pykbroker.environment import Environment
from pykbroker.event_loop import new_event_loop
from pykbroker.settings import InvalidSetting, is_own_controller, load_settings
from pykbroker.telemetry import LogFormat, configure_logging
from pykbroker_storage.filesystem import FileSystem, VolatileDisk

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from pykbroker.apis.offer import Offer
    from pykbroker.settings import Settings
    from pykbroker.testing.control.served_broker import ServedBroker


logger = logging.getLogger(__name__)

BUSY_POLLING_PROCESSORS_MIN = 2
"""On one processor, a polling event loop would take CPU time from its clients."""

COLLECTOR_THRESHOLDS = (700, 10, 10_000)
"""Thresholds of the garbage collector: full collections are 1000 times rarer than by default.

A full collection during a large request takes up to 170 ms. By default each large request causes a
dozen, with these thresholds about one in a hundred does. Most garbage is young or has no cycles.
"""


def serve(options: Namespace) -> int:
    configure_logging(options.log_level, LogFormat(options.log_format))
    raise_limits()
    exit_on_sigterm()  # until the event loop handles signals
    with data_directory(options) as data:
        try:
            settings = load_settings(*given_properties(options, data))
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(serve_until_stopped(options, settings, data))
        except (CannotStart, InvalidSetting) as reason:
            raise CannotBegin(str(reason)) from reason
    return 0


def raise_limits() -> None:
    limit = raise_open_file_limit()
    if limit < LIMIT_SMALL:
        shares = shares_of(limit)
        logger.warning(
            "open file limit (ulimit -n) is %d: at most %d connections, %d descriptors for log "
            "files; raise the hard limit",
            limit,
            *shares,
        )


@contextmanager
def data_directory(options: Namespace) -> Iterator[str | None]:
    """Yields the data directory; with --ephemeral, a temporary one that is deleted at exit."""
    if not options.ephemeral:
        yield options.data
        return
    import shutil  # noqa: PLC0415 - takes 5 ms, only needed for --ephemeral
    import tempfile  # noqa: PLC0415 - likewise

    directory = tempfile.mkdtemp(prefix="pykbroker-")
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def serve_until_stopped(options: Namespace, settings: Settings, data: str | None) -> None:
    signals = StopSignals(discard=data if options.ephemeral else None)
    signals.listen()
    with contextlib.ExitStack() as stack:
        sends_heartbeats = not is_own_controller(settings)
        if sends_heartbeats:  # also before it is ready
            import pykbroker.cluster_member  # noqa: F401, PLC0415  # blocks the event loop

            gc.set_threshold(*COLLECTOR_THRESHOLDS)
            watch_event_loop(stack)
        broker = await signals.unless_stopped(start_broker(options, settings))
        if broker is None:
            return
        await run_until_stopped(options, signals, broker, stack, is_watched=sends_heartbeats)


async def run_until_stopped(
    options: Namespace,
    signals: StopSignals,
    broker: Broker | ServedBroker,
    stack: contextlib.ExitStack,
    *,
    is_watched: bool,
) -> None:
    try:
        if options.port_file:
            write_port_file(options.port_file, broker)
        gc.freeze()  # excludes long-lived objects from garbage collections
        gc.set_threshold(*COLLECTOR_THRESHOLDS)
        print(ready_line(broker), flush=True)
        if not is_watched:
            watch_event_loop(stack)
        await stopped_or_failed(signals, broker)
    finally:
        await broker.stop()


def watch_event_loop(stack: contextlib.ExitStack) -> None:
    """Logs when the event loop is blocked, until the stack is closed."""
    from pykbroker.cli.loop_watch import LoopWatch  # noqa: PLC0415  # after the ready line

    watch = LoopWatch()
    watch.start()
    stack.callback(watch.stop)


async def stopped_or_failed(signals: StopSignals, broker: Broker | ServedBroker) -> None:
    """Returns after a stop signal; raises CommandFailed after a failure of the broker."""
    if not isinstance(broker, Broker):
        await signals.stop_requested()
        return
    failure = await signals.unless_stopped(broker.until_failed())
    if failure is not None:
        raise CommandFailed(failure)


async def start_broker(options: Namespace, settings: Settings) -> Broker | ServedBroker:
    if options.control:
        return await start_controlled(options, settings)
    offer = offer_of(options.as_version) if options.as_version else EVERYTHING
    broker = await Broker.start(
        settings,
        Environment(
            filesystem=VolatileDisk() if options.ephemeral else FileSystem(),
            offer=offer,
            busy_polls=processors() >= BUSY_POLLING_PROCESSORS_MIN,
        ),
        cluster_id=options.cluster_id,
    )
    try:
        await broker.create_topics(options.topics)
    except BaseException:
        await broker.stop()
        raise
    return broker


def offer_of(version: str) -> Offer:
    """Returns the APIs and versions of an Apache Kafka release."""
    from pykbroker.testing.profiles.offers import UnknownVersion, offer_as  # noqa: PLC0415  # likewise

    try:
        return offer_as(version)
    except UnknownVersion as reason:
        raise CannotBegin(f"--as-version: {reason}") from reason


async def start_controlled(options: Namespace, settings: Settings) -> ServedBroker:
    """Starts a broker with a control port."""
    from pykbroker.testing.control.served_broker import ServedBroker  # noqa: PLC0415  # likewise

    version = options.as_version
    broker = ServedBroker(settings, options.topics, options.control, as_version=version)
    await broker.start()
    return broker


def ready_line(broker: Broker | ServedBroker) -> str:
    control = getattr(broker, "control_address", None)
    return (
        f"pykbroker ready bootstrap={broker.bootstrap} node={broker.node_id} "
        f"cluster={broker.cluster_id}{f' control={control}' if control else ''} "
        f"in {seconds_since_process_start():.2f} s"
    )


def write_port_file(name: str, broker: Broker | ServedBroker) -> None:
    """Writes the port atomically, so that a reader never sees a partial file.

    Writes directly to a pipe or device.
    """
    from pathlib import Path  # noqa: PLC0415  # takes 3 ms, rarely needed

    path = Path(name)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(f"{broker.bound_port}\n")
            return
        temporary.write_text(f"{broker.bound_port}\n")
        temporary.replace(path)
    except OSError as reason:
        raise CannotBegin(f"--port-file {path}: {reason.strerror}") from reason
