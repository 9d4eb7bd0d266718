"""Explains the small text files of a data directory and its partitions."""

from __future__ import annotations

import json
from functools import wraps
from typing import TYPE_CHECKING

from pykbroker.cli.log_dump.finding import Finding, damage
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


def of_text(read: Callable[[bytes], Iterator[Finding]]) -> Callable[[Path], Iterator[Finding]]:
    """An explainer of whole files out of one of their bytes; a malformed file is damaged."""

    @wraps(read)
    def explain(path: Path) -> Iterator[Finding]:
        try:
            yield from read(path.read_bytes())
        except MalformedCheckpoint as reason:
            yield damage(str(reason))

    return explain


@of_text
def explain_offsets(data: bytes) -> Iterator[Finding]:
    for (topic, partition), offset in sorted(decode_offsets(data).items()):
        document = {"topic": topic, "partition": partition, "offset": offset}
        yield Finding(kind="offset", text=f"{topic}-{partition} {offset}", document=document)


@of_text
def explain_leader_epochs(data: bytes) -> Iterator[Finding]:
    for number, line in decode_lines(data):
        epoch, offset = (number_in(field, number) for field in fields_of(line, number, 2))
        document = {"leader_epoch": epoch, "start_offset": offset}
        text = f"leader epoch {epoch} from offset {offset}"
        yield Finding(kind="leader epoch", text=text, document=document)


@of_text
def explain_meta_properties(data: bytes) -> Iterator[Finding]:
    found = MetaProperties.decode(data)
    document = {
        "cluster_id": found.cluster_id,
        "node_id": found.node_id,
        "directory_id": uuid_text(found.directory_id),
    }
    text = f"cluster {found.cluster_id}, node {found.node_id}, directory {document['directory_id']}"
    yield Finding(kind="directory", text=text, document=document)


@of_text
def explain_partition_metadata(data: bytes) -> Iterator[Finding]:
    topic_id = uuid_text(PartitionMetadata.decode(data).topic_id)
    yield Finding(kind="partition", text=f"topic id {topic_id}", document={"topic_id": topic_id})


@of_text
def explain_json(data: bytes) -> Iterator[Finding]:
    if not data:
        yield Finding(kind="content", text="empty", document={})
        return
    try:
        content = json.loads(data)
    except ValueError as reason:
        raise MalformedCheckpoint(f"it is not JSON: {reason}") from reason
    for name, value in content.items():
        text = f"{name} {json.dumps(value, ensure_ascii=False)}"
        yield Finding(kind="content", text=text, document={"name": name, "value": value})
