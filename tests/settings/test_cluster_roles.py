"""Which properties a broker of a cluster needs, and which contradict its role."""

import pytest

from pykbroker.settings import (
    InvalidSetting,
    inter_broker_listener,
    is_own_controller,
    load_settings,
)
from pykbroker.wiring import refuse_other_hosts

MEMBER = {
    "process.roles": "broker",
    "node.id": "4",
    "controller.quorum.bootstrap.servers": "10.0.0.1:9093,10.0.0.2:9093",
}

ACCEPTED = [
    {},
    {"controller.quorum.bootstrap.servers": "", "controller.quorum.voters": "1@a:9093,2@b:9093"},
    {"controller.quorum.voters": "1@a:9093"},
    {
        "listeners": "INTERNAL://:9092,EXTERNAL://:9094",
        "advertised.listeners": "INTERNAL://b4:9092,EXTERNAL://example.org:9094",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,C:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "controller.listener.names": "C",
    },
    {"cordoned.log.dirs": "*"},
]

REFUSED = [
    (
        {"process.roles": "controller"},
        (
            "process.roles=controller: a controller without the role broker is not supported, use "
            "broker or broker,controller"
        ),
    ),
    (
        {"controller.quorum.bootstrap.servers": ""},
        (
            "process.roles=broker: specify controller.quorum.bootstrap.servers (--controllers) or "
            "controller.quorum.voters"
        ),
    ),
    (
        {"controller.quorum.voters": "4@a:9093,5@b:9093"},
        (
            "If process.roles contains just the 'broker' role, the node id 4 must not be included "
            "in the set of voters controller.quorum.voters=4@a:9093,5@b:9093"
        ),
    ),
    (
        {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"},
        (
            "controller.listener.names must not contain a value appearing in the 'listeners' "
            "configuration when running KRaft with just the broker role"
        ),
    ),
    (
        {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"},
        (
            "controller.listener.names: security protocol SSL of listener CONTROLLER is not "
            "supported, use PLAINTEXT"
        ),
    ),
    (
        {"listeners": "INTERNAL://:9092"},
        (
            "inter.broker.listener.name must be a listener name defined in listeners (INTERNAL), "
            "it is PLAINTEXT"
        ),
    ),
    (
        {"listeners": "SSL://:9092"},
        "listener SSL: security protocol SSL is not supported, use PLAINTEXT",
    ),
]


@pytest.mark.parametrize("given", ACCEPTED)
def test_a_broker_of_a_cluster_accepts(given: dict[str, str]) -> None:
    settings = load_settings({**MEMBER, **given})
    assert not is_own_controller(settings)
    assert refuse_other_hosts(settings) is None


@pytest.mark.parametrize(("given", "sentence"), REFUSED)
def test_a_broker_of_a_cluster_rejects(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidSetting) as refusal:
        load_settings({**MEMBER, **given})
    assert str(refusal.value) == sentence


def test_the_node_id_has_no_default_in_a_cluster() -> None:
    given = {name: text for name, text in MEMBER.items() if name != "node.id"}
    with pytest.raises(InvalidSetting, match=r"specify node\.id"):
        load_settings(given)


def test_the_inter_broker_listener_is_plaintext_unless_it_is_named() -> None:
    assert inter_broker_listener(load_settings(MEMBER)) == "PLAINTEXT"
    given = {"listeners": "INTERNAL://:9092", "inter.broker.listener.name": "internal"}
    assert inter_broker_listener(load_settings({**MEMBER, **given})) == "INTERNAL"


def test_a_node_without_roles_is_its_own_controller() -> None:
    assert is_own_controller(load_settings({}))


def test_a_node_that_is_its_own_controller_cannot_be_a_guest() -> None:
    refusal = refuse_other_hosts(load_settings({"cordoned.log.dirs": "*"}))
    assert refusal is not None
    assert "--roles broker" in refusal
