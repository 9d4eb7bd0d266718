"""Random histories of one transactional id, with invariants.

A transaction is committed in all its partitions or in none. Responses about its end are reliable;
none commits without a request. Epochs only grow, every request gets one response, the log
determines the state, and a producer that follows the protocol makes progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pykbroker.coordination.outcome import Write
from pykbroker.coordination.transactions.outcome import TopicPartition
from pykbroker.coordination.transactions.records import transaction_of
from pykbroker.coordination.transactions.settings import TransactionSettings
from pykbroker.coordination.transactions.states import LEGAL_TRANSITIONS, PREPARED, TransactionState
from pykbroker.coordination.transactions.transaction import FENCING_EPOCH, Producer, Transaction
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.internal_topics.transactions import TransactionLogKey, TransactionLogValue
from pykbroker_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pykbroker_protocol.messages.end_txn import EndTxnRequest
from pykbroker_protocol.messages.init_producer_id import InitProducerIdRequest
from tests.coordination.transactions.partitions import Partition, Token
from tests.coordination.transactions.transcript_runners import OurCoordinator, Unanswered

if TYPE_CHECKING:
    from pykbroker.coordination.transactions.outcome import Markers

ID = "shop"
NOBODY = Producer(-1, -1)
PLACES = [TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("bills", 0)]
PROCESSES = st.integers(0, 3)
"""The first two use transaction version 2, the others version 1."""
VERSION_1_FROM = 2
TIMEOUT_MS = 20_000
DELAYS_MS = st.sampled_from([1, 5_000, 10_000, 25_000])
EPOCHS_LEFT = st.sampled_from([None, None, 0, 1, 3])
"""Starts near the last epoch, so that exhaustion is reached."""


class Process:
    """A producer that acts on its last response, which may be outdated."""

    def __init__(self, *, knows_epochs: bool) -> None:
        self.knows_epochs = knows_epochs
        self.owner = NOBODY
        self.token: Token | None = None
        """The transaction that the producer believes to be in."""
        self.ending: bool | None = None
        """The requested end, which the producer retries."""


class Histories(RuleBasedStateMachine):
    @initialize(epochs_left=EPOCHS_LEFT)
    def begin(self, epochs_left: int | None) -> None:
        self.coordinator = OurCoordinator(TransactionSettings(id_expiration_ms=60_000))
        self.world = self.coordinator.world
        self.world.markers_are_held_back = True
        self.processes = [Process(knows_epochs=it < VERSION_1_FROM) for it in range(4)]
        self.partitions = {it: Partition(it) for it in PLACES}
        self.outcomes: dict[Token, bool] = {}
        """Responses about transactions."""
        self.wanted: set[Token] = set()
        """Transactions that their producers have requested to commit."""
        self.sent: list[tuple[Any, int]] = []
        """Requests of version 2 that the network may duplicate."""
        self.stale: list[Markers] = []
        """Markers of a coordinator that has crashed or was replaced."""
        self.tokens = 0
        self.checked = 0
        self.last: Transaction | None = None
        self.producer_ids: list[int] = []
        if epochs_left is not None:
            self.processes[0].owner = self.owner_with(epochs_left)

    def owner_with(self, epochs_left: int) -> Producer:
        response = self.coordinator.ask(self.init_request(NOBODY), 4)
        owner = Producer(response.producer_id, FENCING_EPOCH - 1 - epochs_left)
        (key, value) = self.world.log[0]
        assert value is not None
        used = value[:10] + owner.epoch.to_bytes(2, "big") + value[12:]
        self.world.log[0] = key, used
        self.world.restart()
        return owner

    # --- steps of producers, in any order

    @rule(number=PROCESSES, heard=st.booleans(), recovers=st.booleans())
    def initialises(self, number: int, heard: bool, recovers: bool) -> None:  # noqa: FBT001 - drawn
        process = self.processes[number]
        self.init(process, process.owner if recovers else NOBODY, heard=heard)

    def init(self, process: Process, asks_as: Producer, *, heard: bool = True) -> bool:
        response = self.send(self.init_request(asks_as), 4, process)
        if response is None or not heard or response.error_code != ErrorCode.NONE:
            return False
        process.owner = Producer(response.producer_id, response.producer_epoch)
        process.token = process.ending = None
        return True

    def init_request(self, owner: Producer) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            transactional_id=ID,
            transaction_timeout_ms=TIMEOUT_MS,
            producer_id=owner.id,
            producer_epoch=owner.epoch,
        )

    @rule(number=PROCESSES, place=st.sampled_from(PLACES))
    def writes(self, number: int, place: TopicPartition) -> None:
        process = self.processes[number]
        if process.owner == NOBODY or process.ending is not None:
            return
        if process.token is None:
            self.tokens += 1
            process.token = self.tokens
        version = 5 if process.knows_epochs else 3
        if self.joins(process.owner, place, version) and self.has_joined(process.owner, place):
            self.partitions[place].write(process.owner, process.token)

    def joins(self, owner: Producer, place: TopicPartition, version: int) -> bool:
        topics = [AddPartitionsToTxnTopic(name=place.topic, partitions=[place.partition])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=owner.id,
            v3_and_below_producer_epoch=owner.epoch,
            v3_and_below_topics=topics,
        )
        if version >= 4:
            request = self.batched(owner, place, verify_only=False)
        response = self.send(request, version, None)
        if response is None:
            return False
        results = response.results_by_topic_v3_and_below
        if version >= 4:
            results = response.results_by_transaction[0].topic_results
        code: int = results[0].results_by_partition[0].partition_error_code
        return code == ErrorCode.NONE

    def has_joined(self, owner: Producer, place: TopicPartition) -> bool:
        """Verifies a partition, as its leader does before the first batch of version 1."""
        response = self.coordinator.ask(self.batched(owner, place, verify_only=True), 5)
        (result,) = response.results_by_transaction[0].topic_results[0].results_by_partition
        return bool(result.partition_error_code == ErrorCode.NONE)

    def batched(
        self, owner: Producer, place: TopicPartition, *, verify_only: bool
    ) -> AddPartitionsToTxnRequest:
        asked = AddPartitionsToTxnTransaction(
            transactional_id=ID,
            producer_id=owner.id,
            producer_epoch=owner.epoch,
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name=place.topic, partitions=[place.partition])],
        )
        return AddPartitionsToTxnRequest(transactions=[asked])

    @rule(number=PROCESSES, commits=st.booleans(), heard=st.booleans())
    def ends(self, number: int, commits: bool, heard: bool) -> None:  # noqa: FBT001 - drawn
        process = self.processes[number]
        if process.token is None:
            return
        process.ending = commits if process.ending is None else process.ending
        if process.ending:
            self.wanted.add(process.token)
        request = EndTxnRequest(
            transactional_id=ID,
            producer_id=process.owner.id,
            producer_epoch=process.owner.epoch,
            committed=process.ending,
        )
        response = self.send(request, 5 if process.knows_epochs else 4, process)
        if response is None or not heard or response.error_code != ErrorCode.NONE:
            return
        self.outcomes[process.token] = process.ending
        process.token = process.ending = None
        if process.knows_epochs:
            process.owner = Producer(response.producer_id, response.producer_epoch)

    def send(self, request: Any, version: int, process: Process | None) -> Any:
        if process is None or process.knows_epochs:
            self.sent.append((request, version))
        try:
            return self.coordinator.ask(request, version)
        except Unanswered:
            assert self.world.disk_is_full
            return None

    @rule(number=PROCESSES)
    def does_as_it_is_told(self, number: int) -> None:
        """After any history a producer can recover and commit a transaction."""
        process = self.processes[number]
        self.world.disk_is_full = False
        for _ in range(3):
            if self.init(process, NOBODY):
                break
            self.all_markers_are_written()
            self.world.pass_time(10_000)  # for a completion that a full disk has prevented
        for place in PLACES:
            self.writes(number, place)
        token = process.token
        assert token is not None
        self.ends(number, commits=True, heard=True)
        self.all_markers_are_written()
        assert self.outcomes[token]
        assert {it.place for it in self.fates() if it.token == token} == set(PLACES)

    # --- disturbances

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def a_late_copy_of_a_request_arrives(self, data: st.DataObject) -> None:
        request, version = data.draw(st.sampled_from(self.sent))
        is_of_version_1 = isinstance(request, AddPartitionsToTxnRequest) and version < 4
        if not is_of_version_1:
            self.send(request, version, None)

    @precondition(lambda self: self.world.markers)
    @rule(data=st.data())
    def markers_are_written(self, data: st.DataObject) -> None:
        self.write_markers(data.draw(st.sampled_from(self.world.markers)))

    def write_markers(self, work: Markers) -> None:
        for place in work.partitions:
            self.partitions[place].end(work)
        self.world.write_marker(work)

    def all_markers_are_written(self) -> None:
        while self.world.markers:
            self.write_markers(self.world.markers[0])

    @precondition(lambda self: self.stale)
    @rule(data=st.data())
    def a_marker_of_a_former_coordinator_comes_late(self, data: st.DataObject) -> None:
        work = data.draw(st.sampled_from(self.stale))
        place = data.draw(st.sampled_from(work.partitions))
        self.partitions[place].end(work)

    @rule(delay_ms=DELAYS_MS)
    def time_passes(self, delay_ms: int) -> None:
        self.world.pass_time(delay_ms)

    @rule()
    def the_coordinator_restarts(self) -> None:
        before = dict(self.world.transactions.transactions)
        self.stale += self.world.markers
        self.world.restart()
        assert self.world.transactions.transactions == before

    @rule(is_full=st.booleans())
    def the_disk_fills_or_is_cleared(self, is_full: bool) -> None:  # noqa: FBT001 - drawn
        self.world.disk_is_full = is_full

    # --- invariants

    @invariant()
    def every_request_is_answered(self) -> None:
        assert not self.world.waiting

    @invariant()
    def each_step_in_the_log_is_legal_and_epochs_only_grow(self) -> None:
        happened = self.world.happened[self.checked :]
        self.checked = len(self.world.happened)
        for write in happened:
            if isinstance(write, Write):
                self.check_step(write)

    def check_step(self, write: Write) -> None:
        before, self.last = self.last, None
        if write.value is None:
            assert before is None or (before.state, TransactionState.DEAD) in LEGAL_TRANSITIONS
            return
        assert isinstance(write.key, TransactionLogKey)
        assert isinstance(write.value, TransactionLogValue)
        after = self.last = transaction_of(write.key, write.value)
        if before is None or before.producer_id != after.producer_id:
            assert after.producer_id not in self.producer_ids, "an id is given once"
            self.producer_ids.append(after.producer_id)
            return
        assert (before.state, after.state) in LEGAL_TRANSITIONS
        assert before.producer_epoch <= after.producer_epoch <= FENCING_EPOCH
        if after.state is TransactionState.ONGOING:
            assert after.producer_epoch < FENCING_EPOCH, "nobody is given the epoch that fences"

    @invariant()
    def a_transaction_counts_everywhere_or_nowhere(self) -> None:
        by_token: dict[Token, bool] = dict(self.outcomes)
        for fate in self.fates():
            assert fate.token in self.wanted or not fate.committed, "nobody asked for it"
            assert by_token.setdefault(fate.token, fate.committed) == fate.committed

    @invariant()
    def what_is_decided_is_carried_out(self) -> None:
        prepared = [
            it for it in self.world.transactions.transactions.values() if it.state in PREPARED
        ]
        work = len(self.world.markers) + len(self.world.transactions._marked)
        assert len(prepared) == work

    def fates(self) -> list[Any]:
        return [fate for it in self.partitions.values() for fate in it.fates]

    def teardown(self) -> None:
        """When producers stop, no transaction stays open and all ids expire."""
        if not hasattr(self, "world"):
            return
        self.world.disk_is_full = False
        for _ in range(3):
            self.world.pass_time(2 * TIMEOUT_MS)
            self.all_markers_are_written()
        assert not any(it.open.get(number) for it in self.partitions.values() for number in it.open)
        self.a_transaction_counts_everywhere_or_nowhere()
        assert self.world.replayed().transactions == self.world.transactions.transactions
        self.world.pass_time(10_000_000)
        assert not self.world.transactions.transactions


TestHistories = pytest.mark.slow(Histories.TestCase)
TestHistories.settings = settings(
    max_examples=250, stateful_step_count=40, report_multiple_bugs=False
)
