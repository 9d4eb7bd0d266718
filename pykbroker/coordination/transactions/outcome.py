"""What a decision about transactions amounts to: an outcome as of groups, and markers to write."""

from __future__ import annotations

from typing import NamedTuple

from pykbroker.coordination.outcome import Outcome
from pykbroker_protocol.late_dataclass import dataclass


class Place(NamedTuple):
    """A partition that takes part in a transaction."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Markers:
    """Work for the runtime: one control record in each partition, which ends the transaction there.

    It may begin once the records of its outcome are committed, and must not begin if they could
    not be appended. It belongs to the runtime until every partition has its marker, or is gone;
    then `Transactions.markers_written` is told. A coordinator that loads its log hands out again
    what was not finished, so the runtime forgets its work when the partition is given up.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int
    """2 where each transaction has an epoch of its own: a marker then ends none that is newer."""
    partitions: tuple[Place, ...]
    """None, perhaps, in a log that others have written; then there is only to report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOutcome(Outcome):
    markers: tuple[Markers, ...] = ()
