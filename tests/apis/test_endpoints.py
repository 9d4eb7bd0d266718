"""A response contains the brokers that have the listener of the client."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykbroker.apis.node import Call, Endpoint
from pykbroker.apis.peer import Peer

BROKERS = {
    1: SimpleNamespace(listeners={"A": ("one", 1), "B": ("one", 2)}, rack="r"),
    2: SimpleNamespace(listeners={"B": ("two", 2)}, rack=None),
}


@pytest.mark.parametrize(
    ("listener", "node_ids", "found"),
    [
        ("A", [1], [Endpoint(1, "one", 1, "r")]),
        ("A", [2, 1, 3], [Endpoint(1, "one", 1, "r")]),
        ("B", [2, 1], [Endpoint(1, "one", 2, "r"), Endpoint(2, "two", 2, None)]),
        ("B", [3], []),
        ("C", [1, 2], []),
        ("A", [], []),
    ],
)
def test_brokers_without_the_listener_of_the_client_are_omitted(
    listener: str, node_ids: list[int], found: list[Endpoint]
) -> None:
    node = SimpleNamespace(image=SimpleNamespace(brokers=BROKERS))
    peer = Peer(host="127.0.0.1", port=1, listener=listener, connection_id=1)
    assert Call(cast("Any", node), 0, None, peer).endpoints_of(node_ids) == found
