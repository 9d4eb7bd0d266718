"""The topics of the cluster as consumer groups see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.consumer_topics import NO_TOPICS, fingerprint, known_topics
from tests.coordination.consumer.world import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator


class Unread(frozenset[str]):
    """More names than a test could iterate."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError


def topics() -> Topics:
    found = Topics()
    for name in ("orders", "payments", "returns"):
        found.put(name, 1)
    return found


def test_a_large_subscription_is_not_iterated() -> None:
    large = Unread(["payments", "orders", *(f"missing-{it}" for it in range(1_000))])
    assert list(known_topics([large], topics())) == ["orders", "payments"]


def test_known_topics_are_those_of_all_subscriptions_in_order() -> None:
    subscriptions = [frozenset({"returns"}), frozenset({"orders", "missing"}), frozenset[str]()]
    assert list(known_topics(subscriptions, topics())) == ["orders", "returns"]


def test_the_fingerprint_depends_on_known_topics_not_on_members() -> None:
    together = fingerprint([frozenset({"orders", "returns", "missing"})], topics())
    assert fingerprint([frozenset({"returns"}), frozenset({"orders"})], topics()) == together
    assert fingerprint([frozenset({"orders"})], topics()) != together
    assert fingerprint([frozenset({"missing"})], topics()) == NO_TOPICS
