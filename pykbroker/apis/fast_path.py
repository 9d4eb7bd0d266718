"""Fast paths: a request that repeats an earlier one of its connection skips most checks.

Most requests of a producer differ from the previous one only in their records, most commits of a
consumer only in their offsets. The general path serves the first one and checks everything; then
the fast path stores the request and the response, and serves requests with the same bytes around
the records or offsets (`repeated_produce`, `repeated_commit`).

Checks that the general path has passed, and that hold while the generation stays the same
(`pykbroker.generation`):

| check | Produce | OffsetCommit |
|---|---|---|
| the API is offered in this version, the request is well-formed | x | x |
| the topic exists, under this name with this id | x | x |
| the partition exists | x | x |
| this broker leads the partition (the partition of the group) | x | x |
| the only replica has the records: no wait for followers | | x |
| `flush.messages` is the default: no wait for a flush | x | x |
| the group accepts commits under these settings | | x |

An ACL or a quota on these requests belongs in this table: it advances the generation when it
changes.

Checked for each request, because it depends on the records or on the state of the group:

- Produce: the batch is valid and its producer is known (`Leader.append`, which also rejects
  the records where the in-sync set is too small); it is not transactional. With acks=all the
  response waits for the in-sync set.
- OffsetCommit: the group is loaded here, the member and its generation may commit.

A request of another generation goes through the general path. When that path has served it, the
stored request is valid in the new generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from pykbroker.apis.node import Call
    from pykbroker_protocol.compiler import Buffer
    from pykbroker_protocol.message import Message

    class Route(Protocol):
        """Reader and writer of one version of an API."""

        @property
        def version(self) -> int: ...
        @property
        def is_flexible(self) -> bool: ...
        @property
        def write(self) -> Callable[[Message, int], Sequence[Buffer]]: ...

    Store = Callable[[Call, Route, memoryview, Message, Message], None]

REQUESTS_MAX = 64
"""Limit of stored requests per connection, because requests that never repeat gain nothing."""
