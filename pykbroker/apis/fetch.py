"""Fetch: returns complete batches of partitions.

Limits are soft (KIP-74): the first partition with records returns at least its first batch, however
large; the others return what fits into the rest. A fetch waits until `min_bytes` are available or
`max_wait_ms` have passed. Responses contain views of mapped segments without a copy. Records that
are not in the page cache are read in a thread; only these are copied.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pykbroker.apis.answers import Deferred
from pykbroker.apis.fetch_operation import TOPIC_IDS_SINCE_VERSION, FetchOperation, SliceEnd
from pykbroker.apis.slices import Slice, in_slices
from pykbroker.partitions.isolation import Reader
from pykbroker_protocol.compiler import SLICE_ELEMENTS
from pykbroker_protocol.errors import Refusal
from pykbroker_protocol.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pykbroker.apis.fetch_sessions import FetchSession
    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.fetch import FetchRequest

REPLICA_STATE_SINCE_VERSION = 15
FOLLOWERS_SERVE_SINCE_VERSION = 11
"""Earlier consumers expect that only leaders serve them (KIP-392)."""


def handle(request: FetchRequest, call: Call) -> FetchResponse | Awaitable[FetchResponse]:
    node = call.node
    replica = replica_of(request, call.version)
    if replica < 0:
        find = node.fetch_sessions.find
    else:
        from pykbroker.apis.follower_fetch import find_session  # noqa: PLC0415 - only in a cluster

        find = partial(find_session, node.fetch_sessions, replica)
    session = find(
        request,
        uses_topic_ids=call.version >= TOPIC_IDS_SINCE_VERSION,
        now_ms=node.clock.now_ms(),
    )
    if isinstance(session, Refusal):
        return FetchResponse(error_code=session.code, responses=())
    count = count_partitions(request)
    if count > SLICE_ELEMENTS:
        return Deferred(session, partial(serve_in_slices, request, call))
    if session is not None and count:
        for _ in session.update(request, lambda: False):
            raise AssertionError("the request fits into one slice")
        session = node.fetch_sessions.close_if_empty(session)
    fetch = new_operation(request, call, session)
    stopped = fetch.read_next()
    if stopped is not None:
        return Deferred(stopped, fetch.continue_and_answer)
    missing = fetch.bytes_missing()
    return fetch.wait_and_answer(missing) if missing > 0 else fetch.answering.answer(fetch.results)


def count_partitions(request: FetchRequest) -> int:
    count = 0
    for topic in request.topics:
        count += len(topic.partitions)
    for removed in request.forgotten_topics_data:
        count += len(removed.partitions)
    return count


async def serve_in_slices(
    request: FetchRequest, call: Call, session: FetchSession | None
) -> FetchResponse:
    if session is not None:
        await in_slices(session.update(request, Slice().is_full))
        session = call.node.fetch_sessions.close_if_empty(session)
    return await new_operation(request, call, session).continue_and_answer(SliceEnd.REACHED)


def new_operation(
    request: FetchRequest, call: Call, session: FetchSession | None
) -> FetchOperation:
    replica_id = replica_of(request, call.version)
    if replica_id < 0:
        needs_leader = call.version < FOLLOWERS_SERVE_SINCE_VERSION
        return FetchOperation(request, call, session, Reader.CONSUMER, needs_leader=needs_leader)
    from pykbroker.apis.follower_fetch import FollowerFetch  # noqa: PLC0415 - only in a cluster

    return FollowerFetch(request, call, session, replica_id)


def replica_of(request: FetchRequest, version: int) -> int:
    """Returns the broker id of a follower; a negative number for all others."""
    if version >= REPLICA_STATE_SINCE_VERSION:
        return request.replica_state.replica_id
    return request.replica_id
