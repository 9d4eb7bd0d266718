"""Definitions of `__consumer_offsets` and `__transaction_state`, created at their first use."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pykbroker.controller_access import NewTopic
from pykbroker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE

if TYPE_CHECKING:
    from pykbroker.apis.node import Node
    from pykbroker.settings import Settings

IN_SYNC_MIN = "min.insync.replicas"


def new_coordinator_topic(name: str, node: Node) -> NewTopic:
    """Returns the topic of the settings; with one replica if this node is its whole cluster."""
    topic = NEW_TOPICS[name](node.settings)
    return with_one_replica(topic) if is_whole_cluster(node) else topic


def is_whole_cluster(node: Node) -> bool:
    return node.forward is None and node.image.brokers.keys() <= {node.node_id}


def with_one_replica(topic: NewTopic) -> NewTopic:
    configuration = dict(topic.configuration)
    if IN_SYNC_MIN in configuration:
        configuration[IN_SYNC_MIN] = "1"
    return replace(topic, replication_factor=1, configuration=configuration)


def offsets_topic(settings: Settings) -> NewTopic:
    return NewTopic(
        name=CONSUMER_OFFSETS,
        partitions=settings.offsets_topic_num_partitions,
        replication_factor=settings.offsets_topic_replication_factor,
        configuration={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings.offsets_topic_segment_bytes),
        },
    )


def transactions_topic(settings: Settings) -> NewTopic:
    return NewTopic(
        name=TRANSACTION_STATE,
        partitions=settings.transaction_state_log_num_partitions,
        replication_factor=settings.transaction_state_log_replication_factor,
        configuration={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            IN_SYNC_MIN: str(settings.transaction_state_log_min_isr),
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )


NEW_TOPICS = {CONSUMER_OFFSETS: offsets_topic, TRANSACTION_STATE: transactions_topic}
