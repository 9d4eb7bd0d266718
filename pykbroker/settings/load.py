"""Builds the settings in effect from properties; rejects unknown names and invalid values."""

import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from pykbroker.settings.conflicts import refuse_conflicts
from pykbroker.settings.known_names import KNOWN_NAMES, is_known_to_kafka
from pykbroker.settings.property import InvalidSetting, Property, Value
from pykbroker.settings.table import ALIASES, BROKER, TOPIC
from pykbroker.settings.unsupported import refuse_unsupported
from pykbroker.settings.values import Layers, Settings, TopicSettings

WITHOUT_EFFECT: Final = "configuration: properties without effect on this broker: %s"

_logger = logging.getLogger(__name__)
_STATIC_ONLY = frozenset({"listeners"})
"""Dynamic in Apache Kafka. Here a stored value is ignored, because listeners are bound at start."""
_NOTHING: Mapping[str, str] = MappingProxyType({})
_BROKER_ATTRIBUTES = Settings.names()
_TOPIC_ATTRIBUTES = TopicSettings.names()


def load_settings(
    file_properties: Mapping[str, str] = _NOTHING, overrides: Mapping[str, str] = _NOTHING
) -> Settings:
    """Returns the settings of a properties file with `overrides`; warns of names without effect."""
    given = _without_aliases({**file_properties, **overrides})
    for name, text in given.items():
        refusal = _refused_name(name)
        if refusal:
            raise InvalidSetting(refusal)
        if name in BROKER:
            BROKER[name].read(text)
    _refuse_unsupported(given)
    without_effect = names_without_effect(given)
    if without_effect:
        _logger.warning(WITHOUT_EFFECT, ", ".join(without_effect))
    return _settings(Layers(given))


def with_dynamic(
    settings: Settings,
    *,
    cluster_default: Mapping[str, str] = _NOTHING,
    this_broker: Mapping[str, str] = _NOTHING,
) -> Settings:
    """Returns the settings with the dynamic properties of the cluster metadata applied."""
    _refuse_unsupported({**cluster_default, **this_broker}, "in the cluster metadata: ")
    own = {name: text for name, text in this_broker.items() if name not in _STATIC_ONLY}
    return _settings(Layers(settings.layers.static, cluster_default, own))


def resolve_topic(settings: Settings, topic_overrides: Mapping[str, str]) -> TopicSettings:
    """Returns the settings of a topic; overrides without effect are ignored."""
    values: dict[str, Any] = {}
    for name, text in topic_overrides.items():
        row = TOPIC.get(name)
        if row and row.attribute in _TOPIC_ATTRIBUTES:
            values[row.attribute] = row.read(text)
    internal = topic_overrides.get("internal.segment.bytes")
    if internal is not None:
        values["segment_bytes"] = TOPIC["internal.segment.bytes"].read(internal)
    return settings.topic_defaults.replaced(**values) if values else settings.topic_defaults


def names_without_effect(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the broker properties that have no effect on this broker."""
    return tuple(sorted(name for name in names if name not in NAMES_WITH_EFFECT))


def topic_names_without_effect(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the topic properties that have no effect on this broker."""
    return tuple(sorted(name for name in names if name not in TOPIC_NAMES_WITH_EFFECT))


def own_value(row: Property, layers: Layers) -> Value | None:
    """Returns the value of a property without fallbacks: the configured one or its default."""
    text = layers.text(row.name)
    return row.default if text is None else row.read(text)


def resolved_value(row: Property, layers: Layers) -> Value | None:
    """Returns the value of a property or of its first fallback, converted to its unit."""
    value = own_value(row, layers)
    if value is not None:
        return value
    for name, factor in row.fallbacks:
        other = own_value(BROKER[name], layers)
        if isinstance(other, int):
            return other * factor if other >= 0 else -1
    return None


def topic_default(row: Property, layers: Layers) -> Value | None:
    """Returns the value of a topic property for topics that do not override it."""
    if not row.fallbacks:
        return row.default
    (name, _), *_ = row.fallbacks
    return resolved_value(BROKER[name], layers)


def unknown_property(name: str) -> str:
    """Returns the error message for an unknown property, with the most similar known name."""
    topic = TOPIC.get(name)
    if topic and topic.fallbacks:
        return f"{name} is a topic property; use {topic.fallbacks[0][0]} for the broker default"
    # Slow to import, and needed only for this error.
    from difflib import get_close_matches  # noqa: PLC0415

    similar = get_close_matches(name, sorted({*BROKER, *ALIASES, *KNOWN_NAMES}), n=1)
    question = f"; did you mean {similar[0]}?" if similar else ""
    return f"unknown property {name}{question}"


def _refuse_unsupported(properties: Mapping[str, str], prefix: str = "") -> None:
    refusal = refuse_unsupported(properties)
    if refusal:
        raise InvalidSetting(f"{prefix}{refusal}")


def _without_aliases(given: dict[str, str]) -> dict[str, str]:
    for alias, name in ALIASES.items():
        text = given.pop(alias, None)
        if text is not None:
            given.setdefault(name, text)
    return given


def _refused_name(name: str) -> str | None:
    return None if name in BROKER or is_known_to_kafka(name) else unknown_property(name)


def _settings(layers: Layers) -> Settings:
    defaults: dict[str, Any] = {
        row.attribute: topic_default(row, layers)
        for row in TOPIC.values()
        if row.attribute in _TOPIC_ATTRIBUTES
    }
    values: dict[str, Any] = {
        row.attribute: resolved_value(row, layers)
        for row in BROKER.values()
        if row.attribute in _BROKER_ATTRIBUTES
    }
    settings = Settings(layers=layers, topic_defaults=TopicSettings(**defaults), **values)
    refuse_conflicts(settings)
    return settings


def _names_with_effect() -> frozenset[str]:
    names = {row.name for row in BROKER.values() if row.attribute in _BROKER_ATTRIBUTES}
    for row in TOPIC.values():
        if row.attribute in _TOPIC_ATTRIBUTES:
            for name, _ in row.fallbacks:
                names |= {name, *(other for other, _ in BROKER[name].fallbacks)}
    return frozenset(names)


NAMES_WITH_EFFECT = _names_with_effect()
TOPIC_NAMES_WITH_EFFECT = frozenset(
    {row.name for row in TOPIC.values() if row.attribute in _TOPIC_ATTRIBUTES}
    | {"internal.segment.bytes"}
)
