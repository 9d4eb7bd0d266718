"""The properties of the coordinators: consumer groups, their offsets, transactions and quotas."""

from pykbroker.settings.broker_table import FOREVER, UNLIMITED
from pykbroker.settings.checks import at_least, each_one_of, one_of_any_case
from pykbroker.settings.kinds import ConfigType, Importance, UpdateMode
from pykbroker.settings.property import Property

BOOLEAN, STRING, INT, LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
SHORT, LIST = ConfigType.SHORT, ConfigType.LIST
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
READ_ONLY, CLUSTER_WIDE = UpdateMode.READ_ONLY, UpdateMode.CLUSTER_WIDE

# fmt: off
GROUPS = (
    Property("group.coordinator.rebalance.protocols", LIST, ("classic", "consumer", "streams"),
        each_one_of("consumer", "classic", "share", "streams"), MEDIUM, READ_ONLY,
        "Kinds of groups that this broker coordinates."),
    Property("group.initial.rebalance.delay.ms", INT, 3000, None, MEDIUM, READ_ONLY,
        "How long an empty classic group waits for more members before its first assignment."),
    Property("group.min.session.timeout.ms", INT, 6000, None, MEDIUM, READ_ONLY,
        "Shortest session timeout that a member of a classic group may ask for."),
    Property("group.max.session.timeout.ms", INT, 1_800_000, None, MEDIUM, READ_ONLY,
        "Longest session timeout that a member of a classic group may ask for."),
    Property("group.max.size", INT, UNLIMITED, at_least(1), MEDIUM, READ_ONLY,
        "Most members of a classic group."),
    Property("group.member.max.bytes", INT, 1 << 20, at_least(10_000), MEDIUM, READ_ONLY,
        "Most bytes that a member of a group may store: ids, metadata of protocols, subscription "
        "and assignment. Not a property of Apache Kafka."),
    Property("group.coordinator.members.max.bytes", LONG, 128 << 20, at_least(1 << 20), MEDIUM,
        READ_ONLY, "Most bytes that the members of all groups of this broker may store. "
        "Not a property of Apache Kafka."),
    Property("group.consumer.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM, READ_ONLY,
        "How long a consumer group waits for a member's heartbeat before it counts as gone."),
    Property("group.consumer.min.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM, READ_ONLY,
        "Shortest session timeout that a consumer group may be given."),
    Property("group.consumer.max.session.timeout.ms", INT, 60_000, at_least(1), MEDIUM, READ_ONLY,
        "Longest session timeout that a consumer group may be given."),
    Property("group.consumer.heartbeat.interval.ms", INT, 5000, at_least(1), MEDIUM, READ_ONLY,
        "How often members of a consumer group are told to send heartbeats."),
    Property("group.consumer.min.heartbeat.interval.ms", INT, 5000, at_least(1), MEDIUM, READ_ONLY,
        "Shortest heartbeat interval that a consumer group may be given."),
    Property("group.consumer.max.heartbeat.interval.ms", INT, 15_000, at_least(1), MEDIUM,
        READ_ONLY, "Longest heartbeat interval that a consumer group may be given."),
    Property("group.consumer.max.size", INT, UNLIMITED, at_least(1), MEDIUM, READ_ONLY,
        "Most members of a consumer group."),
    Property("group.consumer.max.regexes", INT, 100, at_least(1), MEDIUM, READ_ONLY,
        "Most different regular expressions that the members of a consumer group subscribe with. "
        "Not a property of Apache Kafka."),
    Property("group.consumer.assignment.interval.ms", INT, 1000, at_least(0), MEDIUM,
        CLUSTER_WIDE, "Shortest time between two computations of a consumer group's assignment."),
    Property("group.consumer.min.assignment.interval.ms", INT, 0, at_least(0), MEDIUM, READ_ONLY,
        "Shortest assignment interval that a consumer group may be given."),
    Property("group.consumer.max.assignment.interval.ms", INT, 15_000, at_least(0), MEDIUM,
        READ_ONLY, "Longest assignment interval that a consumer group may be given."),
    Property("group.consumer.migration.policy", STRING, "bidirectional",
        one_of_any_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"), MEDIUM, READ_ONLY,
        "Which way groups may change between the two protocols while they have members."),
    Property("group.consumer.assignors", LIST, ("uniform", "range"), None, MEDIUM, READ_ONLY,
        "Ways in which the broker assigns partitions; the first is taken unless a member asks."),
)

OFFSETS = (
    Property("offset.metadata.max.bytes", INT, 4096, None, HIGH, READ_ONLY,
        "Longest note that a consumer may attach to a committed offset."),
    Property("offsets.commit.timeout.ms", INT, 5000, at_least(1), HIGH, READ_ONLY,
        "How long a commit may take to reach the in-sync replicas."),
    Property("offsets.load.buffer.size", INT, 5 << 20, at_least(1), HIGH, READ_ONLY,
        "Bytes read at a time when a coordinator takes over a partition of offsets."),
    Property("offsets.retention.minutes", INT, 10_080, at_least(1), HIGH, READ_ONLY,
        "How long offsets outlive the last member of their group."),
    Property("offsets.retention.check.interval.ms", LONG, 600_000, at_least(1), HIGH, READ_ONLY,
        "How often offsets are looked at for expired ones."),
    Property("offsets.topic.num.partitions", INT, 50, at_least(1), HIGH, READ_ONLY,
        "Partitions of the topic that holds committed offsets."),
    Property("offsets.topic.replication.factor", SHORT, 3, at_least(1), HIGH, READ_ONLY,
        "Replicas of the topic that holds committed offsets."),
    Property("offsets.topic.segment.bytes", INT, 100 << 20, at_least(1), HIGH, READ_ONLY,
        "Segment size of the topic that holds committed offsets."),
)

TRANSACTIONS = (
    Property("producer.id.expiration.ms", INT, 86_400_000, at_least(1), LOW, CLUSTER_WIDE,
        "How long a partition remembers an idempotent producer that sends nothing."),
    Property("producer.id.expiration.check.interval.ms", INT, 600_000, at_least(1), LOW, READ_ONLY,
        "How often partitions forget silent producers.", (), internal=True),
    Property("transactional.id.expiration.ms", INT, 604_800_000, at_least(1), HIGH, READ_ONLY,
        "How long a transactional id is remembered without a transaction."),
    Property("transaction.max.timeout.ms", INT, 900_000, at_least(1), HIGH, READ_ONLY,
        "Longest transaction timeout that a producer may ask for."),
    Property("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000,
        at_least(1), LOW, READ_ONLY, "How often transactions past their timeout are aborted."),
    Property("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000,
        at_least(1), LOW, READ_ONLY, "How often expired transactional ids are removed."),
    Property("transaction.partition.verification.enable", BOOLEAN, True, None, LOW, CLUSTER_WIDE,
        "Whether a partition asks the coordinator before it joins a transaction."),
    Property("add.partitions.to.txn.retry.backoff.ms", INT, 20, at_least(1), HIGH, READ_ONLY,
        "How often a partition asks again while the transaction before has not quite ended."),
    Property("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, at_least(0), HIGH, READ_ONLY,
        "How long it asks before the producer is told to try again."),
    Property("transaction.two.phase.commit.enable", BOOLEAN, False, None, LOW, READ_ONLY,
        "Whether producers may take part in a commit of two phases that others coordinate."),
    Property("transaction.state.log.num.partitions", INT, 50, at_least(1), HIGH, READ_ONLY,
        "Partitions of the topic that holds the transactions."),
    Property("transaction.state.log.replication.factor", SHORT, 3, at_least(1), HIGH, READ_ONLY,
        "Replicas of the topic that holds the transactions."),
    Property("transaction.state.log.min.isr", INT, 2, at_least(1), HIGH, READ_ONLY,
        "min.insync.replicas of the topic that holds the transactions."),
    Property("transaction.state.log.segment.bytes", INT, 100 << 20, at_least(1), HIGH, READ_ONLY,
        "Segment size of the topic that holds the transactions."),
    Property("transaction.state.log.load.buffer.size", INT, 5 << 20, at_least(1), HIGH, READ_ONLY,
        "Bytes read at a time when a coordinator takes over a partition of transactions."),
)

QUOTAS = (
    Property("quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Samples over which a client's rate is averaged."),
    Property("quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of one sample of a client's rate."),
    Property("replication.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Samples over which the rate of replication is averaged."),
    Property("replication.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of one sample of the rate of replication."),
    Property("controller.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Samples over which the rate of a client's changes to topics is averaged."),
    Property("controller.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of one sample of the rate of a client's changes to topics."),
    Property("leader.replication.throttled.rate", LONG, FOREVER, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Bytes in a second that throttled leaders hand to followers.", (), internal=True),
    Property("follower.replication.throttled.rate", LONG, FOREVER, at_least(0), MEDIUM,
        CLUSTER_WIDE, "Bytes in a second that throttled followers fetch.", (), internal=True),
)
# fmt: on
