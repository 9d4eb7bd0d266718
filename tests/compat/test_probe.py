"""Two brokers are asked the same: what a comparison finds, and that one kind does not differ."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from compat.apache.apache_kafka import free_port
from compat.broker_process import BrokerProcess
from compat.command_line import WRONG_USE, main
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


def test_the_innermost_places_at_which_answers_part_are_told() -> None:
    left = {"topics": [{"name": "t", "error": "NONE"}], "node": 1}
    right = {"topics": [{"name": "t", "error": "UNKNOWN"}], "node": 1}
    assert list(differences("", left, right)) == [("topics[].error", "NONE", "UNKNOWN")]
    assert not list(differences("", left, left))


def test_ids_are_words_and_lists_have_an_order_in_plain_answers() -> None:
    topics = [MetadataResponseTopic(error_code=3, name=it, partitions=()) for it in ("b", "a")]
    told = normalized(MetadataResponse(brokers=(), topics=topics, cluster_id="its own"), {})
    assert [it["name"] for it in told["topics"]] == ["a", "b"]
    assert told["topics"][0]["error_code"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert told["topics"][0]["topic_id"] == "no id"
    assert "cluster_id" not in told


@pytest.mark.parametrize("key", [it for it in ApiKey if request_of(it) is not None])
def test_every_question_can_be_written_in_its_version(key: ApiKey) -> None:
    request = request_of(key)
    assert request is not None
    for version in range(request.versions.first, request.versions.last + 1):
        for probe in probe_requests(request, version, TARGETS):
            assert encode(probe.request, version) is not None, probe.note


def test_of_lists_that_are_not_alike_what_one_side_has_alone_is_told() -> None:
    assert list(differences("it", ["a", "a", "b"], ["a", "c"])) == [("it", ["a", "b"], ["c"])]


def test_properties_and_features_are_called_by_their_names() -> None:
    left, right = ([{"name": "retention.ms", "config_source": it}] for it in (5, 3))
    assert list(differences("it", left, right)) == [("it[retention.ms].config_source", 5, 3)]


def test_resources_of_one_name_have_an_order_in_plain_answers() -> None:
    kinds = [ConfigResource(resource_name="1", resource_type=it) for it in (8, 4)]
    told = normalized(ListConfigResourcesResponse(error_code=0, config_resources=kinds), {})
    assert [it["resource_type"] for it in told["config_resources"]] == [4, 8]


def test_what_is_allowed_covers_its_places_and_no_more() -> None:
    difference = Difference("FETCH", "topics=[]", "responses[].error_code", "NONE", "OTHER")
    assert Allowed(("FETCH [topics=[]] responses[].*",)).covers(difference)
    assert not Allowed(("FETCH [topics=[]] responses[]",)).covers(difference)
    assert not Allowed(("FETCH [topics=.] responses[].*",)).covers(difference)
    compared = Comparison()
    compared.differences_found[difference].append(4)
    assert not compared.unexpected([Allowed(("FETCH *",))])
    (line,) = difference_lines(compared.unexpected([]))
    assert line == "FETCH [topics=[]] responses[].error_code, v4: 'NONE' | 'OTHER'"


def test_a_place_that_excuses_nothing_is_told() -> None:
    difference = Difference("FETCH", "", "topics", 1, 2)
    rules = [Allowed(("FETCH topics", "FETCH responses"))]
    assert list(unused_places(rules, [difference])) == ["FETCH responses"]
    assert not list(unused_places([it._replace(thorough=True) for it in rules], [difference]))


def test_a_line_is_no_longer_than_one_can_read() -> None:
    compared = Comparison()
    compared.differences_found[Difference("METADATA", "", "topics", "x" * 50_000, "")].append(1)
    (line,) = difference_lines(compared.differences_found)
    assert len(line) < 300
    assert "50002 characters" in line


def test_every_difference_that_is_allowed_is_told_or_each_brokers_own() -> None:
    sections = KNOWN_DIFFERENCES.read_text().splitlines()
    for rule in read_allowed():
        assert bool(rule.section) != bool(rule.own), rule
        assert rule.own or f"## {rule.section}" in sections, rule


def test_every_place_names_an_api_and_a_field() -> None:
    apis = {it.name for it in ApiKey}
    for place in (place for rule in read_allowed() for place in rule.places):
        assert re.split(r"[ *]", place)[0] in apis, place
        assert not place.endswith((" *", "]*")), place


@pytest.fixture
def two_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerProcess]]:
    directory = tmp_path_factory.mktemp("two")
    with BrokerProcess(directory / "one") as one, BrokerProcess(directory / "other") as other:
        yield [one, other]


def test_ranges_that_differ_are_told_and_an_older_broker_is_asked_what_it_serves() -> None:
    with Broker() as left, Broker(as_version="2.7") as right:
        told = compare(_address(left), _address(right), apis=["metadata", "listoffsets"])
    ranges = {
        it.api: (it.left, it.right) for it in told.differences_found if it.path == VERSION_RANGE
    }
    assert ranges == {"METADATA": ("0-13", "0-9"), "LIST_OFFSETS": ("1-11", "1-5")}
    assert told.questions > 60


def test_who_cannot_be_reached_is_told_as_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    assert main(["diff", "--left", nobody, "--right", nobody]) == WRONG_USE
    assert nobody in capsys.readouterr().err


def test_two_brokers_of_one_kind_do_not_differ(two_brokers: list[BrokerProcess]) -> None:
    left, right = (("127.0.0.1", it.port) for it in two_brokers)
    compared = compare(left, right, apis=["metadata", "fetch", "produce", "describe*"])
    assert compared.questions > 200
    assert not list(difference_lines(compared.differences_found))


def _address(broker: Broker) -> tuple[str, int]:
    return addresses_in(broker.bootstrap)[0]
