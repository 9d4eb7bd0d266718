"""The pure parts of the edge: joining of answers, admission, the operator's log, the peer."""

import logging
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.apis.peer import Peer
from pykbroker.framing.coalescing import COPY_BYTES_MAX, JOIN_BYTES_MAX, coalesce
from pykbroker.transport.admission import Admission, Verdict
from pykbroker.transport.limits import ConnectionLimits
from pykbroker.transport.operator_log import LINES_PER_WINDOW_MAX, WINDOW_MS, OperatorLog

sizes = st.one_of(st.integers(0, 64), st.integers(COPY_BYTES_MAX - 1, COPY_BYTES_MAX + 2))


@given(st.lists(sizes, max_size=40))
def test_joining_answers_changes_no_byte(lengths: list[int]) -> None:
    buffers = [bytes([n % 256]) * length for n, length in enumerate(lengths)]
    joined = list(coalesce(buffers))
    assert b"".join(joined) == b"".join(buffers)
    assert all(len(piece) <= JOIN_BYTES_MAX for piece in joined)


def test_large_buffers_pass_uncopied_between_joined_small_ones() -> None:
    large = memoryview(bytes(COPY_BYTES_MAX + 1))
    first, second, third = coalesce([b"a", b"b", large, b"c"])
    assert (first, third) == (b"ab", b"c")
    assert second is large


def test_each_address_has_its_own_bound_on_connections() -> None:
    limits = ConnectionLimits(
        connections_per_ip_max=1,
        connections_per_ip_overrides=MappingProxyType({"10.0.0.2": 2, "10.0.0.3": 0}),
    )
    admission = Admission(limits)
    came = ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "10.0.0.3"]
    verdicts = [admission.enter(ip) is Verdict.ADMIT for ip in came]
    assert verdicts == [True, False, True, True, False, False]
    admission.leave("10.0.0.1")
    assert admission.enter("10.0.0.1") is Verdict.ADMIT


def test_the_house_is_full_until_somebody_leaves() -> None:
    admission = Admission(ConnectionLimits(connections_max=1))
    assert not admission.is_full
    admission.enter("10.0.0.1")
    assert admission.is_full
    admission.leave("10.0.0.1")
    assert not admission.is_full


def test_lines_about_peers_are_throttled_and_suppressed_lines_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = OperatorLog(logging.getLogger("test"))
    for n in range(LINES_PER_WINDOW_MAX + 5):
        log.peer_trouble(f"line {n}", now_ms=0)
    assert len(caplog.messages) == LINES_PER_WINDOW_MAX
    log.peer_trouble("later", now_ms=WINDOW_MS)
    assert caplog.messages[-1] == "later (5 similar lines suppressed)"


def divide() -> float:
    return 1 / 0


def test_a_bug_shows_its_traceback_once(caplog: pytest.LogCaptureFixture) -> None:
    log = OperatorLog(logging.getLogger("test"))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError) as fault:
            divide()
        log.bug("a fault", fault.value, now_ms=0)
    assert [record.exc_info is not None for record in caplog.records] == [True, False, False]


def test_a_peer_tells_of_its_leaving_once() -> None:
    peer = Peer(host="::1", port=5, listener="PLAINTEXT", connection_id=1)
    assert str(peer) == "[::1]:5"
    heard: list[str] = []

    def unwanted() -> None:
        heard.append("unwanted")

    peer.when_gone(lambda: heard.append("early"))
    peer.when_gone(unwanted)
    peer.forget(unwanted)
    for callback in peer.leave():
        callback()
    peer.when_gone(lambda: heard.append("late"))
    assert (peer.gone, peer.leave(), heard) == (True, [], ["early", "late"])
