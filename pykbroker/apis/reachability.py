"""Brokers and replicas that a client can reach on its listener, for metadata responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker.apis.node import Call
    from pykbroker.metadata.image import BrokerImage

    Placement: TypeAlias = tuple[tuple[int, ...], tuple[bytes, ...]]
    """The replicas of a partition and their directories."""

NO_LEADER = -1

MIGRATING, UNASSIGNED, LOST = ((it).to_bytes(16, "big") for it in range(3))
"""Directory ids with a special meaning (KIP-858)."""


class Reachability:
    """The answers for one request. They are kept, because partitions share their replica lists."""

    __slots__ = ("_usable", "leaders", "offline")

    def __init__(self, call: Call) -> None:
        brokers, listener = call.node.image.brokers, call.peer.listener
        self._usable = {
            it.id: it for it in brokers.values() if not it.fenced and listener in it.listeners
        }
        self.leaders: Mapping[int, ErrorCode] = Leaders(brokers, listener)
        """NONE if clients can connect to a leader, also if it is fenced."""
        self.offline: Mapping[Placement, tuple[int, ...]] = OfflineReplicas(self._usable)
        """Replicas on brokers that are fenced or without the listener or directory."""

    def usable(self, replicas: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the replicas on brokers that are not fenced and have the listener."""
        return tuple(it for it in replicas if it in self._usable)


class Leaders(dict[int, ErrorCode]):
    __slots__ = ("_brokers", "_listener")

    def __init__(self, brokers: Mapping[int, BrokerImage], listener: str) -> None:
        self._brokers = brokers
        self._listener = listener

    def __missing__(self, leader: int) -> ErrorCode:
        broker = self._brokers.get(leader)
        if broker is None:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        elif self._listener in broker.listeners:
            code = ErrorCode.NONE
        else:
            code = ErrorCode.LISTENER_NOT_FOUND
        self[leader] = code
        return code


class OfflineReplicas(dict["Placement", tuple[int, ...]]):
    __slots__ = ("_usable",)

    def __init__(self, usable: Mapping[int, BrokerImage]) -> None:
        self._usable = usable

    def __missing__(self, placement: Placement) -> tuple[int, ...]:
        replicas, directories = placement
        offline = self[placement] = tuple(
            replica
            for position, replica in enumerate(replicas)
            if replica not in self._usable
            or not has_directory(self._usable[replica], directories, position)
        )
        return offline


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
