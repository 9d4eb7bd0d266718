"""What the operator has decided about groups of the next-generation protocol."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Self

from pykbroker_protocol.late_dataclass import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping

UNLIMITED = 2**31 - 1


class MigrationPolicy(StrEnum):
    """`group.consumer.migration.policy`: which way a group with members may change protocols."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_any(self) -> bool:
        """Where neither way is open, a classic member does not join a consumer group either."""
        return self is not MigrationPolicy.DISABLED

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSettings:
    """Kafka's properties `group.consumer.*`, with its defaults."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    members_max: int = UNLIMITED
    regexes_max: int = 100
    """`group.consumer.max.regexes`: different regular expressions that members of a group use."""
    classic_members_max: int = UNLIMITED
    """`group.max.size`: a larger group is not turned into a classic one."""
    assignors: tuple[str, ...] = ("uniform", "range")
    """The first is taken unless members ask for another."""
    assignment_interval_ms: int = 1_000
    """Assignments are computed at most this often, so that many joins cost one computation."""
    regex_refresh_interval_ms: int = 10_000
    """New topics are matched against regular expressions at most this often; fixed in Kafka."""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    by_group: Mapping[str, Self] = field(default_factory=dict)
    """Groups for which the operator has decided otherwise."""

    def of(self, group_id: str) -> Self:
        return self.by_group.get(group_id, self)
