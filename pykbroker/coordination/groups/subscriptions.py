"""Which topics a consumer says it reads, in the bytes that members mean for each other."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from pykbroker_protocol.compiler import MalformedMessage, decode
from pykbroker_protocol.consumer_protocol import ConsumerProtocolSubscription

if TYPE_CHECKING:
    from collections.abc import Iterable

CONSUMER_PROTOCOL_TYPE = "consumer"
_VERSION = struct.Struct(">h")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all together; None where one of them cannot be read."""
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            topics.update(read_subscription(subscription).topics)
    except (MalformedMessage, struct.error):
        return None
    return frozenset(topics)


def read_subscription(subscription: bytes) -> ConsumerProtocolSubscription:
    """Versions newer than ours begin like the newest that we know."""
    (version,) = _VERSION.unpack_from(subscription)
    if version < 0:
        raise MalformedMessage(f"subscription of version {version}")
    known = min(version, ConsumerProtocolSubscription.versions.last)
    return decode(ConsumerProtocolSubscription, known, subscription, _VERSION.size)
