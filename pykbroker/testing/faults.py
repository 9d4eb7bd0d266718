"""What a test asks a broker to do wrong, to whom and how often."""

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
    from pykbroker.testing.disk_faults import AtTheBroker
    from pykbroker.testing.fault_actions import FaultAction
    from pykbroker.testing.faulty_disk import FaultyDisk
    from pykbroker_protocol.message import Message

    AnyApi: TypeAlias = "ApiKey | str | None"


class Meant(TypedDict, total=False):
    """Whom a fault is meant for; what is not named may be anything."""

    topic: str
    partition: int
    client: str
    """The client id."""
    times: int
    """How often it strikes at most."""


class Fault(ActiveFault):
    """What becomes of requests: of an API, a topic, a partition, a client."""

    def __init__(self, action: FaultAction, api: ApiKey | None, meant: Meant) -> None:
        super().__init__(meant.get("times"))
        self.action = action
        self.api = api
        self.meant = meant
        self.topic = meant.get("topic")
        self.partition = meant.get("partition")
        self._held: list[asyncio.Future[None]] = []

    def __str__(self) -> str:
        api = "any request" if self.api is None else self.api.name
        meant = [f"{name} {value}" for name, value in self.meant.items()]
        return f"{self.action} ({', '.join([api, *meant])})"

    # --- whom it strikes

    def applies_to(self, api: Api, request: Message, call: Call) -> bool:
        client = self.meant.get("client")
        if self.api not in (None, api.key) or client not in (None, call.client_id):
            return False
        return self.is_due and (not self.is_selective or self.matches_topic(api, request, call))

    @property
    def is_selective(self) -> bool:
        """Whether it is meant for some topics or partitions alone."""
        return self.topic is not None or self.partition is not None

    def matches_topic(self, api: Api, request: Message, call: Call) -> bool:
        if self.partition_filter(call).split(request)[0] is not None:
            return True
        return self.matches_all_topics(api, request, call) or self.matches_session(
            api, request, call
        )

    def matches_all_topics(self, api: Api, request: Any, call: Call) -> bool:
        """Metadata may ask for all topics that there are: with null, in version 0 with no names."""
        if api.key is not ApiKey.METADATA or not asks_for_all(request, call.version):
            return False
        topics = call.node.image.topics.values()
        return any(self.affects(it.name, each.index) for it in topics for each in it.partitions)

    def matches_session(self, api: Api, request: Any, call: Call) -> bool:
        """Within a fetch session a request does not repeat what it asks for."""
        if api.key is not ApiKey.FETCH:
            return False
        session = call.node.fetch_sessions.sessions.get(request.session_id)
        for wanted in session.partitions if session else ():
            topic = wanted.topic or call.node.partitions.topic_name(wanted.topic_id) or ""
            if self.affects(topic, wanted.number):
                return True
        return False

    def affects(self, topic: str, partition: int | None) -> bool:
        if self.topic not in (None, topic):
            return False
        return self.partition is None or partition in (None, self.partition)

    def partition_filter(self, call: Call) -> PartitionFilter:
        return PartitionFilter(self.affects, call.node.image.topics_by_id)

    # --- its end

    def end(self) -> None:
        """From now on it strikes nobody, and lets go of those it holds; from any thread."""
        super().end()
        held, self._held = self._held, []
        for future in held:
            future.get_loop().call_soon_threadsafe(release, future)

    async def until_ended(self) -> None:
        if not self.is_over:
            held = asyncio.get_running_loop().create_future()
            self._held.append(held)
            await held


def asks_for_all(request: Any, version: int) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def release(held: asyncio.Future[None]) -> None:
    if not held.done():
        held.set_result(None)


class Faults(DiskFaults):
    """All faults of one broker; the first that fits a request strikes it.

    An API is named as in Kafka's documentation, in any spelling: `PRODUCE`, `JoinGroup`,
    `join_group`; None stands for all of them.
    """

    def __init__(self, disk: FaultyDisk, at_the_broker: AtTheBroker) -> None:
        super().__init__(disk, at_the_broker)
        self._faults: list[Fault] = []

    def refuse(self, api: AnyApi, error: ErrorCode | str, **meant: Unpack[Meant]) -> Fault:
        """Answers an error and does nothing; other topics of the same request are served."""
        return self._add(Refuse(named_error(error)), api, meant)

    def delay(self, api: AnyApi, seconds: float, **meant: Unpack[Meant]) -> Fault:
        """Does it at once and answers late."""
        return self._add(Delay(seconds), api, meant)

    def stall(self, api: AnyApi, **meant: Unpack[Meant]) -> Fault:
        """Does it at once and answers when the fault ends."""
        return self._add(Stall(), api, meant)

    def drop(self, api: AnyApi, **meant: Unpack[Meant]) -> Fault:
        """Does nothing and closes the connection."""
        return self._add(Drop(), api, meant)

    def lose_answer(self, api: AnyApi, **meant: Unpack[Meant]) -> Fault:
        """Does it and closes the connection without a word."""
        return self._add(LoseAnswer(), api, meant)

    def cut_answer(self, api: AnyApi, **meant: Unpack[Meant]) -> Fault:
        """Does it, sends half of the answer and closes the connection."""
        return self._add(CutAnswer(), api, meant)

    def do_twice(self, api: AnyApi, **meant: Unpack[Meant]) -> Fault:
        """Does it twice, as if the request had come twice, and answers once."""
        return self._add(DoTwice(), api, meant)

    def _add(self, action: FaultAction, api: AnyApi, meant: Meant) -> Fault:
        refuse_strangers(meant)
        fault = Fault(action, named_api(api), meant)
        self._faults.append(fault)
        return fault

    def __iter__(self) -> Iterator[ActiveFault]:
        return iter((*self._faults, *self._of_the_disk))

    def fault_for(self, api: Api, request: Message, call: Call) -> Fault | None:
        """The fault that a request meets; it is counted as struck."""
        for fault in self._faults:
            if fault.applies_to(api, request, call):
                fault.hits += 1
                return fault
        return None

    def check(self) -> None:
        """Raises FaultMatchedNothing for the first that has not struck, once for each."""
        for fault in self:
            fault.check()

    def clear(self) -> None:
        """All of them end and are forgotten."""
        for fault in self:
            fault.end()
        self._faults.clear()
        self._of_the_disk.clear()


def refuse_strangers(meant: Iterable[str]) -> None:
    """A word that nobody reads would leave the fault as wide as if it were not there."""
    known = Meant.__annotations__
    if strangers := [name for name in meant if name not in known]:
        by = f"by {', '.join(known)}, not by {', '.join(strangers)}"
        raise TypeError(f"faults of requests are narrowed down {by}")


def named_api(name: AnyApi) -> ApiKey | None:
    if name is None or isinstance(name, ApiKey):
        return name
    for key in ApiKey:
        if plain(key.name) == plain(name):
            return key
    raise ValueError(f"there is no API {name!r}; there are {names(ApiKey)}")


def named_error(error: ErrorCode | str) -> ErrorCode:
    if isinstance(error, ErrorCode):
        return error
    if error not in ErrorCode.__members__:
        raise ValueError(f"there is no error {error!r}; there are {names(ErrorCode)}")
    return ErrorCode[error]


def plain(name: str) -> str:
    return name.replace("_", "").lower()


def names(members: Iterable[ApiKey | ErrorCode]) -> str:
    return ", ".join(it.name for it in members)
