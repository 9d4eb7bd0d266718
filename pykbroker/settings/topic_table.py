"""The properties that a topic can override, each with the broker property of its default."""

from pykbroker.settings.checks import (
    at_least,
    between,
    between_or,
    each_one_of,
    one_of,
    throttled_replicas,
)
from pykbroker.settings.kinds import ConfigType, Importance, UpdateMode
from pykbroker.settings.property import Check, Property, Value

BOOLEAN, STRING, INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
LONG, DOUBLE, LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
FOREVER = (1 << 63) - 1  # Kafka's value for "never" and "no limit"
DAY_MS = 24 * 60 * 60 * 1000


def _row(  # noqa: PLR0917 - the columns of a table
    name: str,
    kind: ConfigType,
    default: Value | None,
    check: Check | None,
    broker_name: str | None,
    documentation: str,
    *,
    internal: bool = False,
) -> Property:
    fallbacks = ((broker_name, 1),) if broker_name else ()
    return Property(
        name,
        kind,
        default,
        check,
        Importance.MEDIUM,
        UpdateMode.CLUSTER_WIDE,
        documentation,
        fallbacks,
        internal,
    )


SEGMENT_BYTES_MIN = 1 << 20

# fmt: off
TOPIC_PROPERTIES: tuple[Property, ...] = (
    # Retention.
    _row("cleanup.policy", LIST, ("delete",), each_one_of("compact", "delete"),
         "log.cleanup.policy",
         "Delete old segments, compact the log to the last record of each key, or both."),
    _row("retention.ms", LONG, 7 * DAY_MS, at_least(-1), "log.retention.ms",
         "Age of the newest record at which a segment is deleted; -1 disables retention by time."),
    _row("retention.bytes", LONG, -1, None, "log.retention.bytes",
         "Size of a partition above which its oldest segments are deleted; -1 sets no limit."),
    _row("file.delete.delay.ms", LONG, 60_000, at_least(0), "log.segment.delete.delay.ms",
         "Delay before the files of a deleted segment are removed; readers can finish meanwhile."),
    # Segments and their indexes.
    _row("segment.bytes", INT, 1 << 30, at_least(SEGMENT_BYTES_MIN), "log.segment.bytes",
         "Size at which a segment is rolled."),
    _row("internal.segment.bytes", INT, None, None, None,
         "Replaces segment.bytes without its lower bound, for tests.", internal=True),
    _row("segment.ms", LONG, 7 * DAY_MS, at_least(1), "log.roll.ms",
         "Age at which a segment is rolled even if it is not full."),
    _row("segment.jitter.ms", LONG, 0, at_least(0), "log.roll.jitter.ms",
         "Maximum random time subtracted from segment.ms, so that segments do not roll "
         "simultaneously."),
    _row("segment.index.bytes", INT, 10 << 20, at_least(4), "log.index.size.max.bytes",
         "Maximum size of an offset index; a segment with a full index is rolled."),
    _row("index.interval.bytes", INT, 4096, at_least(0), "log.index.interval.bytes",
         "Bytes of records between two entries of the offset index."),
    _row("preallocate", BOOLEAN, False, None, "log.preallocate",
         "Whether the file of a new segment is allocated with its full size."),
    _row("flush.messages", LONG, FOREVER, at_least(1), "log.flush.interval.messages",
         "Number of records after which the log is flushed to disk."),
    _row("flush.ms", LONG, FOREVER, at_least(0), "log.flush.interval.ms",
         "Time after which records are flushed to disk."),
    # Validation and conversion of produced batches.
    _row("max.message.bytes", INT, 1_048_588, at_least(0), "message.max.bytes",
         "Maximum size of a record batch after compression, with its header."),
    _row("message.timestamp.type", STRING, "CreateTime", one_of("CreateTime", "LogAppendTime"),
         "log.message.timestamp.type",
         "Keep the timestamps of the producer or replace them by the append time."),
    _row("message.timestamp.before.max.ms", LONG, FOREVER, at_least(0),
         "log.message.timestamp.before.max.ms",
         "Maximum time by which a timestamp can be before the broker's clock."),
    _row("message.timestamp.after.max.ms", LONG, 3_600_000, at_least(0),
         "log.message.timestamp.after.max.ms",
         "Maximum time by which a timestamp can be after the broker's clock."),
    _row("compression.type", STRING, "producer",
         one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), "compression.type",
         "Compression of stored batches; `producer` keeps the compression of the producer."),
    _row("compression.gzip.level", INT, -1, between_or(1, 9, -1), "compression.gzip.level",
         "gzip level for batches that the broker compresses; -1 is the default of the library."),
    _row("compression.lz4.level", INT, 9, between(1, 17), "compression.lz4.level",
         "lz4 level for batches that the broker compresses."),
    _row("compression.zstd.level", INT, 3, between(-131_072, 22), "compression.zstd.level",
         "zstd level for batches that the broker compresses."),
    _row("min.insync.replicas", INT, 1, at_least(1), "min.insync.replicas",
         "Minimum number of in-sync replicas for a Produce with acks=all."),
    # Compaction.
    _row("delete.retention.ms", LONG, DAY_MS, at_least(0), "log.cleaner.delete.retention.ms",
         "Time for which compaction keeps tombstones."),
    _row("min.compaction.lag.ms", LONG, 0, at_least(0), "log.cleaner.min.compaction.lag.ms",
         "Age below which records are not compacted."),
    _row("max.compaction.lag.ms", LONG, FOREVER, at_least(1), "log.cleaner.max.compaction.lag.ms",
         "Age at which records must be compacted."),
    _row("min.cleanable.dirty.ratio", DOUBLE, 0.5, between(0, 1), "log.cleaner.min.cleanable.ratio",
         "Share of uncompacted bytes at which a log is compacted."),
    # Replication.
    _row("unclean.leader.election.enable", BOOLEAN, False, None, "unclean.leader.election.enable",
         "Whether a replica that is not in sync can become leader, which can lose records."),
    _row("leader.replication.throttled.replicas", LIST, (), throttled_replicas, None,
         "Replicas to which leader.replication.throttled.rate applies; * means all."),
    _row("follower.replication.throttled.replicas", LIST, (), throttled_replicas, None,
         "Replicas to which follower.replication.throttled.rate applies; * means all."),
    # Tiered storage.
    _row("remote.storage.enable", BOOLEAN, False, None, None,
         "Whether segments are copied to remote storage."),
    _row("remote.log.copy.disable", BOOLEAN, False, None, None,
         "Whether copying to remote storage is disabled; copied segments stay readable."),
    _row("remote.log.delete.on.disable", BOOLEAN, False, None, None,
         "Whether disabling remote storage deletes the copied segments."),
    _row("local.retention.ms", LONG, -2, at_least(-2), "log.local.retention.ms",
         "Age at which copied segments are deleted locally; -2 uses retention.ms."),
    _row("local.retention.bytes", LONG, -2, at_least(-2), "log.local.retention.bytes",
         "Local size above which copied segments are deleted locally; -2 uses retention.bytes."),
)
# fmt: on
