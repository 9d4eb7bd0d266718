"""Thousands of groups with offsets: memory per group, and loading time after a kill."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import process_usage
from benchmarks.groups import (
    NotServedError,
    ask,
    commit_frame,
    offsets_are_served,
    refused_commits,
    wait_for_coordinator,
)
from benchmarks.measurement import Sample
from benchmarks.rivals import START_TIMEOUT_SECONDS, Broker, Rival, ended_after, seconds_until
from benchmarks.topics import create
from benchmarks.workloads.kinds import LifecycleWorkload, Scale, cost_of

TOPIC = "many-groups"
OFFSETS = dict.fromkeys(range(10), 42)
_GROUPS_PER_QUESTION = 1000


def run(rival: Rival, scratch: Path, scale: Scale) -> Iterator[Sample]:
    shutil.rmtree(scratch, ignore_errors=True)
    with ended_after(rival.make(scratch / "data")) as broker:
        broker.start()
        create(broker, [TOPIC], partitions=len(OFFSETS))
        yield from _measure(broker, [f"group-{number:05}" for number in range(scale.groups)])


def _measure(broker: Broker, groups: list[str]) -> Iterator[Sample]:
    case = f"{len(groups)} groups, {len(OFFSETS)} offsets each"
    wait_for_coordinator(broker.port, groups[:1])
    before = process_usage.own_bytes(broker.pid)
    with cost_of(broker) as cost:
        seconds = _commit(broker.port, groups)
    per_group = (process_usage.own_bytes(broker.pid) - before) / len(groups)
    yield Sample(case=case, metric="commit", unit="s", value=seconds)
    yield Sample(case=case, metric="broker CPU to commit", unit="s", value=cost.cpu_seconds)
    yield Sample(case=case, metric="memory per group", unit="KB", value=per_group / 1e3)
    broker.kill()
    began = time.perf_counter()
    seconds = seconds_until(
        broker, lambda: offsets_are_served(broker.port, groups[-1:], TOPIC, OFFSETS)
    )
    yield Sample(case=case, metric="kill -9 to last group's offsets", unit="s", value=seconds)
    _wait_for_all(broker.port, groups)
    seconds = time.perf_counter() - began
    yield Sample(case=case, metric="kill -9 to all groups' offsets", unit="s", value=seconds)
    resident = process_usage.resident_bytes(broker.pid)
    yield Sample(
        case=f"{case}, reloaded", metric="resident memory", unit="MB", value=resident / 1e6
    )


def _commit(port: int, groups: list[str]) -> float:
    frames = [commit_frame(group, TOPIC, OFFSETS) for group in groups]
    began = time.perf_counter()
    for answer in ask(port, frames):
        if codes := refused_commits(answer):
            raise NotServedError(f"commit failed: {codes}")
    return time.perf_counter() - began


def _wait_for_all(port: int, groups: list[str]) -> None:
    """Waits until each group has its committed offsets."""
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    for first in range(0, len(groups), _GROUPS_PER_QUESTION):
        some = groups[first : first + _GROUPS_PER_QUESTION]
        while not offsets_are_served(port, some, TOPIC, OFFSETS):
            if time.monotonic() > deadline:
                raise NotServedError(f"offsets are missing among {some[0]} to {some[-1]}")
            time.sleep(0.01)


WORKLOAD = LifecycleWorkload(name="many-groups", run=run)
