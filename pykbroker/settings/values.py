"""The settings in effect: each attribute is a property that has an effect on this broker."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, Self


class Layers(NamedTuple):
    """The texts of the broker's properties by source."""

    static: Mapping[str, str]
    dynamic_default: Mapping[str, str] = MappingProxyType({})
    dynamic_broker: Mapping[str, str] = MappingProxyType({})

    def text(self, name: str) -> str | None:
        """Returns the text of the first source: this broker, the cluster default, the file."""
        for layer in (self.dynamic_broker, self.dynamic_default, self.static):
            if name in layer:
                return layer[name]
        return None


class FrozenValues:
    """Base of immutable values whose attributes are all required.

    A dataclass would generate and compile a constructor of a hundred lines at each start.
    """

    def __init__(self, **values: Any) -> None:
        if values.keys() != self.names():
            raise TypeError(f"missing or unknown: {sorted(values.keys() ^ self.names())}")
        vars(self).update(values)

    @classmethod
    def names(cls) -> frozenset[str]:
        return frozenset(cls.__annotations__)

    def replaced(self, **values: Any) -> Self:
        return type(self)(**{**vars(self), **values})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({vars(self)})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} is read-only")


class TopicSettings(FrozenValues):
    """The properties of a topic: its overrides, otherwise the broker's defaults."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicSettings) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(tuple(sorted(vars(self).items())))

    cleanup_policy: tuple[str, ...]
    retention_ms: int
    retention_bytes: int
    file_delete_delay_ms: int
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    flush_messages: int
    flush_ms: int
    max_message_bytes: int
    message_timestamp_type: str
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    compression_type: str
    min_insync_replicas: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float
    leader_replication_throttled_replicas: tuple[str, ...]
    follower_replication_throttled_replicas: tuple[str, ...]


class Settings(FrozenValues):
    """The broker's properties."""

    layers: Layers
    topic_defaults: TopicSettings

    node_id: int
    process_roles: tuple[str, ...]
    broker_rack: str | None
    log_dirs: tuple[str, ...]
    cordoned_log_dirs: tuple[str, ...]

    listeners: tuple[str, ...]
    advertised_listeners: tuple[str, ...] | None
    listener_security_protocol_map: str
    inter_broker_listener_name: str | None
    controller_listener_names: tuple[str, ...]
    controller_quorum_voters: tuple[str, ...]
    controller_quorum_bootstrap_servers: tuple[str, ...]
    controller_quorum_fetch_timeout_ms: int
    controller_quorum_request_timeout_ms: int
    metadata_log_dir: str | None
    broker_session_timeout_ms: int
    broker_heartbeat_interval_ms: int
    replica_lag_time_max_ms: int
    initial_broker_registration_timeout_ms: int
    controlled_shutdown_enable: bool
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: str
    connections_max_idle_ms: int
    socket_request_max_bytes: int
    socket_request_max_elements: int
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    socket_listen_backlog_size: int

    num_partitions: int
    default_replication_factor: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    max_request_partition_size_limit: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    disk_read_buffer_bytes: int

    num_io_threads: int
    log_retention_check_interval_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_wait_max_ms: int
    replica_fetch_backoff_ms: int
    replica_socket_timeout_ms: int
    num_replica_fetchers: int
    security_inter_broker_protocol: str
    replication_quota_window_num: int
    replication_quota_window_size_seconds: int
    leader_replication_throttled_rate: int
    follower_replication_throttled_rate: int

    log_cleaner_enable: bool
    log_cleaner_threads: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float

    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int

    group_consumer_assignment_interval_ms: int
    group_consumer_min_assignment_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_consumer_session_timeout_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_migration_policy: str
    group_consumer_max_size: int
    group_consumer_max_regexes: int
    group_consumer_assignors: tuple[str, ...]
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    group_member_max_bytes: int
    group_coordinator_members_max_bytes: int
    offset_metadata_max_bytes: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int

    transactional_id_expiration_ms: int
    transaction_max_timeout_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_partition_verification_enable: bool
    add_partitions_to_txn_retry_backoff_ms: int
    add_partitions_to_txn_retry_backoff_max_ms: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_min_isr: int
    transaction_state_log_segment_bytes: int
