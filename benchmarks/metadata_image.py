"""Cost of partitions in the metadata: `python -m benchmarks.metadata_image PARTITIONS TOPICS`.

Creates partitions in a controller with a subscriber that has an image of its own, as a broker has.
Prints the CPU time of creating and of loading them, and the memory of both images per partition.
"""

import asyncio
import gc
import sys
import tempfile
import time
import tracemalloc

from pykbroker.clock import SystemClock, SystemRandomness
from pykbroker.controller.controller import Controller
from pykbroker.controller_access import NewTopic
from pykbroker.settings import load_settings
from pykbroker_protocol.errors import Refusal
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.log_directory import LogDirectory

PARTITIONS_PER_COMMAND = 1_000
NO_SNAPSHOT = 1 << 40


def opened_directory(path: str) -> LogDirectory:
    return LogDirectory.open(
        path,
        cluster_id="benchmark",
        node_id=1,
        new_directory_id=b"d" * 16,
        configuration=LogConfiguration(),
    )


async def opened_controller(directory: LogDirectory) -> Controller:
    return await Controller.open(
        directory,
        settings=load_settings({"node.id": "1", "log.dirs": directory.path}),
        clock=SystemClock(),
        randomness=SystemRandomness(),
        durable=False,
        snapshot_after_bytes=NO_SNAPSHOT,
    )


async def create(controller: Controller, partitions: int, topics: int) -> None:
    each = partitions // topics
    names = [f"topic-{number}" for number in range(topics)]
    at_once = max(1, PARTITIONS_PER_COMMAND // each)
    for first in range(0, topics, at_once):
        batch = [NewTopic(name=it, partitions=each) for it in names[first : first + at_once]]
        for outcome in await controller.create_topics(batch):
            assert not isinstance(outcome, Refusal), outcome


async def measure(path: str, partitions: int, topics: int, *, memory: bool) -> tuple[float, int]:
    """Returns CPU seconds of the creation, and bytes if `memory` is traced (which costs CPU)."""
    directory = opened_directory(path)
    controller = await opened_controller(directory)
    await controller.join(listeners={"PLAINTEXT": ("127.0.0.1", 9092)}, rack=None)
    image = controller.subscribe(lambda delta: image.apply(delta))  # noqa: PLW0108  # bound later
    if memory:
        gc.collect()
        tracemalloc.start()
    began = time.process_time()
    await create(controller, partitions, topics)
    seconds = time.process_time() - began
    gc.collect()
    used_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await controller.close()
    directory.close({}, now_ms=0)
    return seconds, used_bytes


async def loading_seconds(path: str) -> float:
    directory = opened_directory(path)
    began = time.process_time()
    controller = await opened_controller(directory)
    controller.subscribe(lambda _: None)
    seconds = time.process_time() - began
    directory.abandon()
    return seconds


def main() -> None:
    partitions, topics = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as path:
        creating, _ = asyncio.run(measure(path, partitions, topics, memory=False))
        loading = asyncio.run(loading_seconds(path))
    with tempfile.TemporaryDirectory() as path:
        _, used_bytes = asyncio.run(measure(path, partitions, topics, memory=True))
    print(
        f"{partitions} partitions in {topics} topics: created in {creating:.3f} s of CPU, "
        f"loaded in {loading:.3f} s, {used_bytes / partitions:.0f} B per partition"
    )


if __name__ == "__main__":
    main()
