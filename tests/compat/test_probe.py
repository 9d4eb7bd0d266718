"""Comparison of two brokers: requests, normalized responses, allowed differences."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from compat.apache.apache_kafka import free_port
from compat.broker_process import BrokerProcess
from compat.command_line import USAGE_ERROR, main
from compat.probe.allowed import KNOWN_DIFFERENCES, Allowed, Difference, read_allowed, unused_places
from compat.probe.comparison import VERSION_RANGE, Comparison, compare, difference_lines
from compat.probe.normalized import differences, normalized
from compat.probe.probe_requests import RequestTargets, probe_requests
from compat.suite.brokers import addresses_in
from pykbroker import Broker
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.catalog import request_of
from pykbroker_protocol.compiler import encode
from pykbroker_protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesResponse,
)
from pykbroker_protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGETS = RequestTargets(topic="t", topic_id=bytes(range(16)), group="g", new_name="n")


def test_differences_are_reported_at_the_innermost_field() -> None:
    left = {"topics": [{"name": "t", "error": "NONE"}], "node": 1}
    right = {"topics": [{"name": "t", "error": "UNKNOWN"}], "node": 1}
    assert list(differences("", left, right)) == [("topics[].error", "NONE", "UNKNOWN")]
    assert not list(differences("", left, left))


def test_normalized_responses_have_no_ids_and_sorted_lists() -> None:
    topics = [MetadataResponseTopic(error_code=3, name=it, partitions=()) for it in ("b", "a")]
    response = normalized(MetadataResponse(brokers=(), topics=topics, cluster_id="its own"), {})
    assert [it["name"] for it in response["topics"]] == ["a", "b"]
    assert response["topics"][0]["error_code"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert response["topics"][0]["topic_id"] == "no id"
    assert "cluster_id" not in response


@pytest.mark.parametrize("key", [it for it in ApiKey if request_of(it) is not None])
def test_every_request_can_be_encoded_in_its_version(key: ApiKey) -> None:
    request = request_of(key)
    assert request is not None
    for version in range(request.versions.first, request.versions.last + 1):
        for probe in probe_requests(request, version, TARGETS):
            assert encode(probe.request, version) is not None, probe.note


def test_difference_of_lists_contains_only_unmatched_elements() -> None:
    assert list(differences("it", ["a", "a", "b"], ["a", "c"])) == [("it", ["a", "b"], ["c"])]


def test_path_contains_names_of_properties_and_features() -> None:
    left, right = ([{"name": "retention.ms", "config_source": it}] for it in (5, 3))
    assert list(differences("it", left, right)) == [("it[retention.ms].config_source", 5, 3)]


def test_resources_of_the_same_name_are_sorted_by_type() -> None:
    kinds = [ConfigResource(resource_name="1", resource_type=it) for it in (8, 4)]
    response = normalized(ListConfigResourcesResponse(error_code=0, config_resources=kinds), {})
    assert [it["resource_type"] for it in response["config_resources"]] == [4, 8]


def test_allowed_difference_covers_only_its_places() -> None:
    difference = Difference("FETCH", "topics=[]", "responses[].error_code", "NONE", "OTHER")
    assert Allowed(("FETCH [topics=[]] responses[].*",)).covers(difference)
    assert not Allowed(("FETCH [topics=[]] responses[]",)).covers(difference)
    assert not Allowed(("FETCH [topics=.] responses[].*",)).covers(difference)
    compared = Comparison()
    compared.differences_found[difference].append(4)
    assert not compared.unexpected([Allowed(("FETCH *",))])
    (line,) = difference_lines(compared.unexpected([]))
    assert line == "FETCH [topics=[]] responses[].error_code, v4: 'NONE' | 'OTHER'"


def test_allowed_place_without_a_difference_is_reported() -> None:
    difference = Difference("FETCH", "", "topics", 1, 2)
    rules = [Allowed(("FETCH topics", "FETCH responses"))]
    assert list(unused_places(rules, [difference])) == ["FETCH responses"]
    assert not list(unused_places([it._replace(thorough=True) for it in rules], [difference]))


def test_long_values_are_shortened() -> None:
    compared = Comparison()
    compared.differences_found[Difference("METADATA", "", "topics", "x" * 50_000, "")].append(1)
    (line,) = difference_lines(compared.differences_found)
    assert len(line) < 300
    assert "50002 characters" in line


def test_allowed_difference_names_an_existing_section_or_is_broker_specific() -> None:
    sections = KNOWN_DIFFERENCES.read_text().splitlines()
    for rule in read_allowed():
        assert bool(rule.section) != bool(rule.own), rule
        assert rule.own or f"## {rule.section}" in sections, rule


def test_allowed_place_names_an_api_and_a_field() -> None:
    apis = {it.name for it in ApiKey}
    for place in (place for rule in read_allowed() for place in rule.places):
        assert re.split(r"[ *]", place)[0] in apis, place
        assert not place.endswith((" *", "]*")), place


@pytest.fixture
def two_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerProcess]]:
    directory = tmp_path_factory.mktemp("two")
    with BrokerProcess(directory / "one") as one, BrokerProcess(directory / "other") as other:
        yield [one, other]


def test_older_broker_is_compared_in_shared_versions_and_ranges_are_reported() -> None:
    with Broker() as left, Broker(as_version="2.7") as right:
        compared = compare(_address(left), _address(right), apis=["metadata", "listoffsets"])
    ranges = {
        it.api: (it.left, it.right) for it in compared.differences_found if it.path == VERSION_RANGE
    }
    assert ranges == {"METADATA": ("0-13", "0-9"), "LIST_OFFSETS": ("1-11", "1-5")}
    assert compared.requests > 60


def test_unreachable_broker_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    assert main(["diff", "--left", address, "--right", address]) == USAGE_ERROR
    assert address in capsys.readouterr().err


def test_brokers_of_the_same_version_do_not_differ(
    two_brokers: list[BrokerProcess],
) -> None:
    left, right = (("127.0.0.1", it.port) for it in two_brokers)
    compared = compare(left, right, apis=["metadata", "fetch", "produce", "describe*"])
    assert compared.requests > 200
    assert not list(difference_lines(compared.differences_found))


def _address(broker: Broker) -> tuple[str, int]:
    return addresses_in(broker.bootstrap)[0]
