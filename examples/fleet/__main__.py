"""`python -m examples.fleet`: runs the fleet or one of its parts."""

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
    logging.getLogger("kafka").setLevel(logging.ERROR)  # it warns frequently under load
    for part in ("demo", "dashboard", "notifications"):
        logging.getLogger(part).setLevel(logging.INFO)
    return PARTS.get(options.part, demonstrate)(options)


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="python -m examples.fleet", description=__doc__)
    parts = whole.add_subparsers(dest="part", metavar="PART")
    demo = parts.add_parser("demo", help="Run all parts with their own broker (default)")
    simulate = parts.add_parser("simulate", help="Run the simulated trucks")
    show = parts.add_parser("show", help="Run the location dashboard")
    notify = parts.add_parser("notify", help="Run the notification service")
    create = parts.add_parser("topics", help="Create missing topics")
    for one in (simulate, show, notify, create):
        one.add_argument("--bootstrap", default="127.0.0.1:9092", metavar="HOST:PORT")
    for one in (whole, demo, simulate):
        one.add_argument("--trucks", type=truck_count, default=100, metavar="N")
        one.add_argument("--seed", type=int, default=4, metavar="N", help="Seed of the routes")
        one.add_argument(
            "--speed", type=speed_factor, default=60, metavar="X", help="Speed of simulated time"
        )
    for one in (whole, demo, show):
        one.add_argument(
            "--port", type=int, default=0, help="Port of the page (default: free port)"
        )
    for one in (whole, demo):
        one.add_argument("--without-pipeline", action="store_true", help="Do not start Spark")
    notify.add_argument("--name", default="notifier", help="Unique name of the service")
    return whole


def truck_count(text: str) -> int:
    if not 1 <= (number := int(text)) <= TRUCKS_MAX:
        raise argparse.ArgumentTypeError(f"must be 1 to {TRUCKS_MAX}")
    return number


def speed_factor(text: str) -> float:
    if not 1 <= (times := float(text)) <= SPEED_MAX:
        raise argparse.ArgumentTypeError(f"must be 1 to {SPEED_MAX}")
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
    drive(producer, plan, speed=options.speed, is_stopped=stop_signal().is_set)
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
    """Returns an event that SIGINT and SIGTERM set."""
    stopped = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    return stopped


PARTS = {"simulate": simulate, "show": show, "notify": notify, "topics": create_topics}

if __name__ == "__main__":
    sys.exit(main())
