"""Rules that transcripts do not cover: limits, feature levels, records of Apache Kafka."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykbroker.coordination.outcome import Write
from pykbroker.coordination.transactions import add_partitions
from pykbroker.coordination.transactions.outcome import TopicPartition, TransactionOutcome
from pykbroker.coordination.transactions.records import transaction_of, write_of
from pykbroker.coordination.transactions.registry import (
    EXPIRY_TIMER,
    PARTITIONS_PER_SWEEP_MAX,
    TIMEOUT_TIMER,
    TOMBSTONES_PER_SWEEP_MAX,
    Transactions,
)
from pykbroker.coordination.transactions.settings import TransactionSettings
from pykbroker.coordination.transactions.states import TransactionState
from pykbroker.coordination.transactions.transaction import ENDLESS_TIMEOUT_MS, Transaction
from pykbroker.coordinators.records import decode_record, encode_write
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.internal_topics.transactions import TransactionLogKey, TransactionLogValue
from pykbroker_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pykbroker_protocol.messages.end_txn import EndTxnRequest
from pykbroker_protocol.messages.init_producer_id import InitProducerIdRequest
from pykbroker_protocol.messages.list_transactions import ListTransactionsRequest
from tests.coordination.transactions.transcript_runners import OurCoordinator, listed
from tests.coordination.transactions.world import RECORDS, START_MS, World

DAY_MS = 24 * 60 * 60_000
ORDERS = TopicPartition("orders", 0)
EMPTY = Transaction(
    transactional_id="shop",
    state=TransactionState.EMPTY,
    producer_id=7,
    producer_epoch=3,
    previous_producer_id=7,
    timeout_ms=60_000,
    updated_ms=START_MS,
)
ONGOING = EMPTY.with_partitions({ORDERS}, client_version=2, now_ms=START_MS)


SELDOM = TransactionSettings(timeout_check_interval_ms=DAY_MS)


def world_with(*transactions: Transaction, settings: TransactionSettings | None = None) -> World:
    world = World(settings or TransactionSettings())
    world.carry_out(TransactionOutcome(writes=tuple(write_of(it, 2) for it in transactions)))
    world.happened.clear()
    return world


def states_written(world: World) -> list[tuple[str, TransactionState]]:
    return [
        (it.key.transactional_id, transaction_of(it.key, it.value).state)
        for it in world.happened
        if isinstance(it, Write)
        and isinstance(it.key, TransactionLogKey)
        and isinstance(it.value, TransactionLogValue)
    ]


def test_sweeps_may_be_late_without_ongoing_transactions() -> None:
    assert world_with(EMPTY).transactions.may_wait(TIMEOUT_TIMER)
    assert not world_with(ONGOING).transactions.may_wait(TIMEOUT_TIMER)
    assert world_with(ONGOING).transactions.may_wait(EXPIRY_TIMER)


# --- records


def test_records_have_the_bytes_of_apache_kafka() -> None:
    """An empty transactional id in a log of Apache Kafka 4.3.1."""
    written = bytes.fromhex(
        "0001" "0000000000000003" "0001" "0000ea60" "00" "00"
        "000001a1ef469128" "ffffffffffffffff" "01" "00" "08" "0000000000000003"
    )  # fmt: skip
    transaction = replace(
        EMPTY,
        transactional_id="t5",
        producer_id=3,
        producer_epoch=1,
        previous_producer_id=3,
        updated_ms=0x1A1EF469128,
    )
    assert encode_write(write_of(transaction, 2)) == (b"\0\0\0\2t5", written)


@pytest.mark.parametrize("transaction_version", [1, 2])
@pytest.mark.parametrize(
    "transaction",
    [
        EMPTY,
        ONGOING,
        ONGOING.ended(committed=True, now_ms=START_MS + 1),
        ONGOING.ended_with_epoch(committed=False, next_producer_id=9, now_ms=START_MS + 1),
        ONGOING.ended(committed=True, now_ms=START_MS + 1).completed(START_MS + 2),
    ],
    ids=lambda it: it.state.value,
)
def test_a_transaction_survives_encoding(
    transaction: Transaction, transaction_version: int
) -> None:
    record = encode_write(write_of(transaction, transaction_version))
    key, value = decode_record(RECORDS, *record)
    assert isinstance(key, TransactionLogKey)
    assert isinstance(value, TransactionLogValue)
    assert transaction_of(key, value) == transaction


def test_transaction_version_0_writes_no_tags() -> None:
    record = encode_write(write_of(ONGOING, 0))
    key, value = decode_record(RECORDS, *record)
    assert record[1] is not None
    assert record[1][:2] == b"\0\0"
    assert isinstance(key, TransactionLogKey)
    assert isinstance(value, TransactionLogValue)
    read = transaction_of(key, value)
    assert read == replace(ONGOING, previous_producer_id=-1, client_version=0)


# --- feature levels


@pytest.mark.parametrize("transaction_version", [0, 1])
def test_an_older_cluster_ends_transactions_as_version_1_does(transaction_version: int) -> None:
    coordinator = OurCoordinator(TransactionSettings(), transaction_version=transaction_version)
    owner = coordinator.ask(init(), 5)
    coordinator.ask(adding(owner.producer_id, 0), 5)
    request = EndTxnRequest(
        transactional_id="shop", producer_id=owner.producer_id, producer_epoch=0, committed=True
    )
    ended = coordinator.ask(request, 5)
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, owner.producer_id, 0)
    assert coordinator.ask(request, 5).error_code == ErrorCode.NONE
    coordinator.ask(adding(owner.producer_id, 0), 5)
    assert coordinator.ask(init(), 5).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    again = coordinator.ask(init(), 5)
    assert (again.producer_id, again.producer_epoch) == (owner.producer_id, 2)


def init(**more: bool) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id="shop", transaction_timeout_ms=60_000, **more)


def adding(producer_id: int, epoch: int) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(transactions=[asked("shop", producer_id, epoch)])


def asked(transactional_id: str, producer_id: int, epoch: int) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0, 1])],
    )


def test_two_phase_commit_must_be_enabled() -> None:
    refused = OurCoordinator(TransactionSettings()).ask(init(enable2_pc=True), 6)
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    coordinator = OurCoordinator(replace(SELDOM, two_phase_commit=True))
    owner = coordinator.ask(init(enable2_pc=True), 6)
    coordinator.ask(adding(owner.producer_id, 0), 5)
    coordinator.world.pass_time(60 * DAY_MS)
    (transaction,) = coordinator.world.transactions.transactions.values()
    assert transaction.timeout_ms == ENDLESS_TIMEOUT_MS
    assert transaction.state is TransactionState.ONGOING, "somebody else decides"


def test_keep_prepared_txn_is_not_supported() -> None:
    response = OurCoordinator(TransactionSettings()).ask(init(keep_prepared_txn=True), 6)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
def test_a_producer_id_without_epoch_is_an_invalid_request(producer_id: int, epoch: int) -> None:
    request = replace_request(producer_id, epoch)
    response = OurCoordinator(TransactionSettings()).ask(request, 4)
    assert response.error_code == ErrorCode.INVALID_REQUEST


def replace_request(producer_id: int, epoch: int) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id="shop",
        transaction_timeout_ms=60_000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def test_a_request_without_available_producer_id_gets_a_retriable_error() -> None:
    """As in Apache Kafka while a block of ids is being allocated."""
    transactions = world_with(replace(ONGOING, producer_epoch=32_766)).transactions
    assert transactions.needs_producer_id("shop")
    assert transactions.needs_producer_id("store")
    request = InitProducerIdRequest(transactional_id="store", transaction_timeout_ms=1)
    new = transactions.init_producer_id(
        request, version=4, ticket=1, new_producer_id=None, now_ms=START_MS
    )
    end = transactions.end_txn(
        EndTxnRequest(
            transactional_id="shop", producer_id=7, producer_epoch=32_766, committed=True
        ),
        version=5,
        ticket=2,
        new_producer_id=None,
        now_ms=START_MS,
    )
    for outcome in (new, end):
        (reply,) = outcome.replies
        code = getattr(reply.response, "error_code", None)
        assert code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert not outcome.writes


# --- requests with many transactions


def test_brokers_add_partitions_for_many_transactions_in_one_request() -> None:
    coordinator = OurCoordinator(TransactionSettings())
    coordinator.world.carry_out(TransactionOutcome(writes=(write_of(EMPTY, 2),)))
    transactions = [asked("shop", 7, 3), asked("shop", 7, 2), asked("store", 7, 3)]
    response = coordinator.ask(AddPartitionsToTxnRequest(transactions=transactions), 5)
    codes = [
        (
            it.transactional_id,
            {at.partition_error_code for at in it.topic_results[0].results_by_partition},
        )
        for it in response.results_by_transaction
    ]
    assert codes == [
        ("shop", {ErrorCode.NONE}),
        ("shop", {ErrorCode.PRODUCER_FENCED}),
        ("store", {ErrorCode.INVALID_PRODUCER_ID_MAPPING}),
    ]


def test_no_partition_is_added_if_one_is_invalid() -> None:
    refusals = {TopicPartition("orders", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    result = add_partitions.refused_for_partitions(asked("shop", 7, 3), refusals)
    (topic,) = result.topic_results
    assert [it.partition_error_code for it in topic.results_by_partition] == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


# --- timeouts and limits


def test_many_timed_out_transactions_are_aborted_in_several_sweeps() -> None:
    places = {TopicPartition("orders", it) for it in range(PARTITIONS_PER_SWEEP_MAX // 2)}
    many = [
        replace(ONGOING, transactional_id=f"shop{it}", partitions=frozenset(places))
        for it in range(5)
    ]
    world = world_with(*many)
    world.markers_are_held_back = True
    world.pass_time(70_000)
    assert len(world.markers) == 2
    world.pass_time(200)
    assert len(world.markers) == 5
    assert world.timers[TIMEOUT_TIMER] > world.now_ms + 9_000, "then the usual interval again"


def test_a_transaction_larger_than_a_sweep_is_aborted_alone() -> None:
    places = {TopicPartition("orders", it) for it in range(PARTITIONS_PER_SWEEP_MAX * 2)}
    world = world_with(
        replace(ONGOING, partitions=frozenset(places)), replace(ONGOING, transactional_id="store")
    )
    world.markers_are_held_back = True
    world.pass_time(70_000)
    assert [it.transactional_id for it in world.markers] == ["shop"]


@pytest.mark.parametrize(("late_ms", "is_aborted"), [(0, False), (1, True)])
def test_a_transaction_is_aborted_only_after_its_timeout(late_ms: int, *, is_aborted: bool) -> None:
    transactions = world_with(ONGOING).transactions
    outcome = transactions.timer(TIMEOUT_TIMER, START_MS + 60_000 + late_ms)
    assert bool(outcome.markers) == is_aborted


def test_a_later_partition_does_not_extend_the_timeout() -> None:
    later = ONGOING.with_partitions(
        {TopicPartition("bills", 0)}, client_version=2, now_ms=START_MS + 30_000
    )
    assert later.started_ms == START_MS
    assert later.is_timed_out(START_MS + 60_001)


@pytest.mark.parametrize(("version", "client_version"), [(3, 0), (4, 0), (5, 2)])
def test_records_have_the_client_transaction_version(version: int, client_version: int) -> None:
    transactions = world_with(EMPTY).transactions
    outcome = transactions.add_partitions_to_txn(
        asked("shop", 7, 3), version=version, ticket=1, now_ms=START_MS
    )
    (write,) = outcome.writes
    assert isinstance(write.value, TransactionLogValue)
    assert write.value.client_transaction_version == client_version


def test_many_inactive_transactional_ids_expire_in_several_sweeps() -> None:
    count = TOMBSTONES_PER_SWEEP_MAX + 10
    world = world_with(
        *(replace(EMPTY, transactional_id=f"shop{it}") for it in range(count)), settings=SELDOM
    )
    world.pass_time(7 * DAY_MS)
    assert len(world.transactions.transactions) == 10
    world.pass_time(100)
    assert not world.transactions.transactions


@pytest.mark.parametrize(
    "state",
    [TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT],
)
def test_a_transactional_id_with_a_transaction_never_expires(state: TransactionState) -> None:
    world = world_with(
        replace(ONGOING, state=state, timeout_ms=ENDLESS_TIMEOUT_MS), settings=SELDOM
    )
    world.pass_time(8 * DAY_MS)
    assert "shop" in world.transactions.transactions


# --- logs, and reports of the runtime


def test_an_empty_abort_is_complete_at_once() -> None:
    coordinator = OurCoordinator(TransactionSettings())
    coordinator.world.markers_are_held_back = True
    coordinator.world.carry_out(TransactionOutcome(writes=(write_of(EMPTY, 2),)))
    coordinator.world.happened.clear()
    request = EndTxnRequest(
        transactional_id="shop", producer_id=7, producer_epoch=3, committed=False
    )
    assert coordinator.ask(request, 5).producer_epoch == 4
    assert states_written(coordinator.world) == [
        ("shop", TransactionState.PREPARE_ABORT),
        ("shop", TransactionState.COMPLETE_ABORT),
    ]


def test_a_log_of_another_broker_may_end_before_an_empty_abort_is_complete() -> None:
    world = world_with(EMPTY.ended_with_epoch(committed=False, next_producer_id=-1, now_ms=1))
    world.restart()
    assert states_written(world) == [("shop", TransactionState.COMPLETE_ABORT)]


def test_markers_have_the_epoch_of_the_coordinator() -> None:
    world = world_with(ONGOING.ended(committed=True, now_ms=START_MS))
    world.markers_are_held_back = True
    world.restart()
    (work,) = world.markers
    assert (work.coordinator_epoch, work.committed, work.transaction_version) == (1, True, 0)
    assert work.partitions == (ORDERS,)


def test_a_late_marker_report_changes_nothing() -> None:
    world = world_with(ONGOING.ended(committed=True, now_ms=START_MS))
    world.markers_are_held_back = True
    world.restart()
    (work,) = world.markers
    world.write_markers()
    for late in (work, replace(work, transactional_id="store"), replace(work, producer_epoch=9)):
        assert world.transactions.markers_written(late, world.now_ms) == TransactionOutcome()


def test_a_tombstone_deletes_a_transactional_id() -> None:
    world = world_with(ONGOING)
    world.transactions.replay(TransactionLogKey(transactional_id="shop"), None)
    assert not world.transactions.transactions
    assert not world.transactions.timer(TIMEOUT_TIMER, START_MS + DAY_MS).writes


def test_a_lost_connection_changes_nothing() -> None:
    world = world_with(ONGOING)
    before = dict(world.transactions.transactions)
    world.transactions.cancel_requests([1, 2])
    assert world.transactions.transactions == before


def test_a_pattern_that_is_too_costly_is_rejected() -> None:
    transactions = Transactions(TransactionSettings(), coordinator_epoch=0)
    request = ListTransactionsRequest(
        state_filters=(), producer_id_filters=(), transactional_id_pattern="(a{1000}){1000}"
    )
    response = listed(transactions, request, START_MS)
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
