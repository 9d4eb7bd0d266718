"""Levels of `transaction.version`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.messages.api_versions import ApiVersionsRequest
from pykbroker_protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.apis.transactions.transcript import conversation, described

if TYPE_CHECKING:
    from tests.apis.transactions.transcript import TransactionTranscript

FEATURE = "transaction.version"
UNKNOWN, UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = range(4)


def updated(*levels: tuple[str, int, int], validate_only: bool = False) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in levels
        ],
        validate_only=validate_only,
    )


def set_level(broker: TransactionTranscript, level: int) -> None:
    """Sets the feature level without recording it and waits until it is applied."""
    for kind in (UPGRADE, SAFE_DOWNGRADE):
        broker.quietly(updated((FEATURE, level, kind)), 1)
    until_level(broker, level)


def until_level(broker: TransactionTranscript, level: int) -> None:
    broker.until(
        ApiVersionsRequest(client_software_name="test", client_software_version="1.0"),
        4,
        lambda it: level_in(it) == level,
    )


def level_in(answer: object) -> int:
    levels = [it for it in answer.finalized_features if it.name == FEATURE]  # type: ignore[attr-defined]  # any answer
    return levels[0].max_version_level if levels else 0


@conversation
def rejected_feature_levels(broker: TransactionTranscript) -> None:
    for version in (1, 2):
        for levels in (
            [(FEATURE, 3, UPGRADE)],
            [(FEATURE, -1, UPGRADE)],
            [(FEATURE, -1, SAFE_DOWNGRADE)],
            [(FEATURE, 1, UPGRADE)],
            [(FEATURE, 3, UNSAFE_DOWNGRADE)],
            [(FEATURE, 1, UNKNOWN)],
            [(FEATURE, 1, 9)],
            [("no.such.feature", 1, UPGRADE)],
            [("no.such.feature", 0, SAFE_DOWNGRADE)],
            [("", 1, UPGRADE)],
            [("metadata.version", 100, UPGRADE)],
            [("metadata.version", 0, UNSAFE_DOWNGRADE)],
            [(FEATURE, 1, SAFE_DOWNGRADE), ("no.such.feature", 1, UPGRADE)],
            [],
        ):
            broker.ask(updated(*levels), version, note=f"{levels}")
    until_level(broker, 2)


@conversation
def accepted_feature_levels(broker: TransactionTranscript) -> None:
    for version in (0, 1, 2):
        broker.ask(updated((FEATURE, 2, UPGRADE)), version, note="as it is")
        broker.ask(updated((FEATURE, 2, SAFE_DOWNGRADE)), version or 1, note="as it is, down")
    for version in (1, 2):
        lower = updated((FEATURE, 1, SAFE_DOWNGRADE), validate_only=True)
        broker.ask(lower, version, note="only validated")
    for version in (1, 2):
        for level, kind in ((1, SAFE_DOWNGRADE), (0, UNSAFE_DOWNGRADE), (1, UPGRADE), (2, UPGRADE)):
            broker.ask(updated((FEATURE, level, kind)), version, note=f"{level} {kind}")
            until_level(broker, level)


@conversation
def transactions_with_a_lower_feature_level(broker: TransactionTranscript) -> None:
    """Uses transaction version 1; clients use version 2 if the feature level is 2."""
    topic = broker.topic()
    try:
        for level in (0, 1):
            set_level(broker, level)
            producer = broker.producer(f"id{level}", version=4)
            broker.ask(producer.addition(topic), 3)
            broker.ask(producer.ending(), 4, note="commits")
            producer.until_complete()
            broker.ask(described(producer.transactional_id), 0)
            broker.ask(producer.ending(), 4, note="repeats")
            producer.add(topic)
            broker.ask(producer.claim(), 4, note="another")
            producer.until_complete()
            broker.ask(producer.claim(), 4, note="another")
    finally:
        set_level(broker, 2)


@conversation
def a_transaction_outlives_a_change_of_level(broker: TransactionTranscript) -> None:
    topic = broker.topic()
    before, after = broker.producer("before", version=5), broker.producer("after", version=4)
    before.add(topic)
    after.add(topic)
    try:
        set_level(broker, 1)
        broker.ask(before.ending(), 4, note="in the words of version 1")
        before.until_complete()
        broker.ask(described(before.transactional_id), 0)
    finally:
        set_level(broker, 2)
    broker.ask(after.ending(), 5, note="in the words of version 2")
    after.until_complete()
    broker.ask(described(after.transactional_id), 0)
