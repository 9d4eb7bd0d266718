"""The topics of the fleet: who writes them, how they are cut and kept."""

from __future__ import annotations

from kafka.admin import KafkaAdminClient, NewTopic

from .reports import TRUCKS

STATISTICS = "fleet-stats"
"""By the pipeline: what each truck did in each five minutes."""

ALERTS = "fleet-alerts"
"""By the pipeline: trucks that fell silent, trucks in closed zones.

Keyed and cut like the reports: a group that reads both has a truck's alerts where its reports are.
"""

NOTIFICATIONS = "fleet-notifications"
"""By the notification service: what somebody should hear of, each thing once.

Compacted: the last notification of each matter stays, and is the memory of the service.
"""

BROKEN = "trucks-broken"
"""By the pipeline: reports that nobody can read."""

PARTITIONS = {TRUCKS: 10, STATISTICS: 3, ALERTS: 10, NOTIFICATIONS: 3, BROKEN: 1}
CONFIG = {NOTIFICATIONS: {"cleanup.policy": "compact"}}


def create(bootstrap: str) -> None:
    """Makes the topics that are not there yet."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    there = set(admin.list_topics())
    admin.create_topics(
        [
            NewTopic(name, partitions, replication_factor=1, topic_configs=CONFIG.get(name, {}))
            for name, partitions in PARTITIONS.items()
            if name not in there
        ]
    )
    admin.close()
