"""Explains the text files of a data directory: checkpoints, properties and JSON."""

from __future__ import annotations

import json
from functools import wraps
from typing import TYPE_CHECKING

from pykbroker.cli.log_dump.finding import Finding, corruption
from pykbroker.cli.output import uuid_text
from pykbroker_storage.checkpoint import (
    MalformedCheckpoint,
    MetaProperties,
    PartitionMetadata,
    decode_lines,
    decode_offsets,
    fields_of,
    number_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def from_file(read: Callable[[bytes], Iterator[Finding]]) -> Callable[[Path], Iterator[Finding]]:
    """Turns a reader of bytes into one of files; reports a malformed file as corrupt."""

    @wraps(read)
    def explain(path: Path) -> Iterator[Finding]:
        try:
            yield from read(path.read_bytes())
        except MalformedCheckpoint as reason:
            yield corruption(str(reason))

    return explain


@from_file
def explain_offsets(data: bytes) -> Iterator[Finding]:
    for (topic, partition), offset in sorted(decode_offsets(data).items()):
        document = {"topic": topic, "partition": partition, "offset": offset}
        yield Finding(kind="offset", text=f"{topic}-{partition} {offset}", document=document)


@from_file
def explain_leader_epochs(data: bytes) -> Iterator[Finding]:
    for number, line in decode_lines(data):
        epoch, offset = (number_in(field, number) for field in fields_of(line, number, 2))
        document = {"leader_epoch": epoch, "start_offset": offset}
        text = f"leader epoch {epoch} from offset {offset}"
        yield Finding(kind="leader epoch", text=text, document=document)


@from_file
def explain_meta_properties(data: bytes) -> Iterator[Finding]:
    found = MetaProperties.decode(data)
    document = {
        "cluster_id": found.cluster_id,
        "node_id": found.node_id,
        "directory_id": uuid_text(found.directory_id),
    }
    text = f"cluster {found.cluster_id}, node {found.node_id}, directory {document['directory_id']}"
    yield Finding(kind="directory", text=text, document=document)


@from_file
def explain_partition_metadata(data: bytes) -> Iterator[Finding]:
    topic_id = uuid_text(PartitionMetadata.decode(data).topic_id)
    yield Finding(kind="partition", text=f"topic id {topic_id}", document={"topic_id": topic_id})


@from_file
def explain_json(data: bytes) -> Iterator[Finding]:
    if not data:
        yield Finding(kind="content", text="empty", document={})
        return
    try:
        content = json.loads(data)
    except ValueError as reason:
        raise MalformedCheckpoint(f"invalid JSON: {reason}") from reason
    for name, value in content.items():
        text = f"{name} {json.dumps(value, ensure_ascii=False)}"
        yield Finding(kind="content", text=text, document={"name": name, "value": value})
