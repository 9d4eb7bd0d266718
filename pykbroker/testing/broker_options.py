"""What an embedded broker is asked for, in Kafka's words: topics and properties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Final

from pykbroker.controller.topics import NewTopic
from pykbroker.settings import InvalidSetting, load_settings

if TYPE_CHECKING:
    from typing import TypeAlias

    from pykbroker.settings import Settings

Scalar: TypeAlias = "str | int | float | bool"
Config: TypeAlias = "Mapping[str, Scalar]"
Topics: TypeAlias = "Mapping[str, int | Topic] | Iterable[str]"

DEFAULTS: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    # A test does not wait for members that will not come.
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    # Each partition is a folder with files: fifty of them are made in 20 ms, one in half of one.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # Deleted files go as soon as nobody reads them.
    "log.segment.delete.delay.ms": "0",
}
"""Where this broker differs from the defaults of Kafka; whatever is given goes before it."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that is there when the broker is: `Topic(10, config={"retention.ms": 1000})`."""

    partitions: int = 1
    _: KW_ONLY
    config: Config = field(default_factory=dict)


def wanted_topics(topics: Topics) -> list[NewTopic]:
    """Names alone stand for topics of one partition."""
    if isinstance(topics, str):
        topics = [topics]
    named = topics.items() if isinstance(topics, Mapping) else ((name, 1) for name in topics)
    return [new_topic(name, wanted_topic(name, it)) for name, it in named]


def wanted_topic(name: object, wanted: object) -> Topic:
    """A TypeError says what is meant, where the type of an argument does not tell by itself."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a topic is a str, not {name!r}")
    topic = wanted if isinstance(wanted, Topic) else Topic(wanted)  # type: ignore[arg-type]
    if not isinstance(topic.partitions, int) or isinstance(topic.partitions, bool):
        raise TypeError(f"topic {name}: a number of partitions or a Topic(…), not {wanted!r}")
    return topic


def new_topic(name: str, topic: Topic) -> NewTopic:
    return NewTopic(
        name=name,
        partitions=topic.partitions,
        replication_factor=1,
        configuration=texts(topic.config),
    )


def wanted_settings(config: Config, data: str, *, port: int = 0) -> Settings:
    """Raises InvalidSetting for what the broker does not know or cannot be."""
    refuse_directory(config)
    given = DEFAULTS | {"log.dirs": data} | texts(config)
    if port:
        given["listeners"] = with_port(given["listeners"], port)
    return load_settings(given)


def refuse_directory(config: Config) -> None:
    """Who goes back and forks has to know where the data lies."""
    for name in ("log.dirs", "log.dir"):
        if name in config:
            raise InvalidSetting(f"{name} is not a property here: name the directory as data=…")


def with_port(listeners: str, port: int) -> str:
    """The first listener gets the port that it had before."""
    first, comma, others = listeners.partition(",")
    return f"{first.rpartition(':')[0]}:{port}{comma}{others}"


def beside(config: Config) -> dict[str, Scalar]:
    """The same for a broker that runs at the same time: it needs ports of its own."""
    own = {name: value for name, value in config.items() if name != "advertised.listeners"}
    if "listeners" in own:
        listeners = str(own["listeners"]).split(",")
        own["listeners"] = ",".join(with_port(it, 0) for it in listeners)
    return own


def texts(config: Config) -> dict[str, str]:
    """As Kafka writes values: `true`, not `True`."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in config.items()
    }
