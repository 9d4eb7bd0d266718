"""Validates changes of dynamic properties; returns error messages for clients."""

from collections.abc import Mapping
from enum import IntEnum

from pykbroker.settings.addresses import parse_listener
from pykbroker.settings.kinds import ConfigType, UpdateMode
from pykbroker.settings.known_names import is_known_to_kafka
from pykbroker.settings.load import resolve_topic, unknown_property, with_dynamic
from pykbroker.settings.property import InvalidSetting, Property, split_list
from pykbroker.settings.table import BROKER, TOPIC
from pykbroker.settings.unsupported import refuse_unsupported
from pykbroker.settings.values import Settings


class AlterOperation(IntEnum):
    """The operation of an incremental change, with the numbers of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def validate_topic_override(name: str, value: str | None) -> str | None:
    """Returns the error message for an override of a topic, or None if it is valid."""
    row = TOPIC.get(name)
    if row is None:
        return f"Unknown topic config name: {name}"
    if value is None:
        return f"Null value not supported for topic configs: {name}"
    try:
        row.read(value)
    except InvalidSetting as refusal:
        return str(refusal)
    return None


def refuse_topic_overrides(settings: Settings, overrides: Mapping[str, str | None]) -> str | None:
    """Returns the error message for all overrides of a topic, or None if they are valid."""
    given = {name: value for name, value in overrides.items() if value is not None}
    if len(given) < len(overrides):
        missing = ",".join(name for name, value in overrides.items() if value is None)
        return f"Null value not supported for topic configs: {missing}"
    # Unknown names are reported before invalid values.
    in_order = sorted(given, key=lambda name: name in TOPIC)
    refusals = (validate_topic_override(name, given[name]) for name in in_order)
    return next(filter(None, refusals), None) or _refused_together(settings, given)


def refuse_broker_properties(
    settings: Settings, properties: Mapping[str, str], *, cluster_wide: bool
) -> str | None:
    """Returns the error message for the new dynamic properties of a broker, or None.

    `cluster_wide` is true for the cluster default and false for this broker.
    """
    refusal = refuse_unsupported(properties) or _refused_names(
        properties, cluster_wide=cluster_wide
    )
    if refusal:
        return refusal
    try:
        for name, text in properties.items():
            row = dynamic_row(name)
            if row is not None:
                row.read(text)
        _refuse_other_listeners(settings, properties)
        layers = settings.layers
        with_dynamic(
            settings,
            cluster_default=properties if cluster_wide else layers.dynamic_default,
            this_broker=layers.dynamic_broker if cluster_wide else properties,
        )
    except InvalidSetting as invalid:
        return str(invalid)
    return None


def refuse_topic_operation(operation: AlterOperation, name: str) -> str | None:
    """Returns the error message for APPEND or SUBTRACT on a topic property that is not a list."""
    row = TOPIC.get(name)
    if not _is_for_lists(operation) or (row and row.type is ConfigType.LIST):
        return None
    return f"Can't {operation.name} to key {name} because its type is not LIST."


def refuse_group_operation(operation: AlterOperation, name: str) -> str | None:
    """Returns the error message for APPEND or SUBTRACT; no group property is a list."""
    if not _is_for_lists(operation):
        return None
    return f"Can't {operation.name} to key {name} because its type is not LIST."


def refuse_broker_operation(operation: AlterOperation, name: str) -> str | None:
    """Returns the error message for APPEND or SUBTRACT on a broker property that is not a list."""
    if not _is_for_lists(operation):
        return None
    row = dynamic_row(name)
    if row and row.type is ConfigType.LIST:
        return None
    if row is None:
        return f"Unknown config name: {name}"
    return f"Config value {operation.name.lower()} is not allowed for config key: {name}"


def altered_list(operation: AlterOperation, current: str | None, value: str) -> str:
    """Returns the text of a list property after APPEND or SUBTRACT.

    Like in Apache Kafka, elements are compared with their whitespace.
    """
    elements = current.split(",") if current else []
    for element in value.split(","):
        if operation is AlterOperation.APPEND and element not in elements:
            elements.append(element)
        elif operation is AlterOperation.SUBTRACT and element in elements:
            elements.remove(element)
    return ",".join(elements)


def _is_for_lists(operation: AlterOperation) -> bool:
    return operation in {AlterOperation.APPEND, AlterOperation.SUBTRACT}


def _refused_together(settings: Settings, given: Mapping[str, str]) -> str | None:
    topic = resolve_topic(settings, given)
    if topic.min_compaction_lag_ms > topic.max_compaction_lag_ms:
        return (
            "conflict topic config setting min.compaction.lag.ms "
            f"({topic.min_compaction_lag_ms}) > max.compaction.lag.ms "
            f"({topic.max_compaction_lag_ms})"
        )
    if TOPIC["remote.storage.enable"].read(given.get("remote.storage.enable", "false")):
        return (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    return None


def dynamic_row(name: str) -> Property | None:
    """Returns the row of a broker property, also if it is stored and described without effect."""
    if name in BROKER:
        return BROKER[name]
    from pykbroker.settings.no_effect_table import no_effect_row  # noqa: PLC0415  # rarely needed

    return no_effect_row(name)


def _refused_names(names: Mapping[str, str], *, cluster_wide: bool) -> str | None:
    unknown = next((it for it in names if it not in BROKER and not is_known_to_kafka(it)), None)
    if unknown is not None:  # Apache Kafka stores any name, because plugins can define properties
        return unknown_property(unknown)
    fixed = _names_of_mode(names, UpdateMode.READ_ONLY)
    if fixed:
        return f"Cannot update these configs dynamically: [{fixed}]"
    single = _names_of_mode(names, UpdateMode.PER_BROKER)
    if single and cluster_wide:
        return (
            "Cannot update these configs at default cluster level, "
            f"broker id must be specified: [{single}]"
        )
    return None


def _names_of_mode(names: Mapping[str, str], mode: UpdateMode) -> str:
    return ", ".join(sorted(name for name in names if _update_mode(name) is mode))


def _update_mode(name: str) -> UpdateMode:
    row = dynamic_row(name)
    return row.update_mode if row else UpdateMode.READ_ONLY


def _refuse_other_listeners(settings: Settings, properties: Mapping[str, str]) -> None:
    """Rejects other `listeners`, which are bound at start; the same listeners are accepted."""
    text = properties.get("listeners")
    if text is None:
        return
    if {*map(parse_listener, split_list(text))} != {*map(parse_listener, settings.listeners)}:
        raise InvalidSetting(
            "listeners: cannot be changed while the broker runs; change the properties file or "
            "option and restart"
        )
