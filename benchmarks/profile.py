"""CPU profile of PyKBroker by workload: `python -m benchmarks.profile`.

The broker runs in this process, the client in another one. Each workload runs twice: without a
profiler for its cost, and with cProfile, whose overhead per call distorts the times, so only the
order of the rows is meaningful.
"""

import argparse
import asyncio
import cProfile
import gc
import io
import pstats
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pykbroker.broker import Broker
from pykbroker.event_loop import new_event_loop
from pykbroker.settings import load_settings

_CHECKOUT = Path(__file__).parents[1]
_REQUESTS = 20_000
_RECORDS, _RECORD_BYTES = 1_000_000, 100
_PARTITIONS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A client with its arguments."""

    client: str
    arguments: str
    amount: int
    unit: str


WORKS = {
    "produce-one": Work(
        client="one_record",
        arguments=f"{{port}} {{topic}} 1 20 {_REQUESTS}",
        amount=_REQUESTS,
        unit="request",
    ),
    "produce-bulk": Work(
        client="librdkafka",
        arguments=f"produce 127.0.0.1:{{port}} {{topic}} 1 {_RECORDS} {_RECORD_BYTES}",
        amount=_RECORDS,
        unit="record",
    ),
    "fetch-bulk": Work(
        client="librdkafka",
        arguments=f"consume 127.0.0.1:{{port}} {{topic}} 1 {_RECORDS} {_RECORD_BYTES}",
        amount=_RECORDS,
        unit="record",
    ),
    "list-offsets": Work(
        client="list_offsets",
        arguments=f"{{port}} {{topic}} 1 20 {_REQUESTS}",
        amount=_REQUESTS,
        unit="request",
    ),
    "offset-commit": Work(
        client="offset_commits",
        arguments=f"{{port}} {{topic}} 1 20 {_REQUESTS}",
        amount=_REQUESTS,
        unit="request",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(WORKS), help="one kind of work")
    parser.add_argument("--rows", type=int, default=20, help="functions to show (default 20)")
    asked = parser.parse_args()
    for name in asked.only or WORKS:
        with (
            tempfile.TemporaryDirectory(prefix="pykbroker-profile-") as data,
            asyncio.Runner(loop_factory=new_event_loop) as runner,
        ):
            print(runner.run(profile(name, WORKS[name], data, asked.rows)), flush=True)


async def profile(name: str, work: Work, data: str, rows: int) -> str:
    """Prints the table of one workload."""
    overrides = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": data,
        "group.initial.rebalance.delay.ms": "0",
    }
    broker = await Broker.start(load_settings({}, overrides))
    try:
        topics = [("profiled", _PARTITIONS, 1), ("alone", _PARTITIONS, 1)]
        await broker.create_topics(topics)
        gc.freeze()
        if name == "fetch-bulk":
            for topic, _, _ in topics:
                await run_client(WORKS["produce-bulk"], broker, topic)
        began = time.process_time()
        await run_client(work, broker, "alone")
        cost_us = (time.process_time() - began) / work.amount * 1e6
        profiler = cProfile.Profile(time.thread_time)  # excludes other processes
        profiler.enable()
        await run_client(work, broker, "profiled")
        profiler.disable()
    finally:
        await broker.stop()
    title = f"## {name}: {cost_us:.3g} us of CPU per {work.unit}, {work.amount} of them"
    return f"{title}\n\n{table(profiler, rows)}"


async def run_client(work: Work, broker: Broker, topic: str) -> None:
    port = broker.bootstrap.rpartition(":")[2]
    arguments = work.arguments.format(port=port, topic=topic).split()
    command = [sys.executable, "-m", f"benchmarks.clients.{work.client}", *arguments]
    client = await asyncio.create_subprocess_exec(
        *command, cwd=_CHECKOUT, stdout=asyncio.subprocess.PIPE
    )
    await client.communicate()
    if client.returncode != 0:
        raise SystemExit(f"{work.client}: exit code {client.returncode}")


def table(profiler: cProfile.Profile, rows: int) -> str:
    """Returns the functions with the most own time, without called functions."""
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(rows)
    lines = text.getvalue().replace(f"{_CHECKOUT}/", "").splitlines()
    return "\n".join(line for line in lines if line.strip())


if __name__ == "__main__":
    main()
