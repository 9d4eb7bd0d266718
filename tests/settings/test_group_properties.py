"""Intervals of a group: its own properties within the bounds of the broker."""

from pykbroker.metadata.image import GROUP_RESOURCE, TOPIC_RESOURCE
from pykbroker.settings import (
    GroupIntervals,
    describe_group,
    load_settings,
    refuse_group_overrides,
    resolve_group,
)
from pykbroker.wiring import consumer_group_settings

HEARTBEAT, SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"
STOCK = GroupIntervals(
    session_timeout_ms=45_000, heartbeat_interval_ms=5_000, assignment_interval_ms=1_000
)


def test_a_group_without_properties_uses_the_intervals_of_the_broker() -> None:
    settings = load_settings({f"group.{ASSIGNMENT}": "50"})
    assert resolve_group(settings, {}) == STOCK._replace(assignment_interval_ms=50)
    own = resolve_group(settings, {HEARTBEAT: "7000", ASSIGNMENT: "9"})
    assert own == STOCK._replace(heartbeat_interval_ms=7_000, assignment_interval_ms=9)


def test_stored_values_are_clamped_to_the_present_bounds() -> None:
    settings = load_settings({"group.consumer.max.heartbeat.interval.ms": "6000"})
    assert resolve_group(settings, {HEARTBEAT: "9000"}).heartbeat_interval_ms == 6_000
    assert resolve_group(settings, {HEARTBEAT: "1"}).heartbeat_interval_ms == 5_000


def test_the_heartbeat_interval_must_be_below_the_session_timeout() -> None:
    wide = {
        "group.consumer.min.session.timeout.ms": "1",
        "group.consumer.min.heartbeat.interval.ms": "1",
    }
    refusal = refuse_group_overrides(load_settings(wide), {SESSION: "5000"})
    assert refusal == f"{SESSION} must be greater than {HEARTBEAT}"
    assert refuse_group_overrides(load_settings(wide), {SESSION: "5001"}) is None


def test_share_and_streams_properties_are_rejected_without_effect() -> None:
    settings = load_settings()
    assert refuse_group_overrides(settings, {"share.session.timeout.ms": "1"}) == (
        "Configuration share.session.timeout.ms has no effect on this broker"
    )
    assert refuse_group_overrides(settings, {"consumer.sesion": "1"}) == (
        "Unknown group config name: consumer.sesion"
    )


def test_each_property_of_a_group_is_described() -> None:
    described = describe_group(load_settings(), {SESSION: "50000"})
    assert {it.name: it.value for it in described} == {
        ASSIGNMENT: "1000",
        HEARTBEAT: "5000",
        SESSION: "50000",
    }


def test_properties_apply_only_to_their_group() -> None:
    configurations = {
        (GROUP_RESOURCE, "fleet"): {SESSION: "50000"},
        (TOPIC_RESOURCE, "fleet"): {"retention.ms": "1"},
    }
    of_all = consumer_group_settings(load_settings(), configurations)
    assert of_all.of("fleet").session_timeout_ms == 50_000
    assert of_all.of("fleet").heartbeat_interval_ms == 5_000
    assert of_all.of("others") is of_all
