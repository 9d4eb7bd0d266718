"""Persistent state of a voter (`quorum-state`): epoch, leader and vote.

It is flushed before a vote is answered and before a record of the epoch is appended.
"""

from __future__ import annotations

import json
from typing import Self

from pykbroker_protocol.late_dataclass import dataclass

NO_VOTER = -1
DATA_VERSION = 0
"""Version 0 is for static voters; version 1 adds directory ids for dynamic voters."""


class MalformedQuorumState(ValueError):
    """The file is not a valid voter state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """State of a voter; the defaults are the state before the first election."""

    leader_id: int = NO_VOTER
    leader_epoch: int = 0
    voted_id: int = NO_VOTER
    voters: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """Encodes as Apache Kafka does; cluster id and applied offset are not used."""
        values = {
            "clusterId": "",
            "leaderId": self.leader_id,
            "leaderEpoch": self.leader_epoch,
            "votedId": self.voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in self.voters],
            "data_version": DATA_VERSION,
        }
        return json.dumps(values, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        try:
            values = json.loads(data)
            if values["data_version"] != DATA_VERSION:
                raise MalformedQuorumState(
                    f"data version {values['data_version']} is not supported"
                )
            return cls(
                leader_id=int(values["leaderId"]),
                leader_epoch=int(values["leaderEpoch"]),
                voted_id=int(values["votedId"]),
                voters=tuple(int(it["voterId"]) for it in values["currentVoters"] or ()),
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise MalformedQuorumState(str(problem)) from problem


def next_epoch(state: QuorumState, *, node_id: int, last_epoch_in_log: int) -> QuorumState:
    """Returns the state after the only voter elected itself, in an unused epoch."""
    return QuorumState(
        leader_id=node_id,
        leader_epoch=max(state.leader_epoch, last_epoch_in_log) + 1,
        voters=(node_id,),
    )
