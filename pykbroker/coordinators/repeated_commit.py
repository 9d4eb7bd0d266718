"""The batch of a commit that repeats an earlier one with other offsets, built once."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.coordination.groups.draft import Draft
from pykbroker.coordination.outcome import Write
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.records.batch import RecordBatch, write_crc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pykbroker.coordination.groups.registry import Groups
    from pykbroker.coordination.groups.settings import GroupSettings
    from pykbroker.coordinators.coordinated_log import CoordinatedLog
    from pykbroker_protocol.messages.offset_commit import OffsetCommitRequest

NUMBER = Struct(">q")
TIME_MARK = 0x7A11_0FF5_E700_0000
TIMES_OF_A_BATCH = 2
"""The base and the maximum timestamp; the value of each record has one more."""


def mark(index: int) -> int:
    """A marker in place of an offset in a template: a number that no client commits."""
    return TIME_MARK + 1 + index


class RepeatedCommit(NamedTuple):
    request: OffsetCommitRequest
    """The request with markers in place of its offsets."""
    version: int
    settings: GroupSettings
    """The settings under which the group accepted it."""
    writes: Sequence[Write]
    batch: bytes
    offsets_at: Sequence[int]
    times_at: Sequence[int]

    def batch_with(self, offsets: Sequence[int], now_ms: int) -> RecordBatch:
        batch = bytearray(self.batch)
        for at, offset in zip(self.offsets_at, offsets, strict=True):
            NUMBER.pack_into(batch, at, offset)
        for at in self.times_at:
            NUMBER.pack_into(batch, at, now_ms)
        write_crc(batch)
        return RecordBatch.parse(memoryview(batch))

    def writes_with(self, offsets: Sequence[int], now_ms: int) -> Iterator[Write]:
        for (key, value, version), offset in zip(self.writes, offsets, strict=True):
            assert value is not None
            yield Write(key, value.replace(offset=offset, commit_timestamp=now_ms), version)


def template_of(
    log: CoordinatedLog[Groups], request: OffsetCommitRequest, version: int
) -> RepeatedCommit | None:
    """Builds the template of a request with markers in place of its offsets, or returns None."""
    if request.retention_time_ms >= 0 or not log.commits_at_once:
        return None  # the records have an expiry time; the response waits
    outcome = log.state.offset_commit(request, version=version, ticket=0, now_ms=TIME_MARK)
    if not outcome.writes:
        return None
    batch = log.batch_of(outcome, TIME_MARK)
    offsets_at = positions_of_markers(len(outcome.writes), batch)
    times_at = positions_of(TIME_MARK, batch)
    if offsets_at is None or len(times_at) != TIMES_OF_A_BATCH + len(offsets_at):
        return None
    return RepeatedCommit(
        request=request,
        version=version,
        settings=log.state.settings,
        writes=outcome.writes,
        batch=batch,
        offsets_at=offsets_at,
        times_at=times_at,
    )


def positions_of_markers(count: int, data: bytes) -> list[int] | None:
    """Returns the positions of the first `count` markers; None if one occurs more than once."""
    positions = [positions_of(mark(index), data) for index in range(count)]
    return (
        [position for (position,) in positions] if all(len(it) == 1 for it in positions) else None
    )


def positions_of(number: int, data: bytes) -> list[int]:
    """Returns the positions of an eight-byte number."""
    sought, positions, at = NUMBER.pack(number), [], -1
    while (at := data.find(sought, at + 1)) >= 0:
        positions.append(at)
    return positions


def may_repeat(log: CoordinatedLog[Groups], commit: RepeatedCommit) -> bool:
    """Returns True if commits need no wait and the settings are those of the template."""
    return log.commits_at_once and log.state.settings is commit.settings


def commit_again(
    log: CoordinatedLog[Groups], commit: RepeatedCommit, offsets: Sequence[int], now_ms: int
) -> bool:
    """Returns False without side effects if the group rejects the commit or the append fails."""
    draft = Draft(now_ms)
    code = log.state.check_commit(commit.request, commit.version, draft)
    if code is not ErrorCode.NONE:
        return False
    batch = commit.batch_with(offsets, now_ms)
    writes = commit.writes_with(offsets, now_ms)
    return log.write_batch(batch, writes, draft.timers.values(), now_ms)
