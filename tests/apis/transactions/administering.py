"""Transaction requests of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker.internal_topics import TRANSACTION_STATE
from pykbroker_protocol.messages.api_versions import ApiVersionsRequest
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from pykbroker_protocol.messages.list_transactions import ListTransactionsRequest
from tests.apis.conversations.configurations import described as described_configurations
from tests.apis.transactions.transcript import OF_TRANSACTIONS, conversation, described

if TYPE_CHECKING:
    from tests.apis.transactions.transcript import TransactionTranscript

HOUR_MS = 3_600_000
APIS = (*range(22, 29), 61, 65, 66)
SET_ON_TOPIC = 1
STRANGE_STATES = ("Whatever", "ongoing", "Whatever")


@conversation
def transactions_are_described(broker: TransactionTranscript) -> None:
    one, other = broker.topic("one", partitions=3), broker.topic("other")
    producer = broker.producer()
    name = producer.transactional_id
    broker.ask(described(name, "unknown", ""), 0, note="empty")
    producer.add(one, (2, 0))
    producer.add(other)
    broker.ask(described(name), 0, note="under way")
    producer.end(committed=False)
    broker.ask(described(name), 0, note="aborted")
    broker.ask(described(), 0, note="none")
    broker.ask(described(name, name), 0, note="twice")


@conversation
def transactions_are_listed(broker: TransactionTranscript) -> None:
    topic = broker.topic()
    idle, under_way, committed, aborted = (
        broker.producer(it) for it in ("idle", "under-way", "committed", "aborted")
    )
    for producer in (under_way, committed, aborted):
        producer.add(topic)
    committed.end()
    aborted.end(committed=False)
    mine = (idle.id, under_way.id, committed.id, aborted.id)
    for version in range(3):
        for states in ((), ("Ongoing",), ("Empty", "CompleteAbort"), STRANGE_STATES):
            list_ours(broker, version, state_filters=states)
        list_ours(broker, version, producer_id_filters=mine[1:3])
        list_ours(broker, version, producer_id_filters=(2**40,))
        list_ours(broker, version, producer_id_filters=mine, state_filters=("CompleteCommit",))
    for version in (1, 2):
        for duration_ms in (-1, 0, HOUR_MS, -5):
            list_ours(broker, version, duration_filter=duration_ms)
    for pattern in (None, "", ".*", f"{broker.prefix}-.*d", "nothing", "(", ".*committed", "idle"):
        list_ours(broker, 2, transactional_id_pattern=pattern)


def list_ours(broker: TransactionTranscript, version: int, **filters: Any) -> None:
    """Apache Kafka also has transactions of other tests."""
    request = ListTransactionsRequest(**{"state_filters": (), "producer_id_filters": (), **filters})
    answer = broker.quietly(request, version)
    ours = sorted(
        (it.transactional_id, it.transaction_state)
        for it in answer.transaction_states
        if it.transactional_id.startswith(broker.prefix)
    )
    reported = broker.plain(answer.replace(transaction_states=()))
    shown = {name: len(it) if name == "producer_id_filters" else it for name, it in filters.items()}
    broker.note(f"ListTransactions v{version} {shown}", (reported, ours))


@conversation
def coordinators_of_unknown_key_types(broker: TransactionTranscript) -> None:
    request = FindCoordinatorRequest(coordinator_keys=(), key_type=OF_TRANSACTIONS)
    broker.ask(request, 4, note="no name")


@conversation
def transaction_apis_are_advertised(broker: TransactionTranscript) -> None:
    for version in range(5):
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
        answer = broker.plain(broker.quietly(request, version))
        offered = [it for it in answer["api_keys"] if it["api_key"] in APIS]
        features = [
            it
            for kind in ("supported_features", "finalized_features")
            for it in answer[kind]
            if it["name"] == "transaction.version"
        ]
        broker.note(f"ApiVersions v{version}", (offered, features))


@conversation
def the_topic_of_transactions_is_configured(broker: TransactionTranscript) -> None:
    broker.transactional_id()
    answer = broker.quietly(described_configurations(TRANSACTION_STATE, whole=False), 4)
    own = {
        it.name: it.value for it in answer.results[0].configs if it.config_source == SET_ON_TOPIC
    }
    broker.note("what is set on it", sorted(own.items()))
    topic = broker.metadata_of(TRANSACTION_STATE)
    broker.note("its partitions", (topic.is_internal, len(topic.partitions)))
