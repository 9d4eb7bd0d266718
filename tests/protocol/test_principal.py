"""Encoding and decoding of DefaultPrincipalData."""

import pytest

from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.principal import (
    ANONYMOUS,
    DefaultPrincipalData,
    encode_principal,
    read_principal,
)


def test_the_anonymous_principal_has_the_bytes_of_apache_kafka() -> None:
    assert encode_principal(ANONYMOUS) == b"\0\0\x05User\x0aANONYMOUS\0\0"


def test_a_principal_is_decoded_to_the_encoded_value() -> None:
    principal = DefaultPrincipalData(type="User", name="łucja", token_authenticated=True)
    assert read_principal(encode_principal(principal)) == principal


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\x01\x01\x01\0\0", b"\xff\xff\x01", b"\0\0\x09a"])
def test_invalid_bytes_are_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_principal(data)
