import pytest

from pykbroker_storage.checkpoint import (
    MalformedCheckpoint,
    MetaProperties,
    PartitionMetadata,
    decode_offsets,
    encode_offsets,
)


def test_offset_checkpoints_have_kafkas_format() -> None:
    offsets = {("trucks", 0): 17, ("trucks", 10): 0, ("__consumer_offsets", 3): 2**40}
    stored = encode_offsets(offsets)
    assert stored == b"0\n3\ntrucks 0 17\ntrucks 10 0\n__consumer_offsets 3 1099511627776\n"
    assert decode_offsets(stored) == offsets
    assert decode_offsets(encode_offsets({})) == {}
    assert decode_offsets(b"") == {}  # as Kafka creates it


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"0\n", "missing"),
        (b"7\n0\n", "version 7"),
        (b"x\n0\n", "line 1: 'x' is not a number"),
        (b"0\n2\ntrucks 0 17\n", "expected 2 entries, found 1"),
        (b"0\n0\ntrucks 0 17\n", "expected 0 entries, found 1"),
        (b"0\n1\ntrucks 0\n", "line 3 has 2 fields, expected 3"),
        (b"0\n1\ntrucks 0 1 7\n", "line 3 has 4 fields, expected 3"),
        (b"0\n1\ntrucks zero 1\n", "line 3: 'zero' is not a number"),
        (b"0\n2\nt 0 1\nt 0 2\n", "line 4 repeats t-0"),
        (b"0\n1\n\xff\xff 0 1\n", "byte 4 is not valid UTF-8"),
        (b"0\n1\n" + bytes(20), "line 3 has 1 fields"),
    ],
)
def test_a_malformed_offset_checkpoint_reports_line_and_error(data: bytes, fault: str) -> None:
    with pytest.raises(MalformedCheckpoint, match=fault):
        decode_offsets(data)


def test_partition_metadata_has_kafkas_format() -> None:
    stored = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    metadata = PartitionMetadata(topic_id=bytes(15) + b"\1")
    assert metadata.encode() == stored
    assert PartitionMetadata.decode(stored) == metadata
    assert PartitionMetadata.decode(stored + b"\n") == metadata


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "version is missing"),
        (b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n", "version 1 is unknown"),
        (b"version: 0\n", "topic_id is missing"),
        (b"version: 0\ntopic_id: AAAA\n", "not a base64 id"),
        (b"version: 0\ntopic_id: \xc3\xbc\n", "not a base64 id"),
        (b"version 0\n", "line 1 does not contain ':'"),
    ],
)
def test_malformed_partition_metadata_raises(data: bytes, fault: str) -> None:
    with pytest.raises(MalformedCheckpoint, match=fault):
        PartitionMetadata.decode(data)


BY_JAVA = b"""\
#
#Wed Nov 18 14:19:27 UTC 2026
node.id=1
directory.id=lqzBOmu0Mg99CSvHdHX_dA
version=1
cluster.id=ours\\=mine
"""


def test_meta_properties_written_by_java_are_decoded() -> None:
    properties = MetaProperties.decode(BY_JAVA)
    assert properties.cluster_id == "ours=mine"
    assert properties.node_id == 1
    assert properties.directory_id.hex() == "96acc13a6bb4320f7d092bc77475ff74"
    assert MetaProperties.decode(properties.encode()) == properties


def test_meta_properties_are_encoded_like_javas() -> None:
    properties = MetaProperties(cluster_id="a:b", node_id=2, directory_id=bytes(16))
    assert properties.encode() == (
        b"version=1\ncluster.id=a\\:b\nnode.id=2\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\n"
    )


@pytest.mark.parametrize("name", [b"node.id", b"directory.id", b"version", b"cluster.id"])
def test_missing_meta_properties_are_named_in_the_error(name: bytes) -> None:
    with pytest.raises(MalformedCheckpoint, match=f"{name.decode()} is missing"):
        MetaProperties.decode(BY_JAVA.replace(name + b"=", b"x="))


@pytest.mark.parametrize(
    ("before", "after"), [(b"=1\n", b"=one\n"), (b"version=1", b"version=0"), (b"lqz", b"")]
)
def test_malformed_meta_properties_raise(before: bytes, after: bytes) -> None:
    with pytest.raises(MalformedCheckpoint):
        MetaProperties.decode(BY_JAVA.replace(before, after, 1))
