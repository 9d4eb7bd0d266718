"""A relay that was removed from its group cannot commit offsets."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from compat.clients.kafka_python_relay import KafkaPythonLibrary
from compat.clients.relay_program import Guarantee, RelayOptions, positions_after
from pykbroker import Broker
from pykbroker.testing.history import History
from pykbroker_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.apis.wire import Wire
from tests.delivery.writer_and_reader import TIMEOUT_SECONDS

if TYPE_CHECKING:
    from pykbroker.testing.history import Record


@pytest.mark.slow
def test_offsets_of_a_removed_kafka_python_consumer_are_rejected() -> None:
    with Broker(topics=["source", "sink"]) as broker:
        broker.produce("source", ["a"])
        options = RelayOptions(
            name="relay",
            bootstrap=broker.bootstrap,
            group="g",
            source="source",
            sink="sink",
            guarantee=Guarantee.EXACTLY_ONCE,
            history=os.devnull,
            transactional_id="relay",
            seed=1,
            session_timeout_ms=6_000,
        )
        library = KafkaPythonLibrary(options)
        try:
            library.open(History().client("relay"))
            found = first_records(library)
            remove_from_group(library, broker.port)
            library.begin()
            library.send([(0, "a")])
            with pytest.raises(library.error, match="UnknownMemberId"):
                library.send_offsets(positions_after(found))
        finally:
            library.consumer.close()
            library.producer.close(timeout=0)


def first_records(library: KafkaPythonLibrary) -> list[Record]:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (found := library.poll()):
        assert time.monotonic() < deadline
    return found


def remove_from_group(library: KafkaPythonLibrary, port: int) -> None:
    """Removes the consumer from its group and waits for its next heartbeat."""
    member_id = library.consumer.group_metadata().member_id
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member_id)])
    with Wire(port) as wire:
        assert wire.ask(request, 5).error_code == 0
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while library.consumer.group_metadata().member_id:
        assert time.monotonic() < deadline
        time.sleep(0.01)
