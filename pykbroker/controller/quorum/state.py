"""What a voter must not forget: the epoch, who leads it and whom it voted for.

Written to disk, durably, before anything is said or appended that follows from it.
"""

from __future__ import annotations

import json
from typing import Self

from pykbroker_protocol.late_dataclass import dataclass

NO_VOTER = -1
DATA_VERSION = 0
"""That of a static set of voters; 1 belongs to sets that change, and adds directory ids."""


class MalformedQuorumState(ValueError):
    """The text is not the state of a voter; without it nobody knows which epochs were used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """The defaults are those of a voter that has never seen an election."""

    leader_id: int = NO_VOTER
    leader_epoch: int = 0
    voted_id: int = NO_VOTER
    voters: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """As Apache Kafka writes it; the cluster id and the applied offset have no meaning."""
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
                raise MalformedQuorumState(f"data version {values['data_version']} is unknown")
            return cls(
                leader_id=int(values["leaderId"]),
                leader_epoch=int(values["leaderEpoch"]),
                voted_id=int(values["votedId"]),
                voters=tuple(int(it["voterId"]) for it in values["currentVoters"] or ()),
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise MalformedQuorumState(str(problem)) from problem


def next_epoch(state: QuorumState, *, node_id: int, last_epoch_in_log: int) -> QuorumState:
    """The only voter elects itself; the epoch is greater than any that was ever used."""
    return QuorumState(
        leader_id=node_id,
        leader_epoch=max(state.leader_epoch, last_epoch_in_log) + 1,
        voters=(node_id,),
    )
