"""Settings of consumer groups (KIP-848)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Self

from pykbroker_protocol.late_dataclass import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping

UNLIMITED = 2**31 - 1


class MigrationPolicy(StrEnum):
    """`group.consumer.migration.policy`: the allowed conversions of groups with members."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_any(self) -> bool:
        """True if a conversion is allowed; without one, classic members cannot join the group."""
        return self is not MigrationPolicy.DISABLED

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSettings:
    """Kafka's properties `group.consumer.*` with Kafka's defaults."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    members_max: int = UNLIMITED
    regexes_max: int = 100
    """`group.consumer.max.regexes`: maximum number of different expressions per group."""
    classic_members_max: int = UNLIMITED
    """`group.max.size`: larger groups are not downgraded."""
    assignors: tuple[str, ...] = ("uniform", "range")
    """The first one is the default."""
    assignment_interval_ms: int = 1_000
    """Minimum time between assignments, so that many joins cost one computation."""
    regex_refresh_interval_ms: int = 10_000
    """Minimum time between matches of an expression; also fixed in Kafka."""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    by_group: Mapping[str, Self] = field(default_factory=dict)
    """Settings of groups with dynamic group configuration."""

    def of(self, group_id: str) -> Self:
        return self.by_group.get(group_id, self)
