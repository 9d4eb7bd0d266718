"""Invariants of a simulated cluster, checked while it runs and at its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pykbroker.metadata.image import NO_LEADER
from pykbroker.testing.simulation import Kind
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.produce import ProduceResponse
from pykbroker_protocol.records.batch import iterate_batches
from tests.simulation.clusters.clients import TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.apis import Api
    from pykbroker.testing.simulation import SimulatedNode, Simulation
    from pykbroker.testing.simulation.controller_model import ControllerModel
    from pykbroker_protocol.message import Message

FENCED_SECONDS_MAX = 0.5
"""Time in which a fenced leader may respond: its clock may be slower than the controller's."""

READ_BYTES = 1 << 20
ANY_EPOCH = -2
LOSSES = frozenset({Kind.POWER_CUT, Kind.WIPE})


@dataclass
class Observations:
    """Violations that were seen while the cluster ran."""

    violations: list[str] = field(default_factory=list)
    unclean_elections: int = 0


class UncleanStops:
    """Admits power losses on fewer than min.insync.replicas nodes at once.

    A node counts from its unclean stop until it is in sync again for all its partitions. A killed
    node counts too, while another one has lost power: it is not eligible after an unclean restart,
    although its log is complete.
    """

    def __init__(self, world: Simulation, nodes: Sequence[SimulatedNode], min_in_sync: int) -> None:
        assert world.controllers is not None
        self._model = world.controllers.model
        self._nodes = {it.name: number for number, it in enumerate(nodes, 1)}
        self._counted = {it: it.unclean_stops for it in nodes}
        self._min_in_sync = min_in_sync
        self._stopped: dict[str, tuple[Kind, int]] = {}

    def admits(self, kind: Kind, node: SimulatedNode) -> bool:
        if kind is Kind.RESTART:
            return True
        self._count_failures()
        self._forget_recovered()
        others = [it for name, (it, _) in self._stopped.items() if name != node.name]
        loses = not LOSSES.isdisjoint((kind, *others))
        if loses and len(others) + 1 >= self._min_in_sync:
            return False
        self._stopped[node.name] = kind, self._epoch(node.name)
        self._counted[node] = node.unclean_stops + 1
        return True

    def _count_failures(self) -> None:
        """Counts brokers that have ended by themselves, for example after a disk error."""
        for node, counted in self._counted.items():
            if node.unclean_stops > counted:
                self._counted[node] = node.unclean_stops
                self._stopped.setdefault(node.name, (Kind.KILL, ANY_EPOCH))

    def _forget_recovered(self) -> None:
        for name, (_, epoch) in list(self._stopped.items()):
            if self._epoch(name) != epoch and is_in_sync(self._model, self._nodes[name]):
                del self._stopped[name]

    def _epoch(self, name: str) -> int:
        broker = self._model.image.brokers.get(self._nodes[name])
        return -1 if broker is None else broker.epoch


def is_in_sync(model: ControllerModel, broker_id: int) -> bool:
    return all(
        broker_id in partition.in_sync
        for topic in model.image.topics.values()
        for partition in topic.partitions
        if broker_id in partition.replicas
    )


def observe_answers(world: Simulation, nodes: Sequence[SimulatedNode], found: Observations) -> None:
    """Notes each record that a fenced leader acknowledges."""
    assert world.controllers is not None
    model = world.controllers.model
    numbers = {it.name: number for number, it in enumerate(nodes, 1)}
    fenced_since: dict[int, float] = {}

    def note(host: str, api: Api, answer: Message) -> None:
        del api
        now = world.seconds
        for broker in model.image.brokers.values():
            if broker.fenced:
                fenced_since.setdefault(broker.id, now)
            else:
                fenced_since.pop(broker.id, None)
        if not isinstance(answer, ProduceResponse):
            return
        since = fenced_since.get(numbers[host])
        is_accepted = any(
            row.error_code == ErrorCode.NONE
            for topic in answer.responses
            for row in topic.partition_responses
        )
        if is_accepted and since is not None and now - since > FENCED_SECONDS_MAX:
            found.violations.append(
                f"{host} acknowledges a record {now - since:.1f} s after its fencing"
            )

    world.answer_observers.append(note)


def observe_elections(world: Simulation, found: Observations) -> None:
    """Notes each clean election of a replica that is neither in sync nor eligible."""
    assert world.controllers is not None
    model = world.controllers.model
    note, before = model.note, dict(model.image.topics)

    def check(line: str) -> None:
        note(line)
        for name, topic in model.image.topics.items():
            earlier = before.get(name)
            if earlier is topic:
                continue
            if earlier is None:
                before[name] = topic
                continue
            for partition in topic.partitions:
                old = earlier.partitions[partition.index]
                if partition.leader in (NO_LEADER, old.leader):
                    continue
                if partition.leader in (*old.in_sync, *old.eligible):
                    continue
                if partition.leader_recovery_state:
                    found.unclean_elections += 1
                else:
                    found.violations.append(f"{name}-{partition.index}: {old} elects {partition}")
            before[name] = topic

    model.note = check


# --- logs


def stored_bytes(node: SimulatedNode, index: int, start: int, end: int) -> bytes:
    """Returns the batches of a replica between two offsets."""
    partition = node.partition(TOPIC, index)
    assert partition is not None, f"{node.name} has no replica of {TOPIC}-{index}"
    found, offset = bytearray(), start
    while offset < end:
        read = partition.log.read(offset, bytes_max=READ_BYTES, end_offset=end)
        if read is None:
            break
        data = bytes(read.view)
        found += data
        offset = next_offset(data)
    return bytes(found)


def next_offset(data: bytes) -> int:
    *_, last = iterate_batches(data)
    return last.next_offset


def differences(nodes: Sequence[SimulatedNode], partitions: int) -> list[str]:
    """Compares the logs of running replicas byte for byte below their lowest high watermark."""
    found = []
    running = [it for it in nodes if it.is_running]
    for index in range(partitions):
        replicas = [it for it in running if it.partition(TOPIC, index) is not None]
        if len(replicas) < 2:
            continue
        end = min(it.high_watermark(TOPIC, index) for it in replicas)
        start = max(it.log_start(TOPIC, index) for it in replicas)
        logs = {it.name: stored_bytes(it, index, start, end) for it in replicas}
        if len(set(logs.values())) > 1:
            sizes = {name: len(data) for name, data in logs.items()}
            found.append(f"{TOPIC}-{index}: replicas differ below offset {end}, sizes {sizes}")
    return found
