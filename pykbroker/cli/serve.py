"""The command that is the broker: from options to settings, from a start to a clean end."""

from __future__ import annotations

import asyncio
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
    end_on_sigterm,
    processors,
    seconds_since_process_start,
)
from pykbroker.cli.serve_settings import given_properties
from pykbroker.descriptors import LIMIT_SMALL, raise_open_file_limit, shares_of
from pykbroker.environment import Environment
from pykbroker.event_loop import new_event_loop
from pykbroker.settings import InvalidSetting, load_settings
from pykbroker.telemetry import LogFormat, configure_logging
from pykbroker_storage.filesystem import FileSystem, VolatileDisk

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from pykbroker.apis.offer import Offer
    from pykbroker.settings import Settings
    from pykbroker.testing.control.served_broker import ServedBroker


logger = logging.getLogger(__name__)

PROCESSORS_TO_BE_ATTENTIVE = 2
"""With less, whoever the broker looks out for would have to wait for it."""

COLLECTOR_THRESHOLDS = (700, 10, 10_000)
"""Full collections are a thousand times rarer than by default.

A full collection while a large request is served takes up to 170 ms; by default, each such request
causes a dozen, with this threshold one in about a hundred. Most garbage is young or has no cycles.
"""


def serve(options: Namespace) -> int:
    configure_logging(options.log_level, LogFormat(options.log_format))
    raise_limits()
    end_on_sigterm()  # until the event loop listens for it
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
            "open file limit (ulimit -n) is %d: at most %d connections, and %d file descriptors "
            "for log files; raise the hard limit for more",
            limit,
            *shares,
        )


@contextmanager
def data_directory(options: Namespace) -> Iterator[str | None]:
    """A directory that lives as long as this command, if it was asked for."""
    if not options.ephemeral:
        yield options.data
        return
    import shutil  # noqa: PLC0415 - 5 ms, and of no use to a broker that keeps its data
    import tempfile  # noqa: PLC0415 - likewise

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
            write_port_file(options.port_file, broker)
        gc.freeze()  # what lives as long as the process need not be looked at again and again
        gc.set_threshold(*COLLECTOR_THRESHOLDS)
        print(ready_line(broker), flush=True)
        await stopped_or_failed(signals, broker)
    finally:
        await broker.stop()


async def stopped_or_failed(signals: StopSignals, broker: Broker | ServedBroker) -> None:
    """Returns when the process is asked to stop; raises CommandFailed when it has to."""
    if not isinstance(broker, Broker):
        await signals.stop_asked()
    elif await signals.unless_stopped(broker.directory_lost.wait()):
        raise CommandFailed(f"data directory {broker.directory.path} is lost; stopped uncleanly")


async def start_broker(options: Namespace, settings: Settings) -> Broker | ServedBroker:
    if options.control:
        return await start_controlled(options, settings)
    offer = wanted_offer(options.as_version) if options.as_version else EVERYTHING
    broker = await Broker.start(
        settings,
        Environment(
            filesystem=VolatileDisk() if options.ephemeral else FileSystem(),
            offer=offer,
            busy_polls=processors() >= PROCESSORS_TO_BE_ATTENTIVE,
        ),
    )
    try:
        await broker.create_topics(options.topics)
    except BaseException:
        await broker.stop()
        raise
    return broker


def wanted_offer(version: str) -> Offer:
    """What an older broker would offer; only who asks for it pays for it."""
    from pykbroker.testing.profiles.offers import UnknownVersion, offer_as  # noqa: PLC0415  # likewise

    try:
        return offer_as(version)
    except UnknownVersion as reason:
        raise CannotBegin(f"--as-version: {reason}") from reason


async def start_controlled(options: Namespace, settings: Settings) -> ServedBroker:
    """A broker that fails on command; only who asks for it pays for it."""
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
    """Who waits for the file finds it whole; a pipe or a device stays what it is."""
    from pathlib import Path  # noqa: PLC0415  # 3 ms, and seldom asked for

    path = Path(name)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(f"{broker.bound_port}\n")
            return
        unfinished.write_text(f"{broker.bound_port}\n")
        unfinished.replace(path)
    except OSError as reason:
        raise CannotBegin(f"--port-file {path}: {reason.strerror}") from reason
