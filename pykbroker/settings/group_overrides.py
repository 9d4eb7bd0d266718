"""Validates and resolves dynamic properties of a group."""

from collections.abc import Mapping
from typing import NamedTuple

from pykbroker.settings.conflicts import value
from pykbroker.settings.load import topic_default
from pykbroker.settings.property import InvalidSetting
from pykbroker.settings.table import GROUP
from pykbroker.settings.values import Settings

HEARTBEAT = "consumer.heartbeat.interval.ms"
SESSION = "consumer.session.timeout.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"
UNSUPPORTED_PREFIXES = ("share.", "streams.")


class GroupIntervals(NamedTuple):
    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def refuse_group_overrides(settings: Settings, overrides: Mapping[str, str]) -> str | None:
    """Returns the error message for all overrides of a group, or None if they are valid."""
    unknown = next((name for name in overrides if name not in GROUP), None)
    if unknown is not None:
        return refuse_group_name(unknown)
    try:
        given = {name: read(name, text) for name, text in overrides.items()}
    except InvalidSetting as refusal:
        return str(refusal)
    refusals = (refuse_out_of_bounds(settings, name, number) for name, number in given.items())
    return next(filter(None, refusals), None) or refuse_together(settings, overrides)


def refuse_group_name(name: str) -> str:
    if name.startswith(UNSUPPORTED_PREFIXES):
        return f"Configuration {name} has no effect on this broker"
    return f"Unknown group config name: {name}"


def read(name: str, text: str) -> int:
    number = GROUP[name].read(text)
    assert isinstance(number, int)
    return number


def refuse_out_of_bounds(settings: Settings, name: str, number: int) -> str | None:
    lowest, highest = bounds_of(name)
    if number < value(settings, lowest):
        return f"{name} must be greater than or equal to {lowest}"
    if number > value(settings, highest):
        return f"{name} must be less than or equal to {highest}"
    return None


def bounds_of(name: str) -> tuple[str, str]:
    """Returns the names of the broker properties that bound a group property."""
    kind, _, rest = name.partition(".")
    return f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"


def refuse_together(settings: Settings, overrides: Mapping[str, str]) -> str | None:
    intervals = resolve_group(settings, overrides)
    if intervals.heartbeat_interval_ms < intervals.session_timeout_ms:
        return None
    return f"{SESSION} must be greater than {HEARTBEAT}"


def resolve_group(settings: Settings, overrides: Mapping[str, str]) -> GroupIntervals:
    """Returns the intervals of a group; overrides outside the present bounds are clamped."""
    return GroupIntervals(
        session_timeout_ms=resolved(settings, overrides, SESSION),
        heartbeat_interval_ms=resolved(settings, overrides, HEARTBEAT),
        assignment_interval_ms=resolved(settings, overrides, ASSIGNMENT),
    )


def resolved(settings: Settings, overrides: Mapping[str, str], name: str) -> int:
    text = overrides.get(name)
    if text is None:
        number = topic_default(GROUP[name], settings.layers)
        assert isinstance(number, int)
        return number
    lowest, highest = bounds_of(name)
    return min(max(read(name, text), value(settings, lowest)), value(settings, highest))
