"""Topics of the fleet: their writers, partitions and configuration."""

from __future__ import annotations

from kafka.admin import KafkaAdminClient, NewTopic

from .reports import TRUCKS

STATISTICS = "fleet-stats"
"""Written by the pipeline: statistics per truck and five minutes."""

ALERTS = "fleet-alerts"
"""Written by the pipeline: silent trucks and trucks in closed zones.

Keyed and partitioned like the reports, so that a member gets alerts and reports of a truck.
"""

NOTIFICATIONS = "fleet-notifications"
"""Written by the notification service, each notification once.

Compacted: the service reads the last notification of each incident after a restart.
"""

BROKEN = "trucks-broken"
"""Written by the pipeline: broken reports."""

PARTITIONS = {TRUCKS: 10, STATISTICS: 3, ALERTS: 10, NOTIFICATIONS: 3, BROKEN: 1}
CONFIG = {NOTIFICATIONS: {"cleanup.policy": "compact"}}


def create(bootstrap: str) -> None:
    """Creates the missing topics."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    existing = set(admin.list_topics())
    admin.create_topics(
        [
            NewTopic(name, partitions, replication_factor=1, topic_configs=CONFIG.get(name, {}))
            for name, partitions in PARTITIONS.items()
            if name not in existing
        ]
    )
    admin.close()
