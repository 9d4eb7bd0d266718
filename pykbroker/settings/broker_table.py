"""Broker properties: identity, network, log defaults, replication and metadata quorum."""

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
        "Id of this node, unique in the cluster."),
    Property("process.roles", LIST, ("broker", "controller"), each_one_of("broker", "controller"),
        HIGH, READ_ONLY, "Roles of this node: broker, controller or both."),
    Property("broker.rack", STRING, None, None, MEDIUM, READ_ONLY,
        "Rack of this broker; replicas of a partition are spread over racks."),
    Property("log.dirs", LIST, ("pykbroker-data",), check_directories, HIGH, READ_ONLY,
        "Directories of the partition logs."),
    Property("cordoned.log.dirs", LIST, (), None, MEDIUM, PER_BROKER,
        "Directories in which the controller places no new partitions; * stands for all."),
)

NETWORK = (
    Property("listeners", LIST, ("PLAINTEXT://:9092",), check_own_listeners, HIGH, PER_BROKER,
        "Addresses to listen on, each as NAME://host:port."),
    Property("advertised.listeners", LIST, None, check_listeners, HIGH, READ_ONLY,
        "Addresses that clients connect to; defaults to listeners."),
    Property("listener.security.protocol.map", STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        None, LOW, PER_BROKER, "Security protocol of each listener name."),
    Property("inter.broker.listener.name", STRING, None, None, MEDIUM, READ_ONLY,
        "Listener for connections between brokers."),
    Property("controller.listener.names", LIST, ("CONTROLLER",), None, HIGH, READ_ONLY,
        "Listeners of controllers."),
    Property("max.connections", INT, UNLIMITED, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Maximum number of connections; at the limit new ones wait until one closes."),
    Property("max.connections.per.ip", INT, UNLIMITED, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Maximum number of connections from one IP address."),
    Property("max.connections.per.ip.overrides", STRING, "", check_connections_by_host, MEDIUM,
        CLUSTER_WIDE, "Exceptions to max.connections.per.ip, as host:connections pairs."),
    Property("max.connection.creation.rate", INT, UNLIMITED, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Maximum number of new connections per second."),
    Property("connections.max.idle.ms", LONG, 600_000, None, MEDIUM, READ_ONLY,
        "Time after which an idle connection is closed."),
    Property("socket.request.max.bytes", INT, 104_857_600, at_least(1), HIGH, READ_ONLY,
        "Maximum size of a request; a larger one closes its connection."),
    Property("socket.request.max.elements", INT, 200_000, at_least(1000), MEDIUM, READ_ONLY,
        "Maximum number of elements in all arrays of a request; more close its connection. "
        "Not a property of Apache Kafka."),
    Property("socket.send.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY,
        "SO_SNDBUF of a connection; -1 uses the default of the operating system."),
    Property("socket.receive.buffer.bytes", INT, 102_400, None, HIGH, READ_ONLY,
        "SO_RCVBUF of a connection; -1 uses the default of the operating system."),
    Property("socket.listen.backlog.size", INT, 50, at_least(1), MEDIUM, READ_ONLY,
        "Maximum number of pending connections of a listening socket."),
    Property("queued.max.requests", INT, 500, at_least(1), HIGH, READ_ONLY,
        "Queued requests at which the broker stops reading from connections."),
    Property("queued.max.request.bytes", LONG, -1, None, MEDIUM, READ_ONLY,
        "Bytes of queued requests at which the broker stops reading; -1 sets no limit."),
    Property("request.timeout.ms", INT, 30_000, None, HIGH, READ_ONLY,
        "Timeout of requests to other brokers."),
)

TOPICS = (
    Property("num.partitions", INT, 1, at_least(1), MEDIUM, READ_ONLY,
        "Partitions of topics that are created without a number."),
    Property("default.replication.factor", INT, 1, None, MEDIUM, READ_ONLY,
        "Replication factor of topics that are created without one."),
    Property("auto.create.topics.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Whether Metadata requests can create topics."),
    Property("delete.topic.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Whether topics can be deleted."),
    Property("max.request.partition.size.limit", INT, 2000, at_least(1), MEDIUM, READ_ONLY,
        "Maximum number of partitions in a DescribeTopicPartitions response."),
)

READING = (
    Property("fetch.max.bytes", INT, 57_671_680, at_least(1024), MEDIUM, READ_ONLY,
        "Maximum size of the records in a Fetch response."),
    Property("max.incremental.fetch.session.cache.slots", INT, 1000, at_least(0), MEDIUM,
        READ_ONLY, "Maximum number of fetch sessions."),
    Property("disk.read.buffer.bytes", LONG, 16 << 20, at_least(1), LOW, READ_ONLY,
        "Memory for records that were read from disk and are not sent yet.", (), internal=True),
)

LOG = (
    # log.retention.* and log.roll.*: the property with the smallest unit takes precedence.
    Property("log.retention.ms", LONG, None, unlimited_or_positive, HIGH, CLUSTER_WIDE,
        "Default of the topic property retention.ms; -1 disables retention by time.",
        (("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS))),
    Property("log.retention.minutes", INT, None, unlimited_or_positive, HIGH, READ_ONLY,
        "log.retention.ms in minutes, used if that is not set.",
        (("log.retention.hours", 60),)),
    Property("log.retention.hours", INT, 168, unlimited_or_positive, HIGH, READ_ONLY,
        "log.retention.ms in hours, used if neither milliseconds nor minutes are set."),
    Property("log.roll.ms", LONG, None, required_at_least(1), HIGH, CLUSTER_WIDE,
        "Default of the topic property segment.ms.", (("log.roll.hours", HOUR_MS),)),
    Property("log.roll.hours", INT, 168, at_least(1), HIGH, READ_ONLY,
        "log.roll.ms in hours, used if that is not set."),
    Property("log.roll.jitter.ms", LONG, None, required_at_least(0), HIGH, CLUSTER_WIDE,
        "Default of the topic property segment.jitter.ms.",
        (("log.roll.jitter.hours", HOUR_MS),)),
    Property("log.roll.jitter.hours", INT, 0, at_least(0), HIGH, READ_ONLY,
        "log.roll.jitter.ms in hours, used if that is not set."),
    Property("log.flush.interval.ms", LONG, None, None, HIGH, CLUSTER_WIDE,
        "Default of the topic property flush.ms.", (("log.flush.scheduler.interval.ms", 1),)),
    Property("num.io.threads", INT, 8, at_least(1), HIGH, CLUSTER_WIDE,
        "Threads that flush logs, and threads that read records from disk: this many of each."),
    Property("log.flush.scheduler.interval.ms", LONG, FOREVER, None, HIGH, READ_ONLY,
        "log.flush.interval.ms, used if that is not set."),
    Property("log.flush.offset.checkpoint.interval.ms", INT, 60_000, at_least(0), HIGH, READ_ONLY,
        "Interval in which recovery points are written to the checkpoint file."),
    Property("log.flush.start.offset.checkpoint.interval.ms", INT, 60_000, at_least(0), HIGH,
        READ_ONLY, "Interval in which log start offsets are written to the checkpoint file."),
    Property("log.retention.check.interval.ms", LONG, 300_000, at_least(1), MEDIUM, READ_ONLY,
        "Interval in which the broker checks for expired segments."),
    Property("log.initial.task.delay.ms", LONG, 30_000, at_least(0), LOW, READ_ONLY,
        "Delay of periodic log tasks after the start.", (), internal=True),
    Property("num.recovery.threads.per.data.dir", INT, 2, at_least(1), HIGH, CLUSTER_WIDE,
        "Logs of a directory that are recovered or closed concurrently."),
    Property("log.cleaner.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Whether topics with cleanup.policy compact are compacted."),
    Property("log.cleaner.threads", INT, 1, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Logs that are compacted concurrently."),
    Property("log.cleaner.backoff.ms", LONG, 15_000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Pause of compaction if there is nothing to compact."),
    Property("log.cleaner.dedupe.buffer.size", LONG, 134_217_728, None, MEDIUM, CLUSTER_WIDE,
        "Memory for the keys of all running compactions."),
    Property("log.cleaner.io.max.bytes.per.second", DOUBLE, 1.7976931348623157e308, None, MEDIUM,
        CLUSTER_WIDE, "Maximum bytes per second that compaction reads and writes."),
)

REPLICATION = (
    Property("broker.session.timeout.ms", INT, 9000, None, MEDIUM, READ_ONLY,
        "Time without a heartbeat after which the controller fences a broker."),
    Property("broker.heartbeat.interval.ms", INT, 2000, None, MEDIUM, READ_ONLY,
        "Interval of heartbeats from a broker to the controller."),
    Property("initial.broker.registration.timeout.ms", INT, 60_000, None, MEDIUM, READ_ONLY,
        "Time in which the controller must accept the registration of a broker that starts."),
    Property("replica.lag.time.max.ms", LONG, 30_000, None, HIGH, READ_ONLY,
        "Time after which a follower that has not caught up leaves the in-sync replicas."),
    Property("replica.fetch.max.bytes", INT, 1 << 20, at_least(0), MEDIUM, READ_ONLY,
        "Maximum bytes of one partition in a Fetch of a follower."),
    Property("replica.fetch.response.max.bytes", INT, 10 << 20, at_least(0), MEDIUM, READ_ONLY,
        "Maximum bytes of all partitions in a Fetch of a follower."),
    Property("replica.fetch.min.bytes", INT, 1, None, HIGH, READ_ONLY,
        "Minimum bytes of the response to a Fetch of a follower."),
    Property("replica.fetch.wait.max.ms", INT, 500, None, HIGH, READ_ONLY,
        "Maximum wait of a Fetch of a follower."),
    Property("replica.fetch.backoff.ms", INT, 1000, at_least(0), MEDIUM, READ_ONLY,
        "Pause of a follower after a failed Fetch."),
    Property("replica.socket.timeout.ms", INT, 30_000, None, HIGH, READ_ONLY,
        "Timeout of a Fetch of a follower; greater than replica.fetch.wait.max.ms."),
    Property("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, None, HIGH, READ_ONLY,
        "Interval in which high watermarks are written to the checkpoint file."),
    Property("num.replica.fetchers", INT, 1, at_least(1), HIGH, CLUSTER_WIDE,
        "Number of fetchers for each other broker."),
    Property("auto.leader.rebalance.enable", BOOLEAN, True, None, HIGH, READ_ONLY,
        "Whether the controller elects preferred leaders periodically."),
    Property("leader.imbalance.check.interval.seconds", LONG, 300, at_least(1), HIGH, READ_ONLY,
        "Interval of preferred leader elections."),
    Property("controlled.shutdown.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
        "Whether a broker moves its leaderships to other brokers before it stops."),
    Property("security.inter.broker.protocol", STRING, "PLAINTEXT",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), MEDIUM, READ_ONLY,
        "Security protocol between brokers if inter.broker.listener.name is not set."),
)

QUORUM = (
    Property("controller.quorum.voters", LIST, (), None, HIGH, READ_ONLY,
        "Voters of a static quorum, each as id@host:port."),
    Property("controller.quorum.bootstrap.servers", LIST, (), None, HIGH, READ_ONLY,
        "Addresses of controllers from which a node discovers the quorum."),
    Property("controller.quorum.election.timeout.ms", INT, 1000, at_least(0), HIGH, READ_ONLY,
        "Time without a leader after which a voter starts an election."),
    Property("controller.quorum.fetch.timeout.ms", INT, 2000, at_least(0), HIGH, READ_ONLY,
        "Time without a Fetch after which a leader resigns or a follower starts an election."),
    Property("controller.quorum.request.timeout.ms", INT, 2000, at_least(0), MEDIUM, READ_ONLY,
        "Timeout of requests between controllers."),
    Property("metadata.log.dir", STRING, None, None, HIGH, READ_ONLY,
        "Directory of the metadata log; defaults to the first of log.dirs."),
    Property("metadata.log.segment.bytes", INT, 1 << 30, at_least(8 << 20), HIGH, READ_ONLY,
        "Size at which a segment of the metadata log is rolled."),
    Property("metadata.log.segment.ms", LONG, 604_800_000, None, HIGH, READ_ONLY,
        "Age at which a segment of the metadata log is rolled."),
    Property("metadata.log.max.record.bytes.between.snapshots", LONG, 20 << 20, at_least(1), HIGH,
        READ_ONLY, "Bytes of metadata records after which a snapshot is generated."),
    Property("metadata.log.max.snapshot.interval.ms", LONG, 3_600_000, at_least(0), HIGH,
        READ_ONLY, "Maximum time between snapshots of changed metadata; 0 disables it."),
    Property("metadata.max.retention.bytes", LONG, 100 << 20, None, HIGH, READ_ONLY,
        "Size of the metadata log above which segments before a snapshot are deleted."),
    Property("metadata.max.retention.ms", LONG, 604_800_000, None, HIGH, READ_ONLY,
        "Age at which segments of the metadata log before a snapshot are deleted."),
    Property("metadata.max.idle.interval.ms", INT, 500, at_least(0), LOW, READ_ONLY,
        "Interval in which the active controller writes no-op records; 0 disables them."),
)
# fmt: on

_BY_TOPIC_NAME = {row.name: row for row in TOPIC_PROPERTIES}


def _default_of_topics(name: str, topic_name: str, importance: Importance) -> Property:
    """Returns the broker property that is the default of a topic property."""
    topic = _BY_TOPIC_NAME[topic_name]
    documentation = f"Default of the topic property {topic_name}. {topic.documentation}"
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
