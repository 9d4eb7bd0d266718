"""A cluster of brokers of Apache Kafka and PyKBroker, under a controller of Apache Kafka."""

from compat.cluster.cluster import Cluster, NotReachedError
from compat.cluster.nodes import Kind, Node

__all__ = ["Cluster", "Kind", "Node", "NotReachedError"]
