"""Connection quotas, the peer log, and callbacks of a peer."""

import logging
from types import MappingProxyType

import pytest

from pykbroker.apis.peer import Peer
from pykbroker.transport.connection_quotas import ConnectionQuotas, Verdict
from pykbroker.transport.limits import ConnectionLimits
from pykbroker.transport.peer_log import LINES_PER_PERIOD_MAX, PERIOD_SECONDS, PeerLog


def test_each_ip_address_has_its_own_quota() -> None:
    limits = ConnectionLimits(
        connections_per_ip_max=1,
        connections_per_ip_overrides=MappingProxyType({"10.0.0.2": 2, "10.0.0.3": 0}),
    )
    quotas = ConnectionQuotas(limits)
    ips = ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "10.0.0.3"]
    verdicts = [quotas.admit(ip) is Verdict.ADMIT for ip in ips]
    assert verdicts == [True, False, True, True, False, False]
    quotas.release("10.0.0.1")
    assert quotas.admit("10.0.0.1") is Verdict.ADMIT


def test_quotas_are_full_until_a_connection_is_released() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(connections_max=1))
    assert not quotas.is_full
    quotas.admit("10.0.0.1")
    assert quotas.is_full
    quotas.release("10.0.0.1")
    assert not quotas.is_full


def test_lines_about_peers_are_limited_and_suppressed_ones_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_ms = 0.0
    log = PeerLog(logging.getLogger("test"), lambda: now_ms)
    for n in range(LINES_PER_PERIOD_MAX + 5):
        log.peer_warning(f"line {n}")
    assert len(caplog.messages) == LINES_PER_PERIOD_MAX
    now_ms = PERIOD_SECONDS * 1000
    log.peer_warning("later")
    assert caplog.messages[-1] == "later (5 similar lines suppressed)"


def divide() -> float:
    return 1 / 0


def test_an_internal_error_is_logged_with_traceback_once(caplog: pytest.LogCaptureFixture) -> None:
    log = PeerLog(logging.getLogger("test"), lambda: 0.0)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError) as raised:
            divide()
        log.internal_error("line", raised.value)
    assert [record.exc_info is not None for record in caplog.records] == [True, False, False]


def test_a_peer_is_shown_by_its_address() -> None:
    peer = Peer(host="::1", port=5, listener="PLAINTEXT", connection_id=1)
    assert str(peer) == "[::1]:5"
