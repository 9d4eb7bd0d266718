"""The in-sync set of a leader against a controller that answers late, twice or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from pykbroker.partitions.followers import Followers
from pykbroker.partitions.in_sync import InSyncChange, InSyncProposal
from pykbroker.partitions.leadership import Leadership
from pykbroker_protocol.errors import ErrorCode
from tests.partitions.leader_script import LAG_SECONDS_MAX, LEADER, Epochs

if TYPE_CHECKING:
    from collections.abc import Callable

REPLICAS = (1, 2, 3)
LOST = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR)


class Controller:
    """The committed state of the partition."""

    def __init__(self, in_sync: tuple[int, ...]) -> None:
        self.in_sync = in_sync
        self.partition_epoch = 0

    def leadership(self) -> Leadership:
        return Leadership(
            leader=LEADER,
            leader_epoch=1,
            partition_epoch=self.partition_epoch,
            replicas=REPLICAS,
            in_sync=self.in_sync,
        )

    def alter(self, proposal: InSyncProposal) -> InSyncChange | ErrorCode:
        if proposal.partition_epoch != self.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        self.change(proposal.replicas)
        return InSyncChange(
            leader=LEADER,
            leader_epoch=1,
            in_sync=self.in_sync,
            partition_epoch=self.partition_epoch,
        )

    def change(self, in_sync: tuple[int, ...]) -> None:
        self.in_sync = in_sync
        self.partition_epoch += 1


class Cluster:
    """A leader, two followers and the controller."""

    def __init__(self, in_sync: tuple[int, ...], min_in_sync: int) -> None:
        self.controller = Controller(in_sync)
        self.epochs = Epochs()
        self.epochs.states = {2: "20", 3: "30"}
        self.min_in_sync = min_in_sync
        self.now, self.end, self.high_watermark = 0.0, 0, 0
        self.ends = {1: 0, 2: 0, 3: 0}
        self.followers = Followers(
            self.controller.leadership(), self.epochs, epoch_start_offset=0, now=0
        )
        self.proposal: InSyncProposal | None = None
        self.response: tuple[InSyncProposal, InSyncChange | ErrorCode] | None = None

    def append(self, count: int) -> None:
        self.end = self.ends[1] = self.end + count
        self.advance()

    def fetch(self, broker: int, lag: int) -> None:
        offset = max(self.ends[broker], self.end - lag)
        self.ends[broker] = offset
        self.followers.note_fetch(
            broker,
            fetch_offset=offset,
            log_start_offset=0,
            broker_epoch=-1,
            leader_end_offset=self.end,
            now=self.now,
        )
        self.sent(self.followers.propose_to_add(broker, high_watermark=self.high_watermark))
        self.advance()

    def sleep(self) -> None:
        self.now += LAG_SECONDS_MAX + 1

    def shrink(self) -> None:
        self.sent(
            self.followers.propose_to_remove(
                leader_end_offset=self.end, now=self.now, lag_seconds_max=LAG_SECONDS_MAX
            )
        )
        self.advance()

    def sent(self, proposal: InSyncProposal | None) -> None:
        if proposal is not None:
            assert all(
                self.ends[it] >= self.high_watermark
                for it in proposal.replicas
                if it not in self.followers.leadership.in_sync
            )
            self.proposal = proposal

    def decide(self) -> None:
        """The controller handles the request; its response is under way."""
        if self.proposal is not None:
            self.response = self.proposal, self.controller.alter(self.proposal)

    def respond(self, *, is_lost: bool) -> None:
        if self.response is not None:
            proposal, outcome = self.response
            self.response = None
            self.followers.settle(proposal, LOST[0] if is_lost else outcome)
            self.advance()

    def reject(self) -> None:
        """The controller refuses the request without a change."""
        if self.proposal is not None and self.proposal.partition_epoch == (
            self.controller.partition_epoch
        ):
            self.followers.settle(self.proposal, ErrorCode.INELIGIBLE_REPLICA)
            self.advance()

    def fence(self, broker: int) -> None:
        if broker in self.controller.in_sync:
            self.controller.change(tuple(it for it in self.controller.in_sync if it != broker))

    def replay(self) -> None:
        """The metadata log arrives at the leader."""
        leadership = self.controller.leadership()
        if leadership.partition_epoch >= self.followers.leadership.partition_epoch:
            self.followers.apply(leadership, leader_end_offset=self.end, now=self.now)
            self.advance()

    def advance(self) -> None:
        before = self.high_watermark
        self.high_watermark = self.followers.advanced_high_watermark(
            before,
            leader_end_offset=self.end,
            min_in_sync=self.min_in_sync,
            now=self.now,
            lag_seconds_max=LAG_SECONDS_MAX,
        )
        assert self.high_watermark >= before


in_sync_sets = st.sampled_from((REPLICAS, (1, 2), (1,)))
brokers = st.sampled_from((2, 3))
steps = st.one_of(
    st.builds(lambda n: lambda it: it.append(n), st.integers(1, 3)),
    st.builds(lambda b, n: lambda it: it.fetch(b, n), brokers, st.integers(0, 3)),
    st.builds(lambda b: lambda it: it.fence(b), brokers),
    st.builds(lambda lost: lambda it: it.respond(is_lost=lost), st.booleans()),
    st.sampled_from(
        (Cluster.decide, Cluster.replay, Cluster.reject, Cluster.sleep, Cluster.shrink)
    ),
)


@settings(max_examples=600, deadline=None)
@given(in_sync_sets, st.integers(1, 3), st.lists(steps, max_size=60))
def test_committed_in_sync_replicas_have_all_records_below_the_high_watermark(
    in_sync: tuple[int, ...], min_in_sync: int, history: list[Callable[[Cluster], None]]
) -> None:
    """Whichever replica the controller elects next, it has every acknowledged record."""
    cluster = Cluster(in_sync, min_in_sync)
    for step in history:
        step(cluster)
        behind = {
            it: cluster.ends[it]
            for it in cluster.controller.in_sync
            if cluster.ends[it] < cluster.high_watermark
        }
        assert not behind, f"high watermark {cluster.high_watermark}"


@settings(max_examples=100, deadline=None)
@given(in_sync_sets, st.integers(1, 3), st.lists(steps, max_size=60))
def test_all_records_become_committed_once_all_brokers_answer(
    in_sync: tuple[int, ...], min_in_sync: int, history: list[Callable[[Cluster], None]]
) -> None:
    cluster = Cluster(in_sync, min_in_sync)
    for step in history:
        step(cluster)
    for _ in range(4):
        for broker in (2, 3):
            cluster.fetch(broker, 0)
            cluster.decide()
            cluster.respond(is_lost=False)
            cluster.replay()
    assert cluster.high_watermark == cluster.end
    assert set(cluster.controller.in_sync) == set(REPLICAS)
