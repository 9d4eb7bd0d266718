"""Settings of groups and of committed offsets."""

from __future__ import annotations

from pykbroker_protocol.late_dataclass import dataclass

UNLIMITED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Kafka's properties with Kafka's defaults, and two limits of PyKBroker."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    members_max: int = UNLIMITED
    member_bytes_max: int = 1 << 20
    """`group.member.max.bytes`; a larger member would not fit into a record of the group."""
    all_members_bytes_max: int = 128 << 20
    """`group.coordinator.members.max.bytes`, for the members of all groups on this node."""
    offset_metadata_length_max: int = 4_096
    """`offset.metadata.max.bytes`; Kafka counts UTF-16 code units instead of bytes."""
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    newcomer_join_timeout_ms: int = 300_000
    """Session timeout of a member before its first JoinGroup response; also fixed in Kafka."""
