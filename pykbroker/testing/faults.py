"""Faults that a test sets on a broker: errors, delays and closed connections for requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypedDict

from pykbroker.testing.active_fault import ActiveFault
from pykbroker.testing.disk_faults import DiskFaults
from pykbroker.testing.fault_actions import (
    CutAnswer,
    Delay,
    DoTwice,
    Drop,
    LoseAnswer,
    Refuse,
    Stall,
)
from pykbroker.testing.request_splitting import PartitionFilter
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, TypeAlias, Unpack

    from pykbroker.apis import Api
    from pykbroker.apis.node import Call
    from pykbroker.testing.disk_faults import RunOnBroker
    from pykbroker.testing.fault_actions import FaultAction
    from pykbroker.testing.faulty_disk import FaultyDisk
    from pykbroker_protocol.message import Message

    AnyApi: TypeAlias = "ApiKey | str | None"


class FaultScope(TypedDict, total=False):
    """The requests that a fault applies to. A field that is left out does not restrict."""

    topic: str
    partition: int
    client: str
    """The client id."""
    times: int
    """The fault applies to at most this many requests."""


class Fault(ActiveFault):
    """A fault of requests, restricted by API, topic, partition and client id."""

    def __init__(self, action: FaultAction, api: ApiKey | None, scope: FaultScope) -> None:
        super().__init__(scope.get("times"))
        self.action = action
        self.api = api
        self.scope = scope
        self.topic = scope.get("topic")
        self.partition = scope.get("partition")
        self._held: list[asyncio.Future[None]] = []

    def __str__(self) -> str:
        api = "any request" if self.api is None else self.api.name
        scope = [f"{name} {value}" for name, value in self.scope.items()]
        return f"{self.action} ({', '.join([api, *scope])})"

    # --- matching requests

    def applies_to(self, api: Api, request: Message, call: Call) -> bool:
        client = self.scope.get("client")
        if self.api not in (None, api.key) or client not in (None, call.client_id):
            return False
        return self.is_due and (not self.is_selective or self.matches_topic(api, request, call))

    @property
    def is_selective(self) -> bool:
        """True if the fault is restricted to a topic or a partition."""
        return self.topic is not None or self.partition is not None

    def matches_topic(self, api: Api, request: Message, call: Call) -> bool:
        if self.partition_filter(call).split(request)[0] is not None:
            return True
        return self.matches_all_topics(api, request, call) or self.matches_session(
            api, request, call
        )

    def matches_all_topics(self, api: Api, request: Any, call: Call) -> bool:
        """True for a Metadata request for all topics, if an existing topic is affected."""
        if api.key is not ApiKey.METADATA or not requests_all_topics(request, call.version):
            return False
        topics = call.node.image.topics.values()
        return any(self.affects(it.name, each.index) for it in topics for each in it.partitions)

    def matches_session(self, api: Api, request: Any, call: Call) -> bool:
        """True if an affected partition is in the fetch session, which requests do not repeat."""
        if api.key is not ApiKey.FETCH:
            return False
        session = call.node.fetch_sessions.sessions.get(request.session_id)
        for fetched in session.partitions if session else ():
            topic = fetched.topic or call.node.partitions.topic_name(fetched.topic_id) or ""
            if self.affects(topic, fetched.number):
                return True
        return False

    def affects(self, topic: str, partition: int | None) -> bool:
        if self.topic not in (None, topic):
            return False
        return self.partition is None or partition in (None, self.partition)

    def partition_filter(self, call: Call) -> PartitionFilter:
        return PartitionFilter(self.affects, call.node.image.topics_by_id)

    # --- ending

    def end(self) -> None:
        """Ends the fault and releases held responses. Callable from any thread."""
        super().end()
        held, self._held = self._held, []
        for future in held:
            future.get_loop().call_soon_threadsafe(release, future)

    async def until_ended(self) -> None:
        if not self.is_over:
            held = asyncio.get_running_loop().create_future()
            self._held.append(held)
            await held


def requests_all_topics(request: Any, version: int) -> bool:
    """Metadata: null topics request all; version 0 has no null and uses an empty array."""
    return request.topics is None or (version == 0 and not request.topics)


def release(held: asyncio.Future[None]) -> None:
    if not held.done():
        held.set_result(None)


class Faults(DiskFaults):
    """All faults of one broker. The first fault that matches a request is applied to it.

    'api' is the name of an API in any of Kafka's spellings (`PRODUCE`, `JoinGroup`,
    `join_group`), or None for every request.
    """

    def __init__(self, disk: FaultyDisk, run_on_broker: RunOnBroker) -> None:
        super().__init__(disk, run_on_broker)
        self._faults: list[Fault] = []

    def refuse(self, api: AnyApi, error: ErrorCode | str, **scope: Unpack[FaultScope]) -> Fault:
        """Responds with an error without serving; serves other partitions of the request."""
        return self._add(Refuse(error_named(error)), api, scope)

    def delay(self, api: AnyApi, seconds: float, **scope: Unpack[FaultScope]) -> Fault:
        """Serves the request at once and delays the response."""
        return self._add(Delay(seconds), api, scope)

    def stall(self, api: AnyApi, **scope: Unpack[FaultScope]) -> Fault:
        """Serves the request at once and holds the response until the fault ends."""
        return self._add(Stall(), api, scope)

    def drop(self, api: AnyApi, **scope: Unpack[FaultScope]) -> Fault:
        """Closes the connection without serving the request."""
        return self._add(Drop(), api, scope)

    def lose_answer(self, api: AnyApi, **scope: Unpack[FaultScope]) -> Fault:
        """Serves the request and closes the connection without a response."""
        return self._add(LoseAnswer(), api, scope)

    def cut_answer(self, api: AnyApi, **scope: Unpack[FaultScope]) -> Fault:
        """Serves the request, sends half of the response and closes the connection."""
        return self._add(CutAnswer(), api, scope)

    def do_twice(self, api: AnyApi, **scope: Unpack[FaultScope]) -> Fault:
        """Serves the request twice, like a retry, and sends one response."""
        return self._add(DoTwice(), api, scope)

    def _add(self, action: FaultAction, api: AnyApi, scope: FaultScope) -> Fault:
        check_scope(scope)
        fault = Fault(action, api_named(api), scope)
        self._faults.append(fault)
        return fault

    def __iter__(self) -> Iterator[ActiveFault]:
        return iter((*self._faults, *self._disk_faults))

    def may_apply_to(self, api_key: int) -> bool:
        """Returns True if a fault may apply to the next request of an API."""
        return any(it.is_due and it.api in (None, api_key) for it in self._faults)

    def fault_for(self, api: Api, request: Message, call: Call) -> Fault | None:
        """Returns the fault that applies to a request and counts the hit."""
        for fault in self._faults:
            if fault.applies_to(api, request, call):
                fault.hits += 1
                return fault
        return None

    def check(self) -> None:
        """Raises FaultMatchedNothing for the first fault that was never applied, once per fault."""
        for fault in self:
            fault.check()

    def clear(self) -> None:
        """Ends and removes all faults."""
        for fault in self:
            fault.end()
        self._faults.clear()
        self._disk_faults.clear()


def check_scope(scope: Iterable[str]) -> None:
    """Raises TypeError for an unknown name: ignoring it would apply the fault to every request."""
    known = FaultScope.__annotations__
    if unknown := [name for name in scope if name not in known]:
        raise TypeError(f"unknown fault filter {', '.join(unknown)}; use {', '.join(known)}")


def api_named(name: AnyApi) -> ApiKey | None:
    if name is None or isinstance(name, ApiKey):
        return name
    for key in ApiKey:
        if plain(key.name) == plain(name):
            return key
    raise ValueError(f"unknown API {name!r}; known APIs: {names(ApiKey)}")


def error_named(error: ErrorCode | str) -> ErrorCode:
    if isinstance(error, ErrorCode):
        return error
    if error not in ErrorCode.__members__:
        raise ValueError(f"unknown error {error!r}; known errors: {names(ErrorCode)}")
    return ErrorCode[error]


def plain(name: str) -> str:
    return name.replace("_", "").lower()


def names(members: Iterable[ApiKey | ErrorCode]) -> str:
    return ", ".join(it.name for it in members)
