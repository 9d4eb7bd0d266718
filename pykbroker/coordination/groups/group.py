"""The interface of groups of both protocols for offset commits, listing and deletion."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.coordination.outcome import Write
    from pykbroker_protocol.errors import ErrorCode


class GroupKind(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"


class Group(Protocol):
    """A group of either protocol. Its `refusal_of_…` methods return `ErrorCode.NONE` if allowed."""

    @property
    def group_id(self) -> str: ...

    @property
    def kind(self) -> GroupKind: ...

    @property
    def state_name(self) -> str:
        """State as in ListGroups: `Stable`, `Empty`, `Assigning`."""

    @property
    def protocol_type(self) -> str:
        """`consumer` for consumers of either protocol; empty if the group never had a member."""

    @property
    def is_empty(self) -> bool: ...

    @property
    def member_bytes(self) -> int:
        """Memory of all members."""

    def bytes_of_member(self, member_id: str, instance_id: str | None) -> int:
        """Memory of one member, or of the static member that it replaces."""

    def refusal_of_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        transactional: bool,
        version: int,
        committed_partitions: Sequence[tuple[bytes, int]] | None = None,
    ) -> ErrorCode:
        """Checks whether this member with this generation or member epoch may commit offsets.

        `committed_partitions` are topic ids with partitions, if the caller has them.
        """

    def refusal_of_fetch(self, *, member_id: str | None, member_epoch: int) -> ErrorCode: ...

    def refusal_of_offset_deletion(self) -> ErrorCode: ...

    def refusal_of_deletion(self) -> ErrorCode: ...

    def reads_topic(self, topic: str) -> bool:
        """Returns whether members subscribe to a topic, whose offsets are then kept."""

    def offset_ages_from_ms(self, commit_timestamp_ms: int) -> int | None:
        """Returns the start of an offset's retention; None while the offset does not age."""

    def tombstones(self) -> Sequence[Write]:
        """Returns the records that delete the group, without those of its offsets."""
