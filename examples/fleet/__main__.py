"""`python -m examples.fleet`: the whole fleet, or one of its parts."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from threading import Event
from typing import TYPE_CHECKING

from . import topics

if TYPE_CHECKING:
    from collections.abc import Sequence


TRUCKS_MAX = 100_000
SPEED_MAX = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("kafka").setLevel(logging.ERROR)  # it warns of every busy moment
    for part in ("demo", "dashboard", "notifications"):
        logging.getLogger(part).setLevel(logging.INFO)
    return PARTS.get(options.part, demonstrate)(options)


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="python -m examples.fleet", description=__doc__)
    parts = whole.add_subparsers(dest="part", metavar="PART")
    demo = parts.add_parser("demo", help="all of it, with a broker of its own (the default)")
    simulate = parts.add_parser("simulate", help="the trucks")
    show = parts.add_parser("show", help="the location dashboard")
    notify = parts.add_parser("notify", help="the notification service")
    create = parts.add_parser("topics", help="make the topics that are not there yet")
    for one in (simulate, show, notify, create):
        one.add_argument("--bootstrap", default="127.0.0.1:9092", metavar="HOST:PORT")
    for one in (whole, demo, simulate):
        one.add_argument("--trucks", type=some, default=100, metavar="N")
        one.add_argument("--seed", type=int, default=4, metavar="N", help="same seed, same ways")
        one.add_argument(
            "--speed", type=fast, default=60, metavar="X", help="times as fast as the clock"
        )
    for one in (whole, demo, show):
        one.add_argument("--port", type=int, default=0, help="of the page (default: a free one)")
    for one in (whole, demo):
        one.add_argument("--without-pipeline", action="store_true", help="do not start Spark")
    notify.add_argument("--name", default="notifier", help="each running service has its own")
    return whole


def some(text: str) -> int:
    if not 1 <= (number := int(text)) <= TRUCKS_MAX:
        raise argparse.ArgumentTypeError(f"1 to {TRUCKS_MAX}")
    return number


def fast(text: str) -> float:
    if not 1 <= (times := float(text)) <= SPEED_MAX:
        raise argparse.ArgumentTypeError(f"1 to {SPEED_MAX}")
    return times


def demonstrate(options: argparse.Namespace) -> int:
    from .demo import run

    return run(
        stop_signal(),
        simulator=[f"--{name}={getattr(options, name)}" for name in ("trucks", "seed", "speed")],
        port=options.port,
        with_pipeline=not options.without_pipeline,
    )


def create_topics(options: argparse.Namespace) -> int:
    topics.create(options.bootstrap)
    return 0


def simulate(options: argparse.Namespace) -> int:
    from kafka import KafkaProducer

    from .simulator import Plan, drive

    plan = Plan(trucks=options.trucks, seed=options.seed)
    producer = KafkaProducer(bootstrap_servers=options.bootstrap, acks="all", linger_ms=50)
    drive(producer, plan, speed=options.speed, is_over=stop_signal().is_set)
    producer.close()
    return 0


def notify(options: argparse.Namespace) -> int:
    from .notifications import run

    run(options.bootstrap, options.name, stop_signal())
    return 0


def show(options: argparse.Namespace) -> int:
    from .dashboard import run

    async def until_stopped() -> None:
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stopped.set))
        await run(options.bootstrap, stopped, port=options.port)

    asyncio.run(until_stopped())
    return 0


def stop_signal() -> Event:
    """Set by Ctrl-C, or when somebody ends us politely."""
    stopped = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    return stopped


PARTS = {"simulate": simulate, "show": show, "notify": notify, "topics": create_topics}

if __name__ == "__main__":
    sys.exit(main())
