"""Fetch sessions (KIP-227): omitted partitions and the end of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker_protocol.messages.fetch import FetchTopic, ForgottenTopic
from tests.apis.conversations.catalog import conversation
from tests.apis.conversations.fetching import all_of, delete_before, filled
from tests.apis.request_builders import batch, fetched, from_partition, produced, to_partition

if TYPE_CHECKING:
    from tests.apis.transcript import Topic, Transcript

LAST_EPOCH = 2**31 - 1


class Session:
    """A reader with a session and the epoch of its next request."""

    def __init__(self, broker: Transcript, *topics: FetchTopic, version: int = 12) -> None:
        self.broker = broker
        self.version = version
        first = broker.ask(fetched(*topics, session_epoch=0), version, note="opens a session")
        self.id = first.session_id if first else 0
        self.epoch = 1

    def ask(self, *topics: FetchTopic, note: str = "", **more: Any) -> None:
        request = fetched(*topics, **{"session_id": self.id, "session_epoch": self.epoch, **more})
        self.broker.ask(request, self.version, note=note)
        self.epoch += 1


def add_to(broker: Transcript, topic: Topic, partition: int = 0) -> None:
    data = to_partition(batch(now_ms=broker.now_ms), topic=topic.name, partition=partition)
    broker.quietly(produced(data), 9)


def forgotten(topic: Topic, *partitions: int) -> ForgottenTopic:
    return ForgottenTopic(topic=topic.name, topic_id=topic.id, partitions=partitions)


@conversation
def a_session_response_contains_only_changes(broker: Transcript) -> None:
    for version in (7, 11, 12, 13, 17):
        topic = filled(broker, f"v{version}", partitions=3, batches=1)
        session = Session(broker, all_of(topic, 3), version=version)
        session.ask(note="asks the same again")
        ends = [
            from_partition(2, topic=topic.name, topic_id=topic.id, partition=index)
            for index in range(3)
        ]
        session.ask(*ends, note="moves to the end")
        session.ask(note="nothing new")
        add_to(broker, topic, 1)
        session.ask(note="one has records")
        session.ask(note="still has them")
        read = from_partition(3, topic=topic.name, topic_id=topic.id, partition=1)
        session.ask(read, note="has read them")
        session.ask(note="nothing new again")


@conversation
def a_session_removes_partitions(broker: Transcript) -> None:
    topic = filled(broker, partitions=3, batches=1)
    for version in (7, 13):
        session = Session(broker, all_of(topic, 3), version=version)
        session.ask(forgotten_topics_data=[forgotten(topic, 0, 2)], note="forgets two")
        session.ask(forgotten_topics_data=[forgotten(topic, 0)], note="forgets what is not in it")
        back = from_partition(topic=topic.name, topic_id=topic.id, partition=2)
        session.ask(back, note="adds one again")
        session.ask(forgotten_topics_data=[forgotten(topic, 1, 2)], note="forgets all")
        session.ask(note="a session without partitions")


@conversation
def unknown_sessions(broker: Transcript) -> None:
    topic = filled(broker)
    for version in (7, 12, 13):
        query = from_partition(topic=topic.name, topic_id=topic.id)
        for session_id, epoch in ((12345, 1), (0, 1), (0, 5), (12345, -1), (12345, 0), (0, -1)):
            request = fetched(query, session_id=session_id, session_epoch=epoch)
            broker.ask(request, version, note=f"session {session_id} epoch {epoch}")
        request = fetched(session_epoch=0)
        broker.ask(request, version, note="a new session of nothing")
        broker.ask(fetched(query, session_epoch=-2), version, note="epoch -2")


@conversation
def session_epochs_out_of_order(broker: Transcript) -> None:
    topic = filled(broker)
    for version in (7, 12):
        session = Session(broker, all_of(topic, 1), version=version)
        session.ask(note="follows")
        session.ask(session_epoch=1, note="the same again")
        session.ask(session_epoch=5, note="too far")
        session.ask(session_epoch=LAST_EPOCH, note="the last")
        session.ask(session_epoch=2, note="right again")
        session.ask(session_epoch=0, note="a new session in place of the old")
        session.ask(session_epoch=3, note="the old one is gone")


@conversation
def a_session_is_closed(broker: Transcript) -> None:
    topic = filled(broker)
    for version in (7, 13):
        session = Session(broker, all_of(topic, 1), version=version)
        session.ask(all_of(topic, 1), session_epoch=-1, note="the last fetch")
        session.ask(note="after the end")


@conversation
def a_session_does_not_mix_topic_names_and_ids(broker: Transcript) -> None:
    topic = filled(broker)
    session = Session(broker, all_of(topic, 1), version=12)
    session.version = 13
    session.ask(note="names, then ids")
    session = Session(broker, all_of(topic, 1), version=13)
    session.version = 12
    session.ask(note="ids, then names")


@conversation
def errors_within_a_session_are_repeated(broker: Transcript) -> None:
    topic = filled(broker)
    for version in (7, 12):
        request = from_partition(topic="no-such-topic"), from_partition(topic=topic.name)
        session = Session(broker, *request, version=version)
        session.ask(note="again")
        behind = from_partition(100, topic=topic.name)
        session.ask(behind, note="out of range")
        session.ask(note="still out of range")
        session.ask(from_partition(6, topic=topic.name), note="in range, nothing to read")
        session.ask(note="nothing new")


@conversation
def a_new_log_start_offset_is_a_change(broker: Transcript) -> None:
    topic = filled(broker)
    session = Session(broker, from_partition(6, topic=topic.name))
    session.ask(note="nothing new")
    delete_before(broker, topic, 4)
    session.ask(note="the log starts later")
    session.ask(note="nothing new")


@conversation
def a_session_is_fair_to_its_partitions(broker: Transcript) -> None:
    topic = filled(broker, partitions=3, size=500)
    session = Session(broker, all_of(topic, 3))
    for number in range(5):
        session.ask(max_bytes=600, note=f"room for one, time {number}")
