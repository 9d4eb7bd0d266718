"""Topics and properties of an embedded broker: validation, defaults and conversion to text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Final

from pykbroker.controller_access import NewTopic
from pykbroker.settings import InvalidSetting, load_settings

if TYPE_CHECKING:
    from typing import TypeAlias

    from pykbroker.settings import Settings

Scalar: TypeAlias = "str | int | float | bool"
Config: TypeAlias = "Mapping[str, Scalar]"
Topics: TypeAlias = "Mapping[str, int | Topic] | Iterable[str]"

DEFAULTS: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    # Tests do not wait for further group members.
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    # Fifty partitions take 20 ms to create, one takes 0.5 ms.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # Deleted segments are removed as soon as no reader uses them.
    "log.segment.delete.delay.ms": "0",
}
"""Defaults that differ from Kafka's. Properties of the caller take precedence."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic to create at the start, as in `Topic(10, config={"retention.ms": 1000})`."""

    partitions: int = 1
    _: KW_ONLY
    config: Config = field(default_factory=dict)


def parse_topics(topics: Topics) -> list[NewTopic]:
    """Parses topics. A name without a number gets one partition."""
    if isinstance(topics, str):
        topics = [topics]
    named = topics.items() if isinstance(topics, Mapping) else ((name, 1) for name in topics)
    return [new_topic(name, parse_topic(name, it)) for name, it in named]


def parse_topic(name: object, value: object) -> Topic:
    """Converts a number of partitions to a Topic. Raises TypeError for other types."""
    if not isinstance(name, str):
        raise TypeError(f"a topic name must be a str, not {name!r}")
    topic = value if isinstance(value, Topic) else Topic(value)  # type: ignore[arg-type]
    if not isinstance(topic.partitions, int) or isinstance(topic.partitions, bool):
        raise TypeError(f"topic {name}: expected a number of partitions or Topic(…), not {value!r}")
    return topic


def new_topic(name: str, topic: Topic) -> NewTopic:
    return NewTopic(
        name=name,
        partitions=topic.partitions,
        replication_factor=1,
        configuration=property_texts(topic.config),
    )


def embedded_settings(config: Config, data: str, *, port: int = 0) -> Settings:
    """Returns validated settings. Raises InvalidSetting for unknown or unsupported properties."""
    refuse_directory(config)
    given = DEFAULTS | {"log.dirs": data} | property_texts(config)
    if port:
        given["listeners"] = with_port(given["listeners"], port)
    return load_settings(given)


def refuse_directory(config: Config) -> None:
    """Rejects the property `log.dirs`: the directory is an argument, for `snapshot` and `fork`."""
    for name in ("log.dirs", "log.dir"):
        if name in config:
            raise InvalidSetting(f"{name} is not supported here, use data=… for the directory")


def with_port(listeners: str, port: int) -> str:
    """Replaces the port of the first listener."""
    first, comma, others = listeners.partition(",")
    return f"{first.rpartition(':')[0]}:{port}{comma}{others}"


def with_free_ports(config: Config) -> dict[str, Scalar]:
    """The configuration for a second broker on this machine: every listener gets a free port."""
    own = {name: value for name, value in config.items() if name != "advertised.listeners"}
    if "listeners" in own:
        listeners = str(own["listeners"]).split(",")
        own["listeners"] = ",".join(with_port(it, 0) for it in listeners)
    return own


def property_texts(config: Config) -> dict[str, str]:
    """Converts values to Kafka's spelling: `true`, not `True`."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in config.items()
    }
