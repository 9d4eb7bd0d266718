"""The follower side of a fetch session (KIP-227): each request has only what has changed.

The first request of a session has all partitions. The leader answers with a session id, or with 0
if it keeps no session; then every request has all partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
EPOCH_MAX: Final = 2**31 - 1

PartitionKey: TypeAlias = "tuple[bytes, int]"
"""Topic id and index."""


class Requested(NamedTuple):
    """The fields of a Fetch for one partition."""

    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    log_start_offset: int
    bytes_max: int


class SessionRequest(NamedTuple):
    """The partitions of the next Fetch and the session it belongs to."""

    session_id: int
    epoch: int
    partitions: Mapping[PartitionKey, Requested]
    removed: tuple[PartitionKey, ...]

    @property
    def is_full(self) -> bool:
        return self.epoch == FIRST_EPOCH


class FollowerSession:
    """Bounded by the partitions of one fetcher."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._current: dict[PartitionKey, Requested] = {}
        self._known: dict[PartitionKey, Requested] = {}
        """The entries of the last request."""
        self._changed: dict[PartitionKey, None] = {}
        """Keys whose entries may differ, in the order of the changes."""

    def __len__(self) -> int:
        return len(self._current)

    def __contains__(self, key: PartitionKey) -> bool:
        return key in self._current

    def keys(self) -> Iterator[PartitionKey]:
        return iter(self._current)

    def requested(self, key: PartitionKey) -> Requested | None:
        """Returns what the last request had for this partition."""
        return self._known.get(key)

    def set(self, key: PartitionKey, requested: Requested) -> None:
        if self._current.get(key) != requested:
            self._current[key] = requested
            self._changed[key] = None

    def discard(self, key: PartitionKey) -> None:
        if self._current.pop(key, None) is not None:
            self._changed[key] = None

    def next_request(self) -> SessionRequest:
        current, known = self._current, self._known
        if self._epoch == FIRST_EPOCH:
            request = SessionRequest(self.session_id, self._epoch, current.copy(), ())
            self._known = current.copy()
        else:
            changed = {
                key: current[key]
                for key in self._changed
                if key in current and known.get(key) != current[key]
            }
            removed = tuple(key for key in self._changed if key in known and key not in current)
            request = SessionRequest(self.session_id, self._epoch, changed, removed)
            known.update(changed)
            for key in removed:
                del known[key]
        self._changed.clear()
        return request

    def after_response(self, session_id: int) -> None:
        if session_id == NO_SESSION:
            self._begin_again(NO_SESSION)
        else:
            self.session_id = session_id
            self._epoch = self._epoch % EPOCH_MAX + 1

    def after_error(self, error: ErrorCode) -> None:
        """The leader has refused the whole request, so the next one begins a session."""
        is_unknown = error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        self._begin_again(NO_SESSION if is_unknown else self.session_id)

    def after_failure(self) -> None:
        """Replaces the session: the leader may or may not have received the request."""
        self._begin_again(self.session_id)

    def _begin_again(self, session_id: int) -> None:
        self.session_id = session_id
        self._epoch = FIRST_EPOCH
