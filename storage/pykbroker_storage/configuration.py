"""The settings of one log, named as in Kafka; -1 means unlimited."""

from enum import StrEnum

from pykbroker_protocol.late_dataclass import dataclass, field

UNLIMITED = -1
FOREVER_MS = 2**63 - 1
DAY_MS = 24 * 60 * 60 * 1000


class TimestampSource(StrEnum):
    """Clock that sets record timestamps: the producer's, or the broker's at append time."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class CleanupPolicy(StrEnum):
    DELETE = "delete"
    COMPACT = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfiguration:
    """Settings of one log; the defaults are those of Apache Kafka 4.3."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = UNLIMITED
    flush_messages: int = FOREVER_MS
    flush_ms: int = FOREVER_MS
    file_delete_delay_ms: int = 60_000
    message_timestamp_type: TimestampSource = TimestampSource.CREATE_TIME
    max_message_bytes: int = 1024 * 1024 + 12
    cleanup_policy: frozenset[CleanupPolicy] = frozenset({CleanupPolicy.DELETE})
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER_MS
    delete_retention_ms: int = DAY_MS
    forbids_data_loss: bool = False
    """Recovery raises `FlushedDataLost` instead of removing or missing whole flushed batches."""
    ends_at_gaps: bool = False
    """Recovery ends the log at the first missing offset, because other replicas have the records.

    It does not apply to compacted logs, which have gaps.
    """
    segment_ms_max: int = field(init=False)
    """Maximum age of the active segment; read at every append."""

    @property
    def is_compacted(self) -> bool:
        return CleanupPolicy.COMPACT in self.cleanup_policy

    def __post_init__(self) -> None:
        written_to_ms = self.segment_ms
        if self.is_compacted:  # only sealed segments are compacted
            written_to_ms = min(self.segment_ms, self.max_compaction_lag_ms)
        object.__setattr__(self, "segment_ms_max", written_to_ms)
