"""The result of a decision about transactions: an outcome, and markers to write."""

from __future__ import annotations

from typing import NamedTuple

from pykbroker.coordination.outcome import Outcome
from pykbroker_protocol.late_dataclass import dataclass


class TopicPartition(NamedTuple):
    """A partition of a transaction."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Markers:
    """Transaction markers that the runtime must write, one control record per partition.

    The runtime may start when the records of the outcome are committed, and must not start if they
    could not be appended. When every partition has its marker or is deleted, the runtime calls
    `Transactions.markers_written`. A coordinator that loads its partition returns unfinished
    markers again, so the runtime drops its work when it resigns.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int
    """With version 2 each transaction has its own epoch, and a marker ends no newer one."""
    partitions: tuple[TopicPartition, ...]
    """May be empty in a log of another broker; then only completion is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOutcome(Outcome):
    markers: tuple[Markers, ...] = ()
