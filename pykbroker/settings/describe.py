"""Properties as DescribeConfigs returns them: value, source and synonyms."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pykbroker.settings.alter import dynamic_row
from pykbroker.settings.kinds import ConfigSource, ConfigType, UpdateMode
from pykbroker.settings.load import own_value, topic_default
from pykbroker.settings.property import Property, shown
from pykbroker.settings.table import BROKER, GROUP, TOPIC
from pykbroker.settings.values import Layers, Settings


class Synonym(NamedTuple):
    """A value of a property from one source; the first synonym is the one in effect."""

    name: str
    value: str | None
    source: ConfigSource


class DescribedProperty(NamedTuple):
    """A property with its value in effect."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    is_sensitive: bool
    is_read_only: bool
    documentation: str
    synonyms: tuple[Synonym, ...]


def describe_topic(
    settings: Settings, topic_overrides: Mapping[str, str]
) -> tuple[DescribedProperty, ...]:
    """Returns all properties of a topic."""
    return tuple(
        _overridden(row, settings.layers, topic_overrides.get(row.name), ConfigSource.DYNAMIC_TOPIC)
        for row in TOPIC.values()
        if not row.internal or row.name in topic_overrides
    )


def describe_group(
    settings: Settings, group_overrides: Mapping[str, str]
) -> tuple[DescribedProperty, ...]:
    """Returns all properties of a group."""
    return tuple(
        _overridden(row, settings.layers, group_overrides.get(row.name), ConfigSource.DYNAMIC_GROUP)
        for row in GROUP.values()
    )


def describe_broker(settings: Settings) -> tuple[DescribedProperty, ...]:
    """Returns the broker properties of the table, and other ones that are set dynamically."""
    layers = settings.layers
    dynamic = {**layers.dynamic_default, **layers.dynamic_broker}
    others = (row for name in dynamic if name not in BROKER and (row := dynamic_row(name)))
    return tuple(
        describe_property(row, layers)
        for row in (*BROKER.values(), *others)
        if not row.internal or layers.text(row.name) is not None
    )


def describe_property(row: Property, layers: Layers) -> DescribedProperty:
    """Returns one property of the broker."""
    return _described(row, shown(own_value(row, layers)), _broker_synonyms(row, layers))


def describe_cluster_default(settings: Settings) -> tuple[DescribedProperty, ...]:
    """Returns the properties that are set as cluster default."""
    return tuple(
        _described(
            row, shown(row.read(text)), (_synonym(row, text, ConfigSource.DYNAMIC_DEFAULT_BROKER),)
        )
        for name, text in settings.layers.dynamic_default.items()
        if (row := dynamic_row(name))
    )


def _overridden(
    row: Property, layers: Layers, override: str | None, source: ConfigSource
) -> DescribedProperty:
    synonyms = _synonyms_on_broker(row, layers)
    if override is None:
        return _described(row, shown(topic_default(row, layers)), synonyms)
    value = shown(row.read(override))
    return _described(row, value, (_synonym(row, value, source), *synonyms))


def _synonyms_on_broker(row: Property, layers: Layers) -> tuple[Synonym, ...]:
    """Returns the synonyms of the broker property that provides the default.

    Like Apache Kafka, it uses only the first fallback: if `log.retention.ms` has no value, the
    synonyms of `retention.ms` do not include `log.retention.minutes`, which provides its value.
    """
    if not row.fallbacks:
        return ()
    broker_row = BROKER[row.fallbacks[0][0]]
    return _broker_synonyms(broker_row, layers)


def _broker_synonyms(row: Property, layers: Layers) -> tuple[Synonym, ...]:
    if own_value(row, layers) is None:
        return ()
    rows = (row, *(BROKER[name] for name, _ in row.fallbacks))
    return tuple(
        _synonym(each, text, source)
        for source, texts in _texts_by_source(layers, rows)
        for each in rows
        if (text := texts.get(each.name)) is not None
    )


def _texts_by_source(
    layers: Layers, rows: Iterable[Property]
) -> tuple[tuple[ConfigSource, Mapping[str, str]], ...]:
    defaults = {row.name: text for row in rows if (text := shown(row.default)) is not None}
    return (
        (ConfigSource.DYNAMIC_BROKER, layers.dynamic_broker),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, layers.dynamic_default),
        (ConfigSource.STATIC_BROKER, layers.static),
        (ConfigSource.DEFAULT, defaults),
    )


def _synonym(row: Property, value: str | None, source: ConfigSource) -> Synonym:
    return Synonym(name=row.name, value=None if row.is_sensitive else value, source=source)


def _described(
    row: Property, value: str | None, synonyms: tuple[Synonym, ...]
) -> DescribedProperty:
    return DescribedProperty(
        name=row.name,
        value=None if row.is_sensitive else value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        type=row.type,
        is_sensitive=row.is_sensitive,
        is_read_only=row.update_mode is UpdateMode.READ_ONLY,
        documentation=row.documentation,
        synonyms=synonyms,
    )
