"""Kafka's properties: a table of names, types, defaults and checks, and the settings in effect."""

from pykbroker.settings.addresses import Listener, connections_by_host, parse_listener
from pykbroker.settings.alter import (
    AlterOperation,
    altered_list,
    dynamic_row,
    refuse_broker_operation,
    refuse_broker_properties,
    refuse_group_operation,
    refuse_topic_operation,
    refuse_topic_overrides,
    validate_topic_override,
)
from pykbroker.settings.conflicts import (
    broker_listeners,
    inter_broker_listener,
    is_own_controller,
    other_controllers,
)
from pykbroker.settings.current import CurrentSettings
from pykbroker.settings.describe import (
    DescribedProperty,
    Synonym,
    describe_broker,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from pykbroker.settings.group_overrides import (
    GroupIntervals,
    refuse_group_overrides,
    resolve_group,
)
from pykbroker.settings.kinds import ConfigSource, ConfigType, Importance, UpdateMode
from pykbroker.settings.load import (
    load_settings,
    names_without_effect,
    resolve_topic,
    topic_names_without_effect,
    with_dynamic,
)
from pykbroker.settings.properties_file import parse_properties
from pykbroker.settings.property import InvalidSetting, Property
from pykbroker.settings.table import BROKER, GROUP, TOPIC
from pykbroker.settings.values import Layers, Settings, TopicSettings

__all__ = [
    "BROKER",
    "GROUP",
    "TOPIC",
    "AlterOperation",
    "ConfigSource",
    "ConfigType",
    "CurrentSettings",
    "DescribedProperty",
    "GroupIntervals",
    "Importance",
    "InvalidSetting",
    "Layers",
    "Listener",
    "Property",
    "Settings",
    "Synonym",
    "TopicSettings",
    "UpdateMode",
    "altered_list",
    "broker_listeners",
    "connections_by_host",
    "describe_broker",
    "describe_cluster_default",
    "describe_group",
    "describe_topic",
    "dynamic_row",
    "inter_broker_listener",
    "is_own_controller",
    "load_settings",
    "names_without_effect",
    "other_controllers",
    "parse_listener",
    "parse_properties",
    "refuse_broker_operation",
    "refuse_broker_properties",
    "refuse_group_operation",
    "refuse_group_overrides",
    "refuse_topic_operation",
    "refuse_topic_overrides",
    "resolve_group",
    "resolve_topic",
    "topic_names_without_effect",
    "validate_topic_override",
    "with_dynamic",
]
