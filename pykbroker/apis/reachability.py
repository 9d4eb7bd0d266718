"""Brokers and replicas that a client can reach on its listener, for metadata responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker.metadata.image import BrokerImage, PartitionImage

NO_LEADER = -1

MIGRATING, UNASSIGNED, LOST = ((it).to_bytes(16, "big") for it in range(3))
"""Directory ids with a special meaning (KIP-858)."""


class Reachability:
    """The answers for one request. They are kept, because partitions share their replica lists."""

    __slots__ = ("_brokers", "_leaders", "_listener", "_offline", "_usable")

    def __init__(self, call: Call) -> None:
        self._brokers = call.node.image.brokers
        self._listener = call.peer.listener
        self._usable = {
            it.id: it
            for it in self._brokers.values()
            if not it.fenced and self._listener in it.listeners
        }
        self._leaders: dict[int, ErrorCode] = {}
        self._offline: dict[tuple[tuple[int, ...], tuple[bytes, ...]], tuple[int, ...]] = {}

    def error_of_leader(self, leader: int) -> ErrorCode:
        """Returns NONE if clients can connect to the leader, also if it is fenced."""
        code = self._leaders.get(leader)
        if code is None:
            broker = self._brokers.get(leader)
            if broker is None:
                code = ErrorCode.LEADER_NOT_AVAILABLE
            elif self._listener in broker.listeners:
                code = ErrorCode.NONE
            else:
                code = ErrorCode.LISTENER_NOT_FOUND
            self._leaders[leader] = code
        return code

    def offline_replicas(self, partition: PartitionImage) -> tuple[int, ...]:
        """Returns replicas on brokers that are fenced or without the listener or directory."""
        key = partition.replicas, partition.directories
        offline = self._offline.get(key)
        if offline is None:
            offline = self._offline[key] = tuple(
                replica
                for position, replica in enumerate(partition.replicas)
                if replica not in self._usable
                or not has_directory(self._usable[replica], partition.directories, position)
            )
        return offline

    def usable(self, replicas: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the replicas on brokers that are not fenced and have the listener."""
        return tuple(it for it in replicas if it in self._usable)


def has_directory(broker: BrokerImage, directories: tuple[bytes, ...], position: int) -> bool:
    """Returns whether the directory of a replica is online."""
    directory = directories[position] if position < len(directories) else MIGRATING
    if directory in (MIGRATING, UNASSIGNED):
        return True
    return directory != LOST and (not broker.directories or directory in broker.directories)


def controller_id(call: Call) -> int:
    """Returns the node to which clients send administrative requests.

    Clients cannot connect to controllers of other processes. As in Apache Kafka, it is then any
    live broker, which forwards the requests.
    """
    node = call.node
    if node.forward is None:
        return node.image.controller_id
    live = [it.id for it in node.image.brokers.values() if not it.fenced]
    return live[node.randomness.below(len(live))] if live else NO_LEADER
