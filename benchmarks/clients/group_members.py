"""Members of a group on separate connections; measures the time until the group is stable."""

import argparse
import asyncio
import gc
import json
import time
from collections.abc import Callable, Coroutine
from uuid import uuid4

from benchmarks.clients.classic_member import ClassicMember
from benchmarks.clients.consumer_member import ConsumerMember
from benchmarks.clients.membership import Group, Member, Peer, RefusedError
from benchmarks.groups import wait_for_coordinator
from pykbroker.event_loop import new_event_loop

STABLE_SECONDS_MAX = 90.0
KINDS: dict[str, Callable[[Group, Peer], Member]] = {
    "classic": ClassicMember,
    "consumer": ConsumerMember,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("protocol", choices=list(KINDS))
    parser.add_argument("port", type=int)
    parser.add_argument("topic")
    parser.add_argument("partitions", type=int)
    parser.add_argument("members", type=int)
    asked = parser.parse_args()
    group = Group(name=f"rebalance-{uuid4().hex}", topic=asked.topic, partitions=asked.partitions)
    wait_for_coordinator(asked.port, [group.name])
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        work = rebalance(group, KINDS[asked.protocol], asked.port, asked.members)
        try:
            print(json.dumps(runner.run(work)))
        except* (RefusedError, ConnectionError, TimeoutError) as failed:
            raise SystemExit(f"{failed.exceptions[0]!r}") from failed


async def rebalance(
    group: Group, kind: Callable[[Group, Peer], Member], port: int, members: int
) -> dict[str, float]:
    """All members except one join at once; the last one joins when the group is stable."""
    joining = [kind(group, await Peer.connect(port)) for _ in range(members)]
    gc.freeze()
    gc.disable()
    cpu_began = time.process_time()
    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        living: list[asyncio.Task[None]] = []
        together = await stable_after(group, joining[:-1], tasks.create_task, living)
        one_more = await stable_after(group, joining[-1:], tasks.create_task, living)
        elapsed = time.perf_counter() - began
        cpu_seconds = time.process_time() - cpu_began
        for task in living:
            task.cancel()
    await type(joining[0]).leave(joining)
    for member in joining:
        member.peer.close()
    return {
        "together_seconds": together,
        "one_more_seconds": one_more,
        "seconds": elapsed,
        "client_cpu_seconds": cpu_seconds,
    }


async def stable_after(
    group: Group,
    joining: list[Member],
    start: Callable[[Coroutine[None, None, None]], asyncio.Task[None]],
    living: list[asyncio.Task[None]],
) -> float:
    """Measures from the last join until all members have their partitions."""
    stable = group.expect(len(living) + len(joining))
    living += [start(member.run()) for member in joining]
    async with asyncio.timeout(STABLE_SECONDS_MAX):
        stable_at = await stable
    return stable_at - max(member.joined_at for member in joining)


if __name__ == "__main__":
    main()
