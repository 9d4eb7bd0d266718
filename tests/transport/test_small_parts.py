"""Connection quotas, the peer log, and callbacks of a peer."""

import io
import logging
from types import MappingProxyType

import pytest

from pykbroker.apis.peer import Peer
from pykbroker.telemetry.log_throttle import LINES_PER_PERIOD_MAX
from pykbroker.telemetry.logs import ThrottleFilter
from pykbroker.transport.connection_quotas import ConnectionQuotas, Verdict
from pykbroker.transport.limits import ConnectionLimits
from pykbroker.transport.peer_log import PeerLog


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


def test_lines_about_peers_are_limited_by_event(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(ThrottleFilter(lambda: 0.0))
    logger = logging.getLogger("test")
    monkeypatch.setattr(logger, "handlers", [handler])
    log = PeerLog(logger)
    for port in range(LINES_PER_PERIOD_MAX + 5):
        log.warning("client at port %d: connection closed (%s)", port, "no request header")
    log.warning("listeners: connections cannot be accepted (%s)", "Too many open files")
    lines = stream.getvalue().splitlines()
    assert len(lines) == LINES_PER_PERIOD_MAX + 1
    assert "Too many open files" in lines[-1]


def divide() -> float:
    return 1 / 0


def test_an_internal_error_is_logged_with_traceback_once(caplog: pytest.LogCaptureFixture) -> None:
    log = PeerLog(logging.getLogger("test"))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError) as raised:
            divide()
        log.internal_error("line", raised.value)
    assert [record.exc_info is not None for record in caplog.records] == [True, False, False]


def test_a_peer_is_shown_by_its_address() -> None:
    peer = Peer(host="::1", port=5, listener="PLAINTEXT", connection_id=1)
    assert str(peer) == "[::1]:5"
