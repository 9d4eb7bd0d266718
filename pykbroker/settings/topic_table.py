"""The properties a topic can override, each with the broker property it otherwise follows."""

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
FOREVER = (1 << 63) - 1  # what Kafka writes where it means "never" or "no limit"
DAY_MS = 24 * 60 * 60 * 1000


def _row(  # noqa: PLR0917 - a table's columns are read by position
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
    # How long records stay.
    _row("cleanup.policy", LIST, ("delete",), each_one_of("compact", "delete"),
         "log.cleanup.policy",
         "Whether old segments are deleted, compacted to the last record of each key, or both."),
    _row("retention.ms", LONG, 7 * DAY_MS, at_least(-1), "log.retention.ms",
         "Age at which a segment may be deleted, counted from its newest record; -1 never."),
    _row("retention.bytes", LONG, -1, None, "log.retention.bytes",
         "Size above which a partition drops its oldest segments; -1 sets no limit."),
    _row("file.delete.delay.ms", LONG, 60_000, at_least(0), "log.segment.delete.delay.ms",
         "How long a deleted segment's files stay on disk, for readers still in them."),
    # Segments and their indexes.
    _row("segment.bytes", INT, 1 << 30, at_least(SEGMENT_BYTES_MIN), "log.segment.bytes",
         "Size at which a segment is closed and the next one begun."),
    _row("internal.segment.bytes", INT, None, None, None,
         "Stands in for segment.bytes without its lower bound, for tests.", internal=True),
    _row("segment.ms", LONG, 7 * DAY_MS, at_least(1), "log.roll.ms",
         "Age at which a segment is closed even though it has room left."),
    _row("segment.jitter.ms", LONG, 0, at_least(0), "log.roll.jitter.ms",
         "Upper bound of a random delay taken off segment.ms, so that segments do not all roll "
         "at once."),
    _row("segment.index.bytes", INT, 10 << 20, at_least(4), "log.index.size.max.bytes",
         "Largest size of a segment's offset index; a full index closes the segment."),
    _row("index.interval.bytes", INT, 4096, at_least(0), "log.index.interval.bytes",
         "Bytes of records between two entries of the offset index."),
    _row("preallocate", BOOLEAN, False, None, "log.preallocate",
         "Whether a new segment's file is given its full size at once."),
    _row("flush.messages", LONG, FOREVER, at_least(1), "log.flush.interval.messages",
         "Number of records after which the log is forced to disk."),
    _row("flush.ms", LONG, FOREVER, at_least(0), "log.flush.interval.ms",
         "Time after which records are forced to disk."),
    # What is taken from producers.
    _row("max.message.bytes", INT, 1_048_588, at_least(0), "message.max.bytes",
         "Largest record batch a producer may append, as it arrives: compressed, with headers."),
    _row("message.timestamp.type", STRING, "CreateTime", one_of("CreateTime", "LogAppendTime"),
         "log.message.timestamp.type",
         "Whether a record keeps its producer's timestamp or takes the time of its append."),
    _row("message.timestamp.before.max.ms", LONG, FOREVER, at_least(0),
         "log.message.timestamp.before.max.ms",
         "How far a producer's timestamp may lie behind the broker's clock."),
    _row("message.timestamp.after.max.ms", LONG, 3_600_000, at_least(0),
         "log.message.timestamp.after.max.ms",
         "How far a producer's timestamp may lie ahead of the broker's clock."),
    _row("compression.type", STRING, "producer",
         one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), "compression.type",
         "Codec in which batches are stored; `producer` keeps each batch as it came."),
    _row("compression.gzip.level", INT, -1, between_or(1, 9, -1), "compression.gzip.level",
         "Effort of gzip where the broker compresses; -1 leaves it to the library."),
    _row("compression.lz4.level", INT, 9, between(1, 17), "compression.lz4.level",
         "Effort of lz4 where the broker compresses."),
    _row("compression.zstd.level", INT, 3, between(-131_072, 22), "compression.zstd.level",
         "Effort of zstd where the broker compresses."),
    _row("min.insync.replicas", INT, 1, at_least(1), "min.insync.replicas",
         "Smallest in-sync set with which an acks=all append is accepted."),
    # Compaction.
    _row("delete.retention.ms", LONG, DAY_MS, at_least(0), "log.cleaner.delete.retention.ms",
         "How long compaction keeps a tombstone, so that readers learn of the deletion."),
    _row("min.compaction.lag.ms", LONG, 0, at_least(0), "log.cleaner.min.compaction.lag.ms",
         "How long a record stays untouched by compaction."),
    _row("max.compaction.lag.ms", LONG, FOREVER, at_least(1), "log.cleaner.max.compaction.lag.ms",
         "Longest time a record may wait for compaction."),
    _row("min.cleanable.dirty.ratio", DOUBLE, 0.5, between(0, 1), "log.cleaner.min.cleanable.ratio",
         "Share of not yet compacted bytes from which compaction is worth its work."),
    # Replication.
    _row("unclean.leader.election.enable", BOOLEAN, False, None, "unclean.leader.election.enable",
         "Whether a replica outside the in-sync set may lead when no other is left, losing "
         "records."),
    _row("leader.replication.throttled.replicas", LIST, (), throttled_replicas, None,
         "Replicas whose leaders keep to leader.replication.throttled.rate; * means all."),
    _row("follower.replication.throttled.replicas", LIST, (), throttled_replicas, None,
         "Replicas which as followers keep to follower.replication.throttled.rate; * means all."),
    # Tiered storage.
    _row("remote.storage.enable", BOOLEAN, False, None, None,
         "Whether closed segments also move to a remote store."),
    _row("remote.log.copy.disable", BOOLEAN, False, None, None,
         "Makes what lies in the remote store read-only: nothing new is copied there."),
    _row("remote.log.delete.on.disable", BOOLEAN, False, None, None,
         "Whether switching remote storage off deletes what lies there."),
    _row("local.retention.ms", LONG, -2, at_least(-2), "log.local.retention.ms",
         "Age at which a copied segment leaves the local disk; -2 follows retention.ms."),
    _row("local.retention.bytes", LONG, -2, at_least(-2), "log.local.retention.bytes",
         "Local size above which copied segments leave the disk; -2 follows retention.bytes."),
)
# fmt: on
