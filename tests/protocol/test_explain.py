"""Explanations of frames, positions of faults, and agreement of tracing parser and codec."""

from __future__ import annotations

import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker_protocol import explain, frame
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import MalformedMessage, decode, encode, reader_of
from pykbroker_protocol.explain import (
    explain_message,
    explain_record,
    explain_request,
    explain_response,
    first_fault,
)
from pykbroker_protocol.message import Message
from pykbroker_protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from pykbroker_protocol.messages.fetch import FetchRequest
from pykbroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pykbroker_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from pykbroker_protocol.metadata.topics import RemoveTopicRecord, TopicRecord
from pykbroker_protocol.tracing_parser import Mismatch, TracingStream, parse_message
from tests.protocol.golden import GOLDEN, Golden
from tests.protocol.random_messages import DECLARED, random_message, versions_of

if TYPE_CHECKING:
    from collections.abc import Iterable

EVERYTHING = 1_000_000


def same(described: Any, decoded: Any) -> bool:
    """Returns whether a container of the parser equals a message of the codec."""
    if isinstance(decoded, Message) and not isinstance(described, Message):
        fields = set(described) - {"unknown_tags"}
        return (
            fields == set(decoded.defaults)
            and described["unknown_tags"] == decoded.unknown_tags
            and all(same(described[name], getattr(decoded, name)) for name in fields)
        )
    if isinstance(decoded, list | tuple) and isinstance(described, list | tuple):
        return len(decoded) == len(described) and all(map(same, described, decoded))
    return bool(described == decoded)


def assert_parser_and_codec_agree(
    message: type[Message], version: int, data: bytes, position: int
) -> None:
    stream = TracingStream(data, position, fields_max=EVERYTHING)
    decoded, end = reader_of(message, version)(data, position)
    assert same(parse_message(message, version, stream), decoded)
    assert stream.position == end


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda it: it.name)
def test_the_tracing_parser_and_the_codec_decode_a_real_frame_equally(golden: Golden) -> None:
    data, message, version = golden.read(), golden.message, golden.version
    if golden.is_request:
        body = frame.body_position(frame.read_request_header(data), data, message)
        explained = explain_request(data)
    else:
        _, body = frame.read_response_header(data, message, version)
        explained = explain_response(data, message.api, version)
    assert_parser_and_codec_agree(message, version, data, body)
    assert explained.title == f"{message.__name__} version {version}"
    assert explained.fault is None
    assert positions(explained.lines) == sorted(positions(explained.lines))


@pytest.mark.parametrize("message", DECLARED, ids=lambda it: it.__name__)
def test_the_tracing_parser_and_the_codec_decode_random_messages_equally(
    message: type[Message],
) -> None:
    for version in versions_of(message):
        data = encode(random_message(message, version, Random(version)), version)
        assert_parser_and_codec_agree(message, version, b"abc" + data, 3)


@pytest.mark.parametrize("message", DECLARED, ids=lambda it: it.__name__)
def test_the_tracing_parser_rejects_the_bytes_that_the_codec_rejects(
    message: type[Message],
) -> None:
    random = Random(message.__name__)
    for version in versions_of(message):
        whole = encode(random_message(message, version, random), version)
        for _ in range(8):
            data = bytearray(whole[: random.randint(0, len(whole))] or b"\xff")
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
            assert codec_accepts(message, version, data) == parser_accepts(message, version, data)


def codec_accepts(message: type[Message], version: int, data: bytearray) -> bool:
    try:
        decode(message, version, data)
    except MalformedMessage:
        return False
    return True


def parser_accepts(message: type[Message], version: int, data: bytearray) -> bool:
    try:
        parse_message(message, version, TracingStream(data, fields_max=EVERYTHING))
    except Mismatch:
        return False
    return True


def positions(lines: Iterable[str]) -> list[int]:
    return [int(line.split()[0].removeprefix("@")) for line in lines]


def a_request(message: Message, version: int) -> bytes:
    return b"".join(frame.write_request(message, version, 7, "driver"))


METADATA = a_request(MetadataRequest(topics=[MetadataRequestTopic(name="trucks")]), 12)


def test_an_explanation_has_one_line_per_field() -> None:
    assert str(explain_request(METADATA)).splitlines() == [
        "MetadataRequest version 12",
        "@0 request_api_key: 3 (METADATA)",
        "@2 request_api_version: 12",
        "@4 correlation_id: 7",
        "@8 client_id: 'driver'",
        "@17 topics: 1 element",
        "@18 topics[0].topic_id: AAAAAAAAAAAAAAAAAAAAAA",
        "@34 topics[0].name: 'trucks'",
        "@42 allow_auto_topic_creation: True",
        "@43 include_topic_authorized_operations: False",
    ]


def test_unknown_tags_and_bytes_after_the_message_are_shown() -> None:
    tagged = MetadataRequest(topics=None).replace(unknown_tags=((9, b"nine"),))
    lines = explain_request(a_request(tagged, 12) + b"??").lines
    assert lines[-2:] == (
        "@21 tag 9: 4 bytes: 6e 69 6e 65",
        "@27 (after the message, ignored): 2 bytes: 3f 3f",
    )


FAULTS = [
    (b"", "request_api_key at byte 0: expected int16 in 2 bytes, found 0 to the end"),
    (b"\0\x63\0\0", "api at byte 0: expected a known number, found 99"),
    (b"\0\x03\0\x63", "version at byte 0: expected one of 0-13, found 99"),
    (METADATA[:12], "client_id at byte 10: expected 6 bytes of string, found 2 to the end"),
    (METADATA[:16], "byte 16: expected the number of tagged fields, found 0 to the end"),
    (METADATA[:16] + b"\0\x81", "topics at byte 18: expected a length, found 0 to the end"),
    (METADATA[:16] + b"\0\x09ab", "topics at byte 17: expected 8 elements, found 2 bytes"),
    (METADATA[:37], "topics[0].name at byte 35: expected 6 bytes of string, found 2 to the end"),
    (
        METADATA.replace(b"trucks", b"tr\xffcks"),
        "topics[0].name at byte 37: expected text in UTF-8",
    ),
    (METADATA[:-1] + b"\xff" * 6, "byte 44: expected the number of tagged fields, found a varint"),
    (METADATA[:-1] + b"\xff\x7f", "byte 44: expected at most 10000 tagged fields, found 16383"),
    (METADATA[:-1] + b"\1\5\x09abc", "byte 47: expected 9 bytes of tag 5, found 3 to the end"),
]


@pytest.mark.parametrize(("data", "fault"), FAULTS, ids=[it[1] for it in FAULTS])
def test_a_fault_has_path_and_position(data: bytes, fault: str) -> None:
    line = first_fault(data, "error of the decoder")
    assert fault in line
    assert "error of the decoder" not in line
    assert len(line) <= explain.FAULT_TEXT_MAX
    assert str(explain_request(data)).splitlines()[-1].startswith(f"MALFORMED {fault}")


def test_the_bytes_around_a_fault_are_shown() -> None:
    fault = explain_request(METADATA[:37]).fault
    assert fault is not None
    assert fault.excerpt == "00 00 00 00 00 00 00 07 > 74 72"


def test_a_tagged_field_with_a_wrong_size_is_reported() -> None:
    data = a_request(FetchRequest(cluster_id="c", max_wait_ms=1, min_bytes=1, topics=()), 12)
    data = data.replace(b"\x01\x00\x02\x02c", b"\x01\x00\x03\x02cc")
    fault = "cluster_id at byte 48: expected a tagged field of 3 bytes, found 2 bytes"
    assert fault in first_fault(data)
    with pytest.raises(MalformedMessage, match="cluster_id: size of the tagged field"):
        decode(FetchRequest, 12, data, 17)


def test_a_record_of_the_metadata_log_is_explained() -> None:
    body = encode(TopicRecord(name="trucks", topic_id=bytes(range(16))), 0)
    assert str(explain_record(b"\1\2\0" + body)).splitlines() == [
        "TopicRecord version 0",
        "@0 frame_version: 1",
        "@1 record_type: 2",
        "@2 record_version: 0",
        "@3 name: 'trucks'",
        "@10 topic_id: AAECAwQFBgcICQoLDA0ODw",
    ]
    assert "frame version 1, found 2" in str(explain_record(b"\2\2\0" + body))
    assert "a known number, found 99" in str(explain_record(b"\1\x63\0" + body))


def test_credentials_are_not_shown() -> None:
    request = a_request(SaslAuthenticateRequest(auth_bytes=b"\0driver\0geheim"), 2)
    config = AlterableConfig(name="listener.ssl.keystore.password", value="geheim")
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])
    configs = a_request(AlterConfigsRequest(resources=[resource], validate_only=False), 2)
    for whole in (request, configs):
        for data in (whole, whole[:-2], whole[:-4]):
            for text in (str(explain_request(data)), first_fault(data)):
                assert "geheim" not in text
                assert b"geh".hex(" ") not in text
    assert "auth_bytes: (not shown)" in str(explain_request(request))


def test_an_explanation_ends_at_the_maximum_number_of_fields() -> None:
    topics = [MetadataRequestTopic(name=f"t{index}") for index in range(2_000)]
    data = a_request(MetadataRequest(topics=topics), 12)
    explained = explain_request(data, fields_max=100)
    assert not explained.is_whole
    assert len(explained.lines) <= 101
    assert str(explained).endswith("… further fields not shown")
    line = first_fault(data[:-1], "too short")
    assert line == "MetadataRequest version 12: too short (not in the first 5000 fields)"


def test_a_message_at_a_position_is_explained() -> None:
    explained = explain_message(
        RemoveTopicRecord, 0, b"??" + encode(RemoveTopicRecord(topic_id=bytes(16)), 0), 2
    )
    assert explained.lines[0] == "@2 topic_id: AAAAAAAAAAAAAAAAAAAAAA"


def test_explaining_random_bytes_does_not_raise() -> None:
    random = Random(1)
    for _ in range(500):
        key = random.choice([*ApiKey, 500, -1])
        head = key.to_bytes(2, signed=True) + random.randrange(14).to_bytes(2)
        data = random.choice((b"", head)) + random.randbytes(random.randrange(80))
        assert len(first_fault(data)) <= explain.FAULT_TEXT_MAX
        explain_response(data, key, random.randrange(14))
        explain_record(data)


def test_declared_headers_equal_those_of_the_frame_reader() -> None:
    for version in (11, 12):
        data = a_request(MetadataRequest(topics=()), version)
        header = frame.read_request_header(data)
        declared = decode(explain.RequestHeader, 1 + (version == 12), data)
        names = ("request_api_key", "request_api_version", "correlation_id", "client_id")
        assert header[:4] == tuple(getattr(declared, name) for name in names)


def test_the_codec_does_not_import_construct() -> None:
    script = (
        "import sys\n"
        "from pykbroker_protocol.catalog import request_of\n"
        "from pykbroker_protocol.compiler import reader_of\n"
        "from pykbroker_protocol.frame import write_response\n"
        "reader_of(request_of(3), 12)\n"
        "assert 'construct' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
