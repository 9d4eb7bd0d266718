"""From what was given to the settings in force: unknown names and bad values are refused."""

import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from pykbroker.settings.conflicts import refuse_conflicts
from pykbroker.settings.guards import refuse_guards
from pykbroker.settings.property import InvalidSetting, Property, Value
from pykbroker.settings.table import ALIASES, BROKER, TOPIC
from pykbroker.settings.values import Layers, Settings, TopicSettings
from pykbroker.settings.without_effect import KNOWN_NAMES, is_known_to_kafka

WITHOUT_EFFECT: Final = "these properties have no effect on this broker: %s"

_logger = logging.getLogger(__name__)
_ONLY_AT_START = frozenset({"listeners"})
"""Dynamic in Apache Kafka; here a stored value would be shown and not be what is bound."""
_NOTHING: Mapping[str, str] = MappingProxyType({})
_BROKER_ATTRIBUTES = Settings.names()
_TOPIC_ATTRIBUTES = TopicSettings.names()


def load_settings(
    file_properties: Mapping[str, str] = _NOTHING, overrides: Mapping[str, str] = _NOTHING
) -> Settings:
    """The settings of a properties file, each property overridden where `overrides` names it."""
    given = _without_aliases({**file_properties, **overrides})
    for name, text in given.items():
        refusal = _refused_name(name)
        if refusal:
            raise InvalidSetting(refusal)
        if name in BROKER:
            BROKER[name].read(text)
    _refuse_guards(given)
    idle = names_without_effect(given)
    if idle:
        _logger.warning(WITHOUT_EFFECT, ", ".join(idle))
    return _settings(Layers(given))


def with_dynamic(
    settings: Settings,
    *,
    cluster_default: Mapping[str, str] = _NOTHING,
    this_broker: Mapping[str, str] = _NOTHING,
) -> Settings:
    """The settings once the properties stored in the cluster's metadata are laid over them."""
    _refuse_guards({**cluster_default, **this_broker}, "in the cluster metadata: ")
    own = {name: text for name, text in this_broker.items() if name not in _ONLY_AT_START}
    return _settings(Layers(settings.layers.static, cluster_default, own))


def resolve_topic(settings: Settings, topic_overrides: Mapping[str, str]) -> TopicSettings:
    """A topic's settings; stored overrides that no longer have a meaning are passed over."""
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
    """Those of a broker's property names that change nothing here."""
    return tuple(sorted(name for name in names if name not in NAMES_WITH_EFFECT))


def topic_names_without_effect(names: Iterable[str]) -> tuple[str, ...]:
    """Those of a topic's property names that change nothing here."""
    return tuple(sorted(name for name in names if name not in TOPIC_NAMES_WITH_EFFECT))


def own_value(row: Property, layers: Layers) -> Value | None:
    """What this very name stands at: given, or the default."""
    text = layers.text(row.name)
    return row.default if text is None else row.read(text)


def resolved_value(row: Property, layers: Layers) -> Value | None:
    """What a name stands at, or those it falls back on, in this name's unit."""
    value = own_value(row, layers)
    if value is not None:
        return value
    for name, factor in row.fallbacks:
        other = own_value(BROKER[name], layers)
        if isinstance(other, int):
            return other * factor if other >= 0 else -1
    return None


def topic_default(row: Property, layers: Layers) -> Value | None:
    """What a topic property stands at where the topic sets nothing."""
    if not row.fallbacks:
        return row.default
    (name, _), *_ = row.fallbacks
    return resolved_value(BROKER[name], layers)


def unknown_property(name: str) -> str:
    """The sentence about a name that nobody knows, with the name that was probably meant."""
    topic = TOPIC.get(name)
    if topic and topic.fallbacks:
        return f"{name} is a property of topics; the broker's default is {topic.fallbacks[0][0]}"
    # Costly to import, and needed only by somebody who mistyped.
    from difflib import get_close_matches  # noqa: PLC0415

    meant = get_close_matches(name, sorted({*BROKER, *ALIASES, *KNOWN_NAMES}), n=1)
    question = f"; did you mean {meant[0]}?" if meant else ""
    return f"unknown property {name}{question}"


def _refuse_guards(given: Mapping[str, str], place: str = "") -> None:
    refusal = refuse_guards(given)
    if refusal:
        raise InvalidSetting(f"{place}{refusal}")


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
