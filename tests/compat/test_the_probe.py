"""Two brokers are asked the same: what a comparison finds, and that one kind does not differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from compat.broker_process import BrokerProcess
from compat.probe.comparison import Allowed, Compared, Difference, compare, read_allowed, told_lines
from compat.probe.plain import differences, plain
from compat.probe.questions import World, questions
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.catalog import request_of
from pykbroker_protocol.compiler import encode
from pykbroker_protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

if TYPE_CHECKING:
    from collections.abc import Iterator

WORLD = World(topic="t", topic_id=bytes(range(16)), group="g", new_name="n")


def test_the_innermost_places_at_which_answers_part_are_told() -> None:
    left = {"topics": [{"name": "t", "error": "NONE"}], "node": 1}
    right = {"topics": [{"name": "t", "error": "UNKNOWN"}], "node": 1}
    assert list(differences("", left, right)) == [("topics[].error", "NONE", "UNKNOWN")]
    assert not list(differences("", left, left))


def test_ids_are_words_and_lists_have_an_order_in_plain_answers() -> None:
    topics = [MetadataResponseTopic(error_code=3, name=it, partitions=()) for it in ("b", "a")]
    told = plain(MetadataResponse(brokers=(), topics=topics, cluster_id="its own"), {})
    assert [it["name"] for it in told["topics"]] == ["a", "b"]
    assert told["topics"][0]["error_code"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert told["topics"][0]["topic_id"] == "no id"
    assert "cluster_id" not in told


@pytest.mark.parametrize("key", [it for it in ApiKey if request_of(it) is not None])
def test_every_question_can_be_written_in_its_version(key: ApiKey) -> None:
    request = request_of(key)
    assert request is not None
    for version in range(request.versions.first, request.versions.last + 1):
        for question in questions(request, version, WORLD):
            assert encode(question.request, version) is not None, question.note


def test_what_is_allowed_covers_what_its_patterns_say_and_no_more() -> None:
    difference = Difference("FETCH", "topics=[]", "responses[].error_code", "NONE", "OTHER")
    assert Allowed("FETCH", "*=[[]]", "*error_code", "a reason").covers(difference)
    assert not Allowed("FETCH", "*=[[]]", "topics", "a reason").covers(difference)
    compared = Compared()
    compared.unlike[difference].append(4)
    assert not compared.surprising([Allowed("FETCH", "*", "*", "a reason")])
    (line,) = told_lines(compared.surprising([]))
    assert line == "FETCH v4 [topics=[]] responses[].error_code: 'NONE' | 'OTHER'"


def test_every_difference_that_is_allowed_has_its_reason() -> None:
    assert all(it.reason for it in read_allowed())


@pytest.fixture
def two_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerProcess]]:
    directory = tmp_path_factory.mktemp("two")
    with BrokerProcess(directory / "one") as one, BrokerProcess(directory / "other") as other:
        yield [one, other]


def test_two_brokers_of_one_kind_do_not_differ(two_brokers: list[BrokerProcess]) -> None:
    left, right = (("127.0.0.1", it.port) for it in two_brokers)
    compared = compare(left, right, apis=["metadata", "fetch", "produce", "describe*"])
    assert compared.questions > 200
    assert not list(told_lines(compared.unlike))
