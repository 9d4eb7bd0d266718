"""Relay between a client and a broker: records frames, changes them, cuts connections."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self

from compat.suite.recording import FRAME_BYTES_MAX, Frame, Recording
from pykbroker.testing.recording.relay import SIZE, Passing
from pykbroker.testing.recording.relay import Relay as PlainRelay
from pykbroker_protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from compat.sabotage.frame_change import FrameChange

Address = tuple[str, int]

_START_SECONDS: Final = 10.0

MOVES_BEFORE: Final[dict[int, int]] = {ApiKey.PRODUCE: 1, ApiKey.FETCH: 2}
"""Ordinal of the request before which leaders move. A first Fetch often finds all records."""


class Relays:
    """The event loop of all relays of a run, in its own thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(_cancel_all_tasks(), self._loop).result(_START_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(
        self,
        bootstrap: list[Address],
        frame_changes: tuple[FrameChange, ...] = (),
        move_leaders: Callable[[], object] | None = None,
    ) -> Relay:
        """Opens the relay of a cell for these brokers and those in their metadata."""
        opened = Opened(frame_changes, move_leaders)
        for address in bootstrap:
            self.run(opened.listen_for(address))
        return Relay(self, opened)

    def run(self, what: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(_START_SECONDS)


class Which(StrEnum):
    """Direction of a frame."""

    REQUEST = "request"
    RESPONSE = "response"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Forwards the first bytes of the next frame of an API, then closes the connection."""

    api_key: ApiKey
    which: Which
    after_bytes: int


class Relay:
    """The relay of one cell, as used from the thread of the scenario."""

    def __init__(self, relays: Relays, opened: Opened) -> None:
        self._relays = relays
        self._opened = opened

    @property
    def recording(self) -> Recording:
        return self._opened.recording

    @property
    def cuts_done(self) -> int:
        return self._opened.cuts_done

    @property
    def bootstrap(self) -> str:
        return ",".join("{}:{}".format(*self.address_of(it)) for it in self._opened.brokers)

    def address_of(self, broker: Address) -> Address:
        """Returns the relay's address for a broker."""
        return self._opened.address_of(broker)

    def listen_for(self, broker: Address) -> None:
        """Opens the relay's listener for a broker before a client learns its address."""
        self._relays.run(self._opened.listen_for(broker))

    def cut(self, api_key: ApiKey, which: Which, *, after_bytes: int) -> None:
        self._opened.cuts.append(Cut(api_key=api_key, which=which, after_bytes=after_bytes))

    def cut_all(self) -> None:
        """Closes all connections, like a network failure."""
        self._relays.run(self._opened.cut_all())

    def close(self) -> None:
        self._relays.run(self._opened.close())


class LeaderMoves:
    """Moves the leaders of a cell's topics in the middle of its scenario.

    The request is forwarded to the old leader after the move, so the client must find the new one.
    """

    def __init__(self, move: Callable[[], object] | None) -> None:
        self._move = move
        self._requests: Counter[int] = Counter()
        self._one_at_a_time = asyncio.Lock()

    async def before(self, api_key: int) -> None:
        """Moves the leaders if this is the request of its API before which they move."""
        if self._move is None or api_key not in MOVES_BEFORE:
            return
        self._requests[api_key] += 1
        is_due = self._requests[api_key] == MOVES_BEFORE[api_key]
        async with self._one_at_a_time:  # also requests of other connections wait for the move
            if is_due:
                await asyncio.to_thread(self._move)


class Opened(PlainRelay):
    """The relay of one cell, in the event loop of the relays."""

    def __init__(
        self,
        frame_changes: tuple[FrameChange, ...],
        move_leaders: Callable[[], object] | None,
    ) -> None:
        super().__init__()
        self.frame_changes = frame_changes
        """Faults injected by `pykbroker-compat sabotage`."""
        self.leader_moves = LeaderMoves(move_leaders)
        self.recording = Recording()
        self.cuts: list[Cut] = []
        self.cuts_done = 0

    def change(self, passing: Passing) -> bytes:
        frame = passing.frame
        for frame_change in self.frame_changes:
            frame = frame_change.changed(passing.header, frame, is_request=passing.is_request)
        return frame

    def see(self, passing: Passing) -> None:
        self._keep(passing)

    async def cut(self, passing: Passing, writer: asyncio.StreamWriter) -> bool:
        if passing.is_request:
            await self.leader_moves.before(passing.header.api_key)
        which = Which.REQUEST if passing.is_request else Which.RESPONSE
        for cut in self.cuts:
            if (cut.api_key, cut.which) == (passing.header.api_key, which):
                self.cuts.remove(cut)
                self.cuts_done += 1
                self._keep(passing, note=f"cut after {cut.after_bytes} bytes")
                frame = passing.frame
                writer.write((SIZE.pack(len(frame)) + frame)[: cut.after_bytes])
                with suppress(OSError):
                    await writer.drain()
                return True
        return False

    def _keep(self, passing: Passing, *, note: str = "") -> None:
        header, frame = passing.header, passing.frame
        self.recording.keep(
            Frame(
                at_seconds=self.recording.now(),
                connection=passing.connection,
                api_key=header.api_key,
                version=header.api_version,
                correlation_id=header.correlation_id,
                is_request=passing.is_request,
                size=len(frame),
                content=frame[:FRAME_BYTES_MAX],
                client_id=header.client_id if passing.is_request else None,
                note=note,
            )
        )


async def _cancel_all_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
