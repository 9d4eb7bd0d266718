"""Batches of the Java client 4.3.1 are decoded and, without compression, built identically."""

from base64 import b64decode

import pytest

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.compression import Compression
from pykbroker_protocol.records.contents import validate_contents
from pykbroker_protocol.records.control import EndTransactionMarker, marker_batch
from pykbroker_protocol.records.record import Record

NOW = 1_700_000_000_000
RECORDS = [
    Record(offset=0, timestamp=NOW, key=b"truck-1", value=b"53.55,9.99"),
    Record(offset=1, timestamp=NOW + 7, key=None, value=b"x" * 70_000),
    Record(offset=2, timestamp=NOW - 5, key=b"", value=None, headers=(("a", b"1"), ("b", None))),
    Record(offset=3, timestamp=NOW, key=b"k" * 200, value=b"", headers=(("\u00fc", b""),)),
]
JAVA_BATCHES = {
    Compression.GZIP: (
        "AAAAAAAAAAAAAADj/////wLMMyGMAAEAAAADAAABi8/laAAAAAGLz+VoBwAAAAAAAAAMAAEAAAAFAAAA"
        "BB+LCAAAAAAAAP/twbEJwkAUANCfyyGxSWXlDHoQwhUZRy3TiYJjOIVT2En2cARHcAkree+ViOgv5+tp"
        "3g+bOpZad1OZpvgsXfSpeS/dDQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAD4udjGOkeT0yEN6dg82ojVvZ3/RKT8esYXH6qU53YSAQA="
    ),
    Compression.LZ4: (
        "AAAAAAAAAAAAAAGr/////wKx7aZHAAMAAAADAAABi8/laAAAAAGLz+VoBwAAAAAAAAAMAAEAAAAFAAAA"
        "BAQiTRhgQIIuAQAA/xQuAAAADnRydWNrLTEUNTMuNTUsOS45OQDwxQgADgIB4MUIeAEA////////////"
        "////////////////////////////////////////////////////////////////////////////////"
        "////////////////////////////////////////////////////////////////////////////////"
        "////////////////////////////////////////////////////////////////////////////////"
        "////////////////////////////////////////////////////////////////////////////////"
        "/////////8VQeHh4eHg5AAAAH3gBAP//////////////////////j/8IABoACQQAAQQCYQIxAmIBpgMA"
        "AAaQA2sBALRgAAIEw7wAAAAAAA=="
    ),
    Compression.ZSTD: (
        "AAAAAAAAAAAAAACJ/////wIs3sJKAAQAAAADAAABi8/laAAAAAGLz+VoBwAAAAAAAAAMAAEAAAAFAAAA"
        "BCi1L/0AWGQCAAQELgAAAA50cnVjay0xFDUzLjU1LDkuOTkA8MUIAA4CAeDFCHgAGgAJBAABBAJhAjEC"
        "YgGmAwAABpADawACBMO8AAIAiYBqY4vIwRMBAAA="
    ),
}
JAVA_COMMIT = bytes.fromhex(
    "0000000000000032000000420000000302a1cfdd4a00300000000000000000000003e80000000000"
    "0003e800000000000000090002ffffffff000000012000000008000000010c00000000002a00"
)


@pytest.mark.parametrize("compression", JAVA_BATCHES)
def test_batches_of_the_java_client_are_decoded(compression: Compression) -> None:
    batch = RecordBatch.parse(b64decode(JAVA_BATCHES[compression]))
    assert batch.is_crc_valid()
    assert batch.compression is compression
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (12, 1, 5)
    assert batch.max_timestamp == NOW + 7
    assert list(batch.records()) == RECORDS
    validate_contents(batch)


def test_commit_markers_equal_those_of_java() -> None:
    marker = EndTransactionMarker(is_commit=True, coordinator_epoch=42)
    built = marker_batch(
        marker,
        producer_id=9,
        producer_epoch=2,
        timestamp_ms=1000,
        base_offset=50,
        partition_leader_epoch=3,
    )
    assert built == JAVA_COMMIT
