"""More transactional ids than a block of producer ids; all survive a kill."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from compat.apache.apache_kafka import SINGLE_NODE
from pykbroker.controller.producer_ids import PRODUCER_IDS_PER_BLOCK
from pykbroker_protocol.messages.list_transactions import ListTransactionsRequest
from tests.apis.transactions.transcript import NOT_YET, Producer, TransactionTranscript

if TYPE_CHECKING:
    from tests.end_to_end.conftest import StartBroker

COUNT = 2 * PRODUCER_IDS_PER_BLOCK + 1
ALL = ListTransactionsRequest(state_filters=(), producer_id_filters=())


def test_every_transactional_id_has_its_own_producer_id(start_broker: StartBroker) -> None:
    broker = start_broker(settings=SINGLE_NODE)
    client = TransactionTranscript(broker.port, "many", time.time_ns() // 1_000_000)
    client.transactional_id()
    given = {}
    for number in range(COUNT):
        claim = Producer(client, f"many-{number}").claim()
        answer = client.quietly(claim, 5)
        assert not answer.error_code, answer
        given[claim.transactional_id] = answer.producer_id
    assert len(set(given.values())) == COUNT
    client.close()
    broker.kill()
    broker.start()
    client = TransactionTranscript(broker.port, "many", time.time_ns() // 1_000_000)
    listed = client.until(ALL, 1, lambda it: it.error_code not in NOT_YET)
    assert {it.transactional_id: it.producer_id for it in listed.transaction_states} == given
    client.close()
