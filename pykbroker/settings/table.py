"""The properties of brokers, topics and groups by name."""

from collections.abc import Iterable

from pykbroker.settings import broker_table, coordinator_table
from pykbroker.settings.property import Property
from pykbroker.settings.topic_table import TOPIC_PROPERTIES


def _by_name(*tables: Iterable[Property]) -> dict[str, Property]:
    return {row.name: row for table in tables for row in table}


TOPIC = _by_name(TOPIC_PROPERTIES)

GROUP = _by_name(coordinator_table.GROUP_OVERRIDES)

BROKER = _by_name(
    broker_table.IDENTITY,
    broker_table.NETWORK,
    broker_table.TOPICS,
    broker_table.READING,
    broker_table.TOPIC_DEFAULTS,
    broker_table.LOG,
    broker_table.REPLICATION,
    broker_table.QUORUM,
    coordinator_table.GROUPS,
    coordinator_table.OFFSETS,
    coordinator_table.TRANSACTIONS,
    coordinator_table.QUOTAS,
)

# Other names of a property, used if the property itself is not set.
ALIASES = {"broker.id": "node.id", "log.dir": "log.dirs"}
