"""Properties of groups, committed offsets, transactions and quotas."""

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
        "Group types that this broker coordinates."),
    Property("group.initial.rebalance.delay.ms", INT, 3000, None, MEDIUM, READ_ONLY,
        "Delay of the first rebalance of an empty classic group."),
    Property("group.min.session.timeout.ms", INT, 6000, None, MEDIUM, READ_ONLY,
        "Minimum session timeout of a member of a classic group."),
    Property("group.max.session.timeout.ms", INT, 1_800_000, None, MEDIUM, READ_ONLY,
        "Maximum session timeout of a member of a classic group."),
    Property("group.max.size", INT, UNLIMITED, at_least(1), MEDIUM, READ_ONLY,
        "Maximum number of members of a classic group."),
    Property("group.member.max.bytes", INT, 1 << 20, at_least(10_000), MEDIUM, READ_ONLY,
        "Maximum bytes that a group member stores: ids, protocol metadata, subscription and "
        "assignment. Not a property of Apache Kafka."),
    Property("group.coordinator.members.max.bytes", LONG, 128 << 20, at_least(1 << 20), MEDIUM,
        READ_ONLY, "Maximum bytes that the members of all groups of this broker store. "
        "Not a property of Apache Kafka."),
    Property("group.consumer.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM, READ_ONLY,
        "Time without a heartbeat after which a member is removed from its consumer group."),
    Property("group.consumer.min.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM, READ_ONLY,
        "Minimum of consumer.session.timeout.ms of a group."),
    Property("group.consumer.max.session.timeout.ms", INT, 60_000, at_least(1), MEDIUM, READ_ONLY,
        "Maximum of consumer.session.timeout.ms of a group."),
    Property("group.consumer.heartbeat.interval.ms", INT, 5000, at_least(1), MEDIUM, READ_ONLY,
        "Heartbeat interval that the coordinator sends to members of consumer groups."),
    Property("group.consumer.min.heartbeat.interval.ms", INT, 5000, at_least(1), MEDIUM, READ_ONLY,
        "Minimum of consumer.heartbeat.interval.ms of a group."),
    Property("group.consumer.max.heartbeat.interval.ms", INT, 15_000, at_least(1), MEDIUM,
        READ_ONLY, "Maximum of consumer.heartbeat.interval.ms of a group."),
    Property("group.consumer.max.size", INT, UNLIMITED, at_least(1), MEDIUM, READ_ONLY,
        "Maximum number of members of a consumer group."),
    Property("group.consumer.max.regexes", INT, 100, at_least(1), MEDIUM, READ_ONLY,
        "Maximum number of different regular expressions in the subscriptions of a consumer "
        "group. Not a property of Apache Kafka."),
    Property("group.consumer.assignment.interval.ms", INT, 1000, at_least(0), MEDIUM,
        CLUSTER_WIDE, "Minimum time between two computations of a consumer group assignment."),
    Property("group.consumer.min.assignment.interval.ms", INT, 0, at_least(0), MEDIUM, READ_ONLY,
        "Minimum of consumer.assignment.interval.ms of a group."),
    Property("group.consumer.max.assignment.interval.ms", INT, 15_000, at_least(0), MEDIUM,
        READ_ONLY, "Maximum of consumer.assignment.interval.ms of a group."),
    Property("group.consumer.migration.policy", STRING, "bidirectional",
        one_of_any_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"), MEDIUM, READ_ONLY,
        "Directions in which groups with members can migrate between the two protocols."),
    Property("group.consumer.assignors", LIST, ("uniform", "range"), None, MEDIUM, READ_ONLY,
        "Server-side assignors; the first is the default."),
)

OFFSETS = (
    Property("offset.metadata.max.bytes", INT, 4096, None, HIGH, READ_ONLY,
        "Maximum length of the metadata of a committed offset."),
    Property("offsets.commit.timeout.ms", INT, 5000, at_least(1), HIGH, READ_ONLY,
        "Timeout of the replication of an offset commit."),
    Property("offsets.load.buffer.size", INT, 5 << 20, at_least(1), HIGH, READ_ONLY,
        "Read size when a coordinator loads a partition of __consumer_offsets."),
    Property("offsets.retention.minutes", INT, 10_080, at_least(1), HIGH, READ_ONLY,
        "Time after which offsets of a group without members expire."),
    Property("offsets.retention.check.interval.ms", LONG, 600_000, at_least(1), HIGH, READ_ONLY,
        "Interval in which the coordinator checks for expired offsets."),
    Property("offsets.topic.num.partitions", INT, 50, at_least(1), HIGH, READ_ONLY,
        "Partitions of __consumer_offsets."),
    Property("offsets.topic.replication.factor", SHORT, 3, at_least(1), HIGH, READ_ONLY,
        "Replication factor of __consumer_offsets."),
    Property("offsets.topic.segment.bytes", INT, 100 << 20, at_least(1), HIGH, READ_ONLY,
        "Segment size of __consumer_offsets."),
)

TRANSACTIONS = (
    Property("producer.id.expiration.ms", INT, 86_400_000, at_least(1), LOW, CLUSTER_WIDE,
        "Time after which a partition discards the state of an inactive producer."),
    Property("producer.id.expiration.check.interval.ms", INT, 600_000, at_least(1), LOW, READ_ONLY,
        "Interval in which partitions discard inactive producers.", (), internal=True),
    Property("transactional.id.expiration.ms", INT, 604_800_000, at_least(1), HIGH, READ_ONLY,
        "Time after which an unused transactional id expires."),
    Property("transaction.max.timeout.ms", INT, 900_000, at_least(1), HIGH, READ_ONLY,
        "Maximum transaction timeout of a producer."),
    Property("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000,
        at_least(1), LOW, READ_ONLY, "Interval in which timed-out transactions are aborted."),
    Property("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000,
        at_least(1), LOW, READ_ONLY, "Interval in which expired transactional ids are removed."),
    Property("transaction.partition.verification.enable", BOOLEAN, True, None, LOW, CLUSTER_WIDE,
        "Whether a partition verifies with the coordinator that it is part of a transaction."),
    Property("add.partitions.to.txn.retry.backoff.ms", INT, 20, at_least(1), HIGH, READ_ONLY,
        "Retry interval of appends while the previous transaction is completing."),
    Property("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, at_least(0), HIGH, READ_ONLY,
        "Maximum time of the retries of add.partitions.to.txn.retry.backoff.ms."),
    Property("transaction.two.phase.commit.enable", BOOLEAN, False, None, LOW, READ_ONLY,
        "Whether producers can take part in two-phase commit."),
    Property("transaction.state.log.num.partitions", INT, 50, at_least(1), HIGH, READ_ONLY,
        "Partitions of __transaction_state."),
    Property("transaction.state.log.replication.factor", SHORT, 3, at_least(1), HIGH, READ_ONLY,
        "Replication factor of __transaction_state."),
    Property("transaction.state.log.min.isr", INT, 2, at_least(1), HIGH, READ_ONLY,
        "min.insync.replicas of __transaction_state."),
    Property("transaction.state.log.segment.bytes", INT, 100 << 20, at_least(1), HIGH, READ_ONLY,
        "Segment size of __transaction_state."),
    Property("transaction.state.log.load.buffer.size", INT, 5 << 20, at_least(1), HIGH, READ_ONLY,
        "Read size when a coordinator loads a partition of __transaction_state."),
)

QUOTAS = (
    Property("quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Number of samples of client quotas."),
    Property("quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of a sample of client quotas."),
    Property("replication.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Number of samples of replication quotas."),
    Property("replication.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of a sample of replication quotas."),
    Property("controller.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Number of samples of controller mutation quotas."),
    Property("controller.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of a sample of controller mutation quotas."),
    Property("leader.replication.throttled.rate", LONG, FOREVER, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Maximum bytes per second of throttled leaders.", (), internal=True),
    Property("follower.replication.throttled.rate", LONG, FOREVER, at_least(0), MEDIUM,
        CLUSTER_WIDE, "Maximum bytes per second of throttled followers.", (), internal=True),
)
# fmt: on


def _override(name: str, default: int, low: int, documentation: str) -> Property:
    """Returns a group property whose default is the broker property `group.<name>`."""
    return Property(
        name=name,
        type=INT,
        default=default,
        check=at_least(low),
        importance=MEDIUM,
        update_mode=CLUSTER_WIDE,
        documentation=documentation,
        fallbacks=((f"group.{name}", 1),),
    )


GROUP_OVERRIDES = (
    _override("consumer.assignment.interval.ms", 1000, 0,
        "Minimum time between two computations of the group assignment."),
    _override("consumer.heartbeat.interval.ms", 5000, 1,
        "Heartbeat interval that the coordinator sends to members."),
    _override("consumer.session.timeout.ms", 45_000, 1,
        "Time without a heartbeat after which a member is removed from the group."),
)  # fmt: skip
