"""The result of a decision about a group within a transaction."""

from __future__ import annotations

from pykbroker.coordination.outcome import Outcome
from pykbroker_protocol.late_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeInTransaction(Outcome):
    """An outcome whose writes are a transactional batch, applied when it commits."""

    producer_id: int
    producer_epoch: int
