"""Registration, heartbeats, fencing and shutdown of a broker in a cluster, as pure state.

    REGISTERING  the controller has no registration of this process, or an older one
    FENCED       registered; heartbeats ask for unfencing as soon as the broker is ready
    UNFENCED     the controller lets this broker lead
    LEAVING      heartbeats ask the controller to move the leaderships away
    STOPPED      no more requests

`TRANSITIONS` is the state machine. `next_request` returns what to send and when; the functions
`registered`, `answered` and `failed` return the state after its outcome.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN_EPOCH: Final = -1

BACKOFF_SECONDS: Final = 0.1
"""Pause after the first failed request; doubles with each further one."""

BACKOFF_SECONDS_MAX: Final = 2.0

REFUSAL_SECONDS: Final = 0.5
"""Pause after a refused registration; usually the session of the previous process must expire."""

CATCH_UP_SECONDS_MAX: Final = 1.0
"""Delay of the heartbeat after a pause, in which the broker can read the metadata it missed.

Without it the heartbeat would ask for fencing, also if no controller has fenced the broker.
"""

CATCH_UP_POLL_SECONDS: Final = 0.02

POLL_SECONDS: Final = 0.2
"""Interval of the heartbeats while the broker waits for unfencing or for a controlled shutdown."""

LEAVE_SECONDS_MAX: Final = 15.0
"""Limit of a controlled shutdown. It usually takes one heartbeat of every other broker."""

LEAVE_UNANSWERED_SECONDS_MAX: Final = 5.0
"""A controlled shutdown whose requests fail for so long is given up: the controllers may elect."""

NO_SESSION: Final = float("-inf")


class Phase(Enum):
    """See the module."""

    REGISTERING = auto()
    FENCED = auto()
    UNFENCED = auto()
    LEAVING = auto()
    STOPPED = auto()


class Event(Enum):
    """Moves a broker to another phase."""

    REGISTERED = auto()
    UNFENCING_GRANTED = auto()
    FENCING_SEEN = auto()
    """A heartbeat response, or the time since the last one, shows that the broker is fenced."""
    REGISTRATION_LOST = auto()
    """The controller has another registration of this broker id, or none."""
    STOP_REQUESTED = auto()
    SHUTDOWN_GRANTED = auto()
    GIVEN_UP = auto()
    """The controlled shutdown took too long, or no controller responds to it."""


R, F, U, L, S = Phase  # the columns and values of the table

TRANSITIONS: Final[Mapping[Event, Mapping[Phase, Phase]]] = {
    Event.REGISTERED:        {R: F},
    Event.UNFENCING_GRANTED: {F: U},
    Event.FENCING_SEEN:      {U: F},
    Event.REGISTRATION_LOST: {F: R, U: R, L: S},
    Event.STOP_REQUESTED:    {R: S, F: S, U: L},
    Event.SHUTDOWN_GRANTED:  {L: S},
    Event.GIVEN_UP:          {L: S},
}  # fmt: skip
"""The next phase by event and phase. Events without an entry do not change the phase.

A fenced broker leads no partition, so it stops without a controlled shutdown.
"""

REGISTRATION_LOST_CODES: Final = frozenset(
    {ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Intervals in seconds, from the properties of the broker."""

    session: float
    """`broker.session.timeout.ms`"""
    heartbeat: float
    """`broker.heartbeat.interval.ms`"""
    initial_registration: float
    """`initial.broker.registration.timeout.ms`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """The state of a broker's membership at one moment; times are monotonic seconds."""

    timing: Timing
    phase: Phase = Phase.REGISTERING
    broker_epoch: int = UNKNOWN_EPOCH
    due_at: float = 0.0
    """When the next request is sent."""
    failures: int = 0
    """Failed requests in succession."""
    session_ends_at: float = NO_SESSION
    """Until then no controller fences the broker without its consent."""
    lapsed_at: float = NO_SESSION
    """When the broker found itself fenced; metadata must be newer before it leads again."""
    registered_at: float = NO_SESSION
    is_urgent: bool = False
    """The broker has changed since its last heartbeat, and the controller must know it at once."""
    is_ready: bool = False
    """The partitions are open and clients are accepted."""
    is_aside: bool = False
    """The broker cannot lead for a while, for example because its disk is full."""
    offline_directories: frozenset[bytes] = frozenset()
    reported_directories: frozenset[bytes] = frozenset()
    """Offline directories that the controller knows."""
    refused_since: float | None = None
    """When the first registration of this process was refused."""
    leaving_since: float | None = None
    """When the controlled shutdown began."""

    def is_fenced_at(self, now: float) -> bool:
        """Returns whether a controller can have fenced the broker; then it acknowledges nothing."""
        return now >= self.session_ends_at


class Metadata(NamedTuple):
    """The metadata that this broker has applied."""

    offset: int
    registered_epoch: int
    """The epoch of this broker in the metadata."""
    complete_at: float
    """The metadata contains all that was committed before this moment."""


class Registration(NamedTuple):
    """Send a registration now."""

    previous_epoch: int


class Heartbeat(NamedTuple):
    """Send a heartbeat now."""

    epoch: int
    offset: int
    asks_for_fencing: bool
    asks_for_shutdown: bool
    offline_directories: frozenset[bytes]
    is_caught_up: bool
    """The metadata contains the registration; before, cordoned directories are not reported."""


class Wait(NamedTuple):
    """Send nothing before this moment, or before the state changes."""

    until: float


class Nothing(NamedTuple):
    """Send nothing any more."""


def moved(state: Lifecycle, event: Event) -> Lifecycle:
    phase = TRANSITIONS[event].get(state.phase, state.phase)
    return state if phase is state.phase else replace(state, phase=phase)


# --- what to send


def next_request(
    state: Lifecycle, metadata: Metadata, now: float, *, previous_epoch: int = UNKNOWN_EPOCH
) -> Registration | Heartbeat | Wait | Nothing:
    """Returns the next request; `previous_epoch` is that of the last clean shutdown.

    Only the first registration of a process may claim a clean shutdown: later, records can have
    been appended.
    """
    if state.phase is Phase.STOPPED:
        return Nothing()
    if now < state.due_at:
        return Wait(state.due_at)
    if state.phase is Phase.REGISTERING:
        is_first = state.broker_epoch == UNKNOWN_EPOCH
        return Registration(previous_epoch if is_first else UNKNOWN_EPOCH)
    is_caught_up = metadata.registered_epoch == state.broker_epoch
    is_complete = is_caught_up and metadata.complete_at >= state.lapsed_at
    waits_since = max(state.lapsed_at, state.registered_at)
    if not is_complete and now < waits_since + CATCH_UP_SECONDS_MAX:
        return Wait(now + CATCH_UP_POLL_SECONDS)
    return Heartbeat(
        epoch=state.broker_epoch,
        offset=metadata.offset,
        asks_for_fencing=not (state.is_ready and is_complete) or state.is_aside,
        asks_for_shutdown=state.phase is Phase.LEAVING,
        offline_directories=state.offline_directories,
        is_caught_up=is_caught_up,
    )


# --- what happens


def checked(state: Lifecycle, now: float) -> Lifecycle:
    """Returns the state at `now`, which time limits may have changed."""
    if state.phase is Phase.UNFENCED and state.is_fenced_at(now):
        return lapsed(state, now)
    since = state.leaving_since
    if since is not None and now >= since + LEAVE_SECONDS_MAX:
        return moved(state, Event.GIVEN_UP)
    return state


def lapsed(state: Lifecycle, now: float) -> Lifecycle:
    """The broker is fenced, or can be; it leads again when it has newer metadata than `now`."""
    fenced = moved(state, Event.FENCING_SEEN)
    return replace(fenced, session_ends_at=NO_SESSION, lapsed_at=now, due_at=now)


def registered(state: Lifecycle, broker_epoch: int, now: float) -> Lifecycle:
    """The first heartbeat waits for the metadata that contains the registration."""
    return replace(
        moved(state, Event.REGISTERED),
        broker_epoch=broker_epoch,
        registered_at=now,
        due_at=now,
        failures=0,
        refused_since=None,
    )


def refused(state: Lifecycle, now: float) -> Lifecycle:
    """The controller refused the registration; it is repeated."""
    since = now if state.refused_since is None else state.refused_since
    return replace(state, refused_since=since, failures=0, due_at=now + REFUSAL_SECONDS)


def has_registration_timed_out(state: Lifecycle, now: float) -> bool:
    """Returns whether controllers have refused the registration for too long."""
    since = state.refused_since
    return since is not None and now >= since + state.timing.initial_registration


def sent(state: Lifecycle) -> Lifecycle:
    """A heartbeat with the present state is sent; later changes are not in it."""
    return replace(state, is_urgent=False)


def answered(
    state: Lifecycle,
    *,
    is_fenced: bool,
    should_shut_down: bool,
    reported_directories: frozenset[bytes] = frozenset(),
    sent_at: float,
    now: float,
) -> Lifecycle:
    """The controller accepted a heartbeat that was sent at `sent_at`.

    A session that ended meanwhile does not continue, even if the controller has unfenced the broker
    again: first the metadata must show which leaders were elected.
    """
    state = replace(state, reported_directories=reported_directories)
    if state.phase is Phase.UNFENCED and state.is_fenced_at(now):
        return lapsed(state, now)
    pause = state.timing.heartbeat
    if state.phase is Phase.LEAVING:
        if should_shut_down:
            return replace(moved(state, Event.SHUTDOWN_GRANTED), session_ends_at=NO_SESSION)
        pause = min(pause, POLL_SECONDS)
    elif is_fenced and state.is_ready and not state.is_aside:
        pause = min(pause, POLL_SECONDS)
    due_at = now if state.is_urgent else max(now, sent_at + pause)
    state = replace(state, failures=0, due_at=due_at)
    if is_fenced:
        was_unfenced = state.phase is Phase.UNFENCED
        return lapsed(state, now) if was_unfenced else replace(state, session_ends_at=NO_SESSION)
    ends_at = sent_at + state.timing.session
    if now >= ends_at:  # the process was paused after it sent the heartbeat
        return lapsed(state, now)
    return replace(moved(state, Event.UNFENCING_GRANTED), session_ends_at=ends_at)


def rejected(state: Lifecycle, code: ErrorCode, now: float) -> Lifecycle:
    """The controller answered a heartbeat with an error."""
    if code in REGISTRATION_LOST_CODES:
        return lapsed(moved(state, Event.REGISTRATION_LOST), now)
    return failed(state, now)


def failed(state: Lifecycle, now: float) -> Lifecycle:
    """A request had no usable answer. It is repeated; a controlled shutdown is soon given up."""
    since = state.leaving_since
    if since is not None and now >= since + LEAVE_UNANSWERED_SECONDS_MAX:
        return moved(state, Event.GIVEN_UP)
    pause = min(BACKOFF_SECONDS * 2 ** min(state.failures, 16), BACKOFF_SECONDS_MAX)
    return replace(state, failures=state.failures + 1, due_at=now + pause)


def ready(state: Lifecycle, now: float) -> Lifecycle:
    """The broker can serve: it asks for unfencing at once."""
    return urgent(replace(state, is_ready=True), now)


def stepping_aside(state: Lifecycle, now: float) -> Lifecycle:
    """The broker cannot lead for a while: it asks for fencing at once."""
    return urgent(replace(state, is_aside=True), now)


def returning(state: Lifecycle, now: float) -> Lifecycle:
    """The broker can lead again: it asks for unfencing at once."""
    return urgent(replace(state, is_aside=False), now)


def directory_failed(state: Lifecycle, directory_id: bytes, now: float) -> Lifecycle:
    offline = state.offline_directories | {directory_id}
    return urgent(replace(state, offline_directories=offline), now)


def stopping(state: Lifecycle, now: float) -> Lifecycle:
    """The process stops: a broker that can lead asks for a controlled shutdown at once."""
    left = moved(state, Event.STOP_REQUESTED)
    return urgent(replace(left, leaving_since=now), now)


def urgent(state: Lifecycle, now: float) -> Lifecycle:
    """Sends the next request at once, also after one that is being answered."""
    return replace(state, is_urgent=True, due_at=min(state.due_at, now))
