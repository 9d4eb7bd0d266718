"""Settings of the transaction coordinator."""

from __future__ import annotations

from pykbroker_protocol.late_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Kafka's properties with Kafka's defaults."""

    timeout_ms_max: int = 900_000
    """`transaction.max.timeout.ms`"""
    timeout_check_interval_ms: int = 10_000
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`"""
    id_expiration_ms: int = 604_800_000
    """`transactional.id.expiration.ms`"""
    expiry_check_interval_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`"""
    two_phase_commit: bool = False
    """`transaction.two.phase.commit.enable`"""
