import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_protocol.records.varint import read_varint, read_varlong, write_varint


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (300, "d804"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_small_numbers_have_short_encodings(value: int, written: str) -> None:
    output = bytearray()
    write_varint(output, value)
    assert output.hex() == written
    assert read_varint(bytes(output), 0) == (value, len(output))


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_each_64_bit_integer_is_decoded_to_itself(value: int) -> None:
    output = bytearray(b"..")
    write_varint(output, value)
    assert read_varlong(bytes(output), 2) == (value, len(output))


@pytest.mark.parametrize("data", ["", "80", "ffffffff", "ffffffff1f", "8080808080", "ff" * 12])
def test_a_truncated_or_too_long_varint_is_corrupt(data: str) -> None:
    with pytest.raises(CorruptBatch):
        read_varint(bytes.fromhex(data), 0)


def test_a_long_of_more_than_64_bits_is_corrupt() -> None:
    with pytest.raises(CorruptBatch):
        read_varlong(bytes.fromhex("ff" * 9 + "02"), 0)
