"""The voter state: Apache Kafka's format, and epochs that only grow."""

import pytest

from pykbroker.metadata_log.quorum_state import MalformedQuorumState, QuorumState, next_epoch

BY_APACHE = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1}],"data_version":0}'
)


def test_the_quorum_state_is_written_as_apache_kafka_writes_it() -> None:
    state = next_epoch(QuorumState(), node_id=1, last_epoch_in_log=-1)
    assert state.encode() == BY_APACHE
    assert QuorumState.decode(BY_APACHE) == state


@pytest.mark.parametrize(
    ("known", "in_log", "expected"), [(0, -1, 1), (3, 3, 4), (3, 7, 8), (7, 3, 8)]
)
def test_a_new_epoch_is_greater_than_all_before(known: int, in_log: int, expected: int) -> None:
    state = next_epoch(QuorumState(leader_epoch=known), node_id=1, last_epoch_in_log=in_log)
    assert state.leader_epoch == expected


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"data_version":2}', b'{"data_version":0}'])
def test_a_corrupt_quorum_state_is_refused(text: bytes) -> None:
    with pytest.raises(MalformedQuorumState):
        QuorumState.decode(text)
