"""The properties of a broker: who it is, whom it listens to, what its logs do by default."""

from pykbroker.settings.addresses import (
    check_connections_by_host,
    check_listeners,
    check_own_listeners,
)
from pykbroker.settings.checks import (
    at_least,
    check_directories,
    each_one_of,
    one_of,
    required_at_least,
    unlimited_or_positive,
)
from pykbroker.settings.kinds import ConfigType, Importance, UpdateMode
from pykbroker.settings.property import Property
from pykbroker.settings.topic_table import TOPIC_PROPERTIES

BOOLEAN, STRING, INT, LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
LIST, DOUBLE = ConfigType.LIST, ConfigType.DOUBLE
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
READ_ONLY, PER_BROKER = UpdateMode.READ_ONLY, UpdateMode.PER_BROKER
CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE
UNLIMITED = (1 << 31) - 1
FOREVER = (1 << 63) - 1
HOUR_MS, MINUTE_MS = 3_600_000, 60_000

# fmt: off
IDENTITY = (
    Property("node.id", INT, 1, at_least(0), HIGH, READ_ONLY,
        "Number of this node, unique in its cluster."),
    Property("process.roles", LIST, ("broker", "controller"), each_one_of("broker", "controller"),
        HIGH, READ_ONLY, "Which parts this node plays: broker, controller or both."),
    Property("broker.rack", STRING, None, None, MEDIUM, READ_ONLY,
        "Where this broker stands; replicas are spread over racks and readers prefer their own."),
    Property("log.dirs", LIST, ("pykbroker-data",), check_directories, HIGH, READ_ONLY,
        "Directories that hold the partitions."),
)

NETWORK = (
    Property("listeners", LIST, ("PLAINTEXT://:9092",), check_own_listeners, HIGH, PER_BROKER,
        "Addresses on which connections are taken, each as NAME://host:port."),
    Property("advertised.listeners", LIST, None, check_listeners, HIGH, READ_ONLY,
        "Addresses that clients are told; without a value the listeners themselves."),
    Property("listener.security.protocol.map", STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        None, LOW, PER_BROKER, "Which security protocol each listener name speaks."),
    Property("inter.broker.listener.name", STRING, None, None, MEDIUM, READ_ONLY,
        "Listener on which brokers reach each other."),
    Property("controller.listener.names", LIST, ("CONTROLLER",), None, HIGH, READ_ONLY,
        "Listeners on which controllers are reached."),
    Property("max.connections", INT, UNLIMITED, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Most connections held open; at the limit new ones wait until one closes."),
    Property("max.connections.per.ip", INT, UNLIMITED, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Most connections from one address."),
    Property("max.connections.per.ip.overrides", STRING, "", check_connections_by_host, MEDIUM,
        CLUSTER_WIDE, "Exceptions to max.connections.per.ip, as host:connections pairs."),
    Property("max.connection.creation.rate", INT, UNLIMITED, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Most new connections in a second."),
    Property("connections.max.idle.ms", LONG, 600_000, None, MEDIUM, READ_ONLY,
        "How long a connection may say nothing before it is closed."),
    Property("socket.request.max.bytes", INT, 104_857_600, at_least(1), HIGH, READ_ONLY,
        "Largest request taken from a client; a longer one closes its connection."),
    Property("socket.request.max.elements", INT, 200_000, at_least(1000), MEDIUM, READ_ONLY,
        "Most elements in all arrays of a request; one with more closes its connection. "
        "Not a property of Apache Kafka."),
    Property("socket.send.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY,
        "The kernel's send buffer of a connection; -1 leaves it to the system."),
    Property("socket.receive.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY,
        "The kernel's receive buffer of a connection; -1 leaves it to the system."),
    Property("socket.listen.backlog.size", INT, 50, at_least(1), MEDIUM, READ_ONLY,
        "Connections that may wait in the kernel to be accepted."),
    Property("queued.max.requests", INT, 500, at_least(1), HIGH, READ_ONLY,
        "Requests that may wait to be worked on before no more are read."),
    Property("queued.max.request.bytes", LONG, -1, None, MEDIUM, READ_ONLY,
        "Bytes of waiting requests before no more are read; -1 sets no limit."),
    Property("request.timeout.ms", INT, 30_000, None, HIGH, READ_ONLY,
        "How long this broker waits for another one's answer."),
)

TOPICS = (
    Property("num.partitions", INT, 1, at_least(1), MEDIUM, READ_ONLY,
        "Partitions of a topic whose creator names no number."),
    Property("default.replication.factor", INT, 1, None, MEDIUM, READ_ONLY,
        "Replicas of a topic whose creator names no number."),
    Property("auto.create.topics.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Whether asking for an unknown topic may create it."),
    Property("delete.topic.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Whether topics can be deleted."),
    Property("max.request.partition.size.limit", INT, 2000, at_least(1), MEDIUM, READ_ONLY,
        "Most partitions in one page of DescribeTopicPartitions."),
)

READING = (
    Property("fetch.max.bytes", INT, 57_671_680, at_least(1024), MEDIUM, READ_ONLY,
        "Most bytes of records in one Fetch answer, whatever the client asks for."),
    Property("max.incremental.fetch.session.cache.slots", INT, 1000, at_least(0), MEDIUM,
        READ_ONLY, "Fetch sessions kept at a time."),
    Property("disk.read.buffer.bytes", LONG, 16 << 20, at_least(1), LOW, READ_ONLY,
        "Memory for records that were read from disk and wait to be sent.", (), internal=True),
)

LOG = (
    # log.retention.* and log.roll.*: the finest unit that is set wins.
    Property("log.retention.ms", LONG, None, unlimited_or_positive, HIGH, CLUSTER_WIDE,
        "What topics use that do not set retention.ms; -1 keeps records for ever.",
        (("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS))),
    Property("log.retention.minutes", INT, None, unlimited_or_positive, HIGH, READ_ONLY,
        "log.retention.ms in minutes, used where that is not set.",
        (("log.retention.hours", 60),)),
    Property("log.retention.hours", INT, 168, unlimited_or_positive, HIGH, READ_ONLY,
        "log.retention.ms in hours, used where no finer unit is set."),
    Property("log.roll.ms", LONG, None, required_at_least(1), HIGH, CLUSTER_WIDE,
        "What topics use that do not set segment.ms.", (("log.roll.hours", HOUR_MS),)),
    Property("log.roll.hours", INT, 168, at_least(1), HIGH, READ_ONLY,
        "log.roll.ms in hours, used where that is not set."),
    Property("log.roll.jitter.ms", LONG, None, required_at_least(0), HIGH, CLUSTER_WIDE,
        "What topics use that do not set segment.jitter.ms.",
        (("log.roll.jitter.hours", HOUR_MS),)),
    Property("log.roll.jitter.hours", INT, 0, at_least(0), HIGH, READ_ONLY,
        "log.roll.jitter.ms in hours, used where that is not set."),
    Property("log.flush.interval.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "What topics use that do not set flush.ms.", (("log.flush.scheduler.interval.ms", 1),)),
    Property("num.io.threads", INT, 8, at_least(1), HIGH, CLUSTER_WIDE,
        "Threads that flush logs, and as many that read records which are not in memory."),
    Property("log.flush.scheduler.interval.ms", LONG, FOREVER, None, HIGH, READ_ONLY,
        "How often logs are looked at for records that must be forced to disk."),
    Property("log.flush.offset.checkpoint.interval.ms", INT, 60_000, at_least(0), HIGH, READ_ONLY,
        "How often it is noted up to where each log is safely on disk."),
    Property("log.flush.start.offset.checkpoint.interval.ms", INT, 60_000, at_least(0), HIGH,
        READ_ONLY, "How often it is noted where each log begins."),
    Property("log.retention.check.interval.ms", LONG, 300_000, at_least(1), MEDIUM, READ_ONLY,
        "How often logs are looked at for segments past their retention."),
    Property("log.initial.task.delay.ms", LONG, 30_000, at_least(0), LOW, READ_ONLY,
        "How long after start the logs' regular work waits.", (), internal=True),
    Property("num.recovery.threads.per.data.dir", INT, 2, at_least(1), HIGH, CLUSTER_WIDE,
        "Logs of a directory that are recovered or closed at a time."),
    Property("log.cleaner.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Whether topics with the policy compact are compacted."),
    Property("log.cleaner.threads", INT, 1, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Logs that are compacted at a time."),
    Property("log.cleaner.backoff.ms", LONG, 15_000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How long compaction rests when there is nothing to do."),
    Property("log.cleaner.dedupe.buffer.size", LONG, 134_217_728, None, MEDIUM, CLUSTER_WIDE,
        "Memory in which compaction may note keys."),
    Property("log.cleaner.io.max.bytes.per.second", DOUBLE, 1.7976931348623157e308, None, MEDIUM,
        CLUSTER_WIDE, "Bytes that compaction may read and write in a second."),
)

REPLICATION = (
    Property("broker.session.timeout.ms", INT, 9000, None, MEDIUM, READ_ONLY,
        "How long the controller waits for a broker's heartbeat before it counts as gone."),
    Property("broker.heartbeat.interval.ms", INT, 2000, None, MEDIUM, READ_ONLY,
        "How often a broker tells the controller that it is there."),
    Property("replica.lag.time.max.ms", LONG, 30_000, None, HIGH, READ_ONLY,
        "How long a follower may not have caught up before it leaves the in-sync set."),
    Property("replica.fetch.max.bytes", INT, 1 << 20, at_least(0), MEDIUM, READ_ONLY,
        "Bytes of one partition that a follower asks for at a time."),
    Property("replica.fetch.response.max.bytes", INT, 10 << 20, at_least(0), MEDIUM, READ_ONLY,
        "Bytes of all partitions that a follower asks for at a time."),
    Property("replica.fetch.min.bytes", INT, 1, None, HIGH, READ_ONLY,
        "Bytes for which a leader lets a follower wait."),
    Property("replica.fetch.wait.max.ms", INT, 500, None, HIGH, READ_ONLY,
        "Longest time for which a leader lets a follower wait."),
    Property("replica.fetch.backoff.ms", INT, 1000, at_least(0), MEDIUM, READ_ONLY,
        "How long a follower rests after a failed fetch."),
    Property("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, None, HIGH, READ_ONLY,
        "How often high watermarks are noted on disk."),
    Property("num.replica.fetchers", INT, 1, at_least(1), HIGH, CLUSTER_WIDE,
        "Connections on which this broker follows each other one."),
    Property("auto.leader.rebalance.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Whether leadership returns by itself to the replica that is listed first."),
    Property("leader.imbalance.check.interval.seconds", LONG, 300, at_least(1), HIGH, READ_ONLY,
        "How often leadership is looked at for a return to the first replica."),
    Property("controlled.shutdown.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Whether a broker that ends hands its leaderships over first."),
    Property("security.inter.broker.protocol", STRING, "PLAINTEXT",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), MEDIUM, READ_ONLY,
        "Security protocol between brokers where inter.broker.listener.name is not set."),
)

QUORUM = (
    Property("controller.quorum.voters", LIST, (), None, HIGH, READ_ONLY,
        "The controllers that vote, each as id@host:port, in a quorum that does not change."),
    Property("controller.quorum.bootstrap.servers", LIST, (), None, HIGH, READ_ONLY,
        "Addresses at which a node finds the quorum."),
    Property("controller.quorum.election.timeout.ms", INT, 1000, at_least(0), HIGH, READ_ONLY,
        "How long a voter goes without a leader before it stands for election."),
    Property("controller.quorum.fetch.timeout.ms", INT, 2000, at_least(0), HIGH, READ_ONLY,
        "How long a leader or follower may hear nothing of the others before it gives up."),
    Property("controller.quorum.request.timeout.ms", INT, 2000, at_least(0), MEDIUM, READ_ONLY,
        "How long a request between controllers may take."),
    Property("metadata.log.dir", STRING, None, None, HIGH, READ_ONLY,
        "Directory of the cluster's metadata log; without a value the first of log.dirs."),
    Property("metadata.log.segment.bytes", INT, 1 << 30, at_least(8 << 20), HIGH, READ_ONLY,
        "Size at which a segment of the metadata log is closed."),
    Property("metadata.log.segment.ms", LONG, 604_800_000, None, HIGH, READ_ONLY,
        "Age at which a segment of the metadata log is closed."),
    Property("metadata.log.max.record.bytes.between.snapshots", LONG, 20 << 20, at_least(1), HIGH,
        READ_ONLY, "Bytes of metadata records after which a snapshot is taken."),
    Property("metadata.log.max.snapshot.interval.ms", LONG, 3_600_000, at_least(0), HIGH,
        READ_ONLY, "Longest time between two snapshots of changed metadata; 0 never by time."),
    Property("metadata.max.retention.bytes", LONG, 100 << 20, None, HIGH, READ_ONLY,
        "Size above which the metadata log drops segments that a snapshot covers."),
    Property("metadata.max.retention.ms", LONG, 604_800_000, None, HIGH, READ_ONLY,
        "Age at which the metadata log drops segments that a snapshot covers."),
    Property("metadata.max.idle.interval.ms", INT, 500, at_least(0), LOW, READ_ONLY,
        "Longest silence in the metadata log before a no-op record is written; 0 for none."),
)
# fmt: on

_BY_TOPIC_NAME = {row.name: row for row in TOPIC_PROPERTIES}


def _default_of_topics(name: str, topic_name: str, importance: Importance) -> Property:
    """The broker property that gives a topic property its value where the topic has none."""
    topic = _BY_TOPIC_NAME[topic_name]
    documentation = f"What topics use that do not set {topic_name}. {topic.documentation}"
    return Property(
        name, topic.type, topic.default, topic.check, importance, CLUSTER_WIDE, documentation
    )


TOPIC_DEFAULTS = (
    _default_of_topics("log.cleanup.policy", "cleanup.policy", MEDIUM),
    _default_of_topics("log.retention.bytes", "retention.bytes", HIGH),
    _default_of_topics("log.segment.delete.delay.ms", "file.delete.delay.ms", HIGH),
    _default_of_topics("log.segment.bytes", "segment.bytes", HIGH),
    _default_of_topics("log.index.size.max.bytes", "segment.index.bytes", MEDIUM),
    _default_of_topics("log.index.interval.bytes", "index.interval.bytes", MEDIUM),
    _default_of_topics("log.preallocate", "preallocate", MEDIUM),
    _default_of_topics("log.flush.interval.messages", "flush.messages", HIGH),
    _default_of_topics("message.max.bytes", "max.message.bytes", HIGH),
    _default_of_topics("log.message.timestamp.type", "message.timestamp.type", MEDIUM),
    _default_of_topics(
        "log.message.timestamp.before.max.ms", "message.timestamp.before.max.ms", MEDIUM
    ),
    _default_of_topics(
        "log.message.timestamp.after.max.ms", "message.timestamp.after.max.ms", MEDIUM
    ),
    _default_of_topics("compression.type", "compression.type", HIGH),
    _default_of_topics("compression.gzip.level", "compression.gzip.level", MEDIUM),
    _default_of_topics("compression.lz4.level", "compression.lz4.level", MEDIUM),
    _default_of_topics("compression.zstd.level", "compression.zstd.level", MEDIUM),
    _default_of_topics("min.insync.replicas", "min.insync.replicas", HIGH),
    _default_of_topics("log.cleaner.delete.retention.ms", "delete.retention.ms", MEDIUM),
    _default_of_topics("log.cleaner.min.compaction.lag.ms", "min.compaction.lag.ms", MEDIUM),
    _default_of_topics("log.cleaner.max.compaction.lag.ms", "max.compaction.lag.ms", MEDIUM),
    _default_of_topics("log.cleaner.min.cleanable.ratio", "min.cleanable.dirty.ratio", MEDIUM),
    _default_of_topics("unclean.leader.election.enable", "unclean.leader.election.enable", HIGH),
    _default_of_topics("log.local.retention.ms", "local.retention.ms", MEDIUM),
    _default_of_topics("log.local.retention.bytes", "local.retention.bytes", MEDIUM),
)
