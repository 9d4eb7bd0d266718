"""Definitions of `__consumer_offsets` and `__transaction_state`, created at their first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.controller_access import NewTopic
from pykbroker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE

if TYPE_CHECKING:
    from pykbroker.apis.node import Node
    from pykbroker.settings import Settings


def new_coordinator_topic(name: str, node: Node) -> NewTopic:
    """Returns the topic of the settings, with at most as many replicas as live brokers."""
    brokers = sum(not broker.fenced for broker in node.image.brokers.values())
    return NEW_TOPICS[name](node.settings, brokers)


def offsets_topic(settings: Settings, brokers: int) -> NewTopic:
    return NewTopic(
        name=CONSUMER_OFFSETS,
        partitions=settings.offsets_topic_num_partitions,
        replication_factor=min(settings.offsets_topic_replication_factor, brokers),
        configuration={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings.offsets_topic_segment_bytes),
        },
    )


def transactions_topic(settings: Settings, brokers: int) -> NewTopic:
    replication_factor = min(settings.transaction_state_log_replication_factor, brokers)
    in_sync_min = min(settings.transaction_state_log_min_isr, replication_factor)
    return NewTopic(
        name=TRANSACTION_STATE,
        partitions=settings.transaction_state_log_num_partitions,
        replication_factor=replication_factor,
        configuration={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(in_sync_min),
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )


NEW_TOPICS = {CONSUMER_OFFSETS: offsets_topic, TRANSACTION_STATE: transactions_topic}
