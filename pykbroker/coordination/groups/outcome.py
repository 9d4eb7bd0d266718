"""What a decision about a group amounts to when it belongs to a producer's transaction."""

from __future__ import annotations

from pykbroker.coordination.outcome import Outcome
from pykbroker_protocol.late_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeInTransaction(Outcome):
    """The writes go into a batch of this producer, and count once its transaction commits."""

    producer_id: int
    producer_epoch: int
