"""What a group of either protocol answers to those who keep, list and delete offsets and groups."""

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
    """A refusal is an error code; `ErrorCode.NONE` means: go on."""

    @property
    def group_id(self) -> str: ...

    @property
    def kind(self) -> GroupKind: ...

    @property
    def state_name(self) -> str:
        """As ListGroups tells it: `Stable`, `Empty`, `Assigning`."""

    @property
    def protocol_type(self) -> str:
        """`consumer` for consumers, whichever protocol they speak; empty when no member came."""

    @property
    def is_empty(self) -> bool: ...

    @property
    def member_bytes(self) -> int:
        """What its members hold in memory."""

    def bytes_of_member(self, member_id: str, instance_id: str | None) -> int:
        """What one of them holds, or the one whose place a static member takes."""

    def refusal_of_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        transactional: bool,
        version: int,
        places: Sequence[tuple[bytes, int]] | None = None,
    ) -> ErrorCode:
        """Whether this member of this generation, or member epoch, may commit offsets.

        `places` are the ids of topics and their partitions, where the caller knows them.
        """

    def refusal_of_fetch(self, *, member_id: str | None, member_epoch: int) -> ErrorCode: ...

    def refusal_of_offset_deletion(self) -> ErrorCode: ...

    def refusal_of_deletion(self) -> ErrorCode: ...

    def reads_topic(self, topic: str) -> bool:
        """Whether members subscribe to the topic: its offsets are neither deleted nor expired."""

    def offset_ages_from_ms(self, commit_timestamp_ms: int) -> int | None:
        """The moment from which an offset's retention counts; None while it does not age."""

    def tombstones(self) -> Sequence[Write]:
        """The records that make the group be forgotten, without those of its offsets."""
