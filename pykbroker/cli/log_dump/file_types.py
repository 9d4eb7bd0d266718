"""Selects the explainer of a file by its name."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from pykbroker.cli.log_dump.batches import (
    explain_batches,
    explain_coordinator_record,
    explain_metadata_record,
    explain_plain_record,
)
from pykbroker.cli.log_dump.coordinator_records import RECORD_TYPES
from pykbroker.cli.log_dump.finding import Finding
from pykbroker.cli.log_dump.segment_files import (
    explain_aborted_transactions,
    explain_offset_index,
    explain_producer_snapshot,
    explain_time_index,
)
from pykbroker.cli.log_dump.text_files import (
    explain_json,
    explain_leader_epochs,
    explain_meta_properties,
    explain_offsets,
    explain_partition_metadata,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Explainer = Callable[[Path], Iterator[Finding]]

METADATA_TOPIC = "__cluster_metadata"
# Suffixes of files that are being deleted or replaced.
TEMPORARY_SUFFIXES = (".deleted", ".cleaned", ".swap")
METADATA_SNAPSHOT = re.compile(r"\d{20}-\d{10}\.checkpoint|bootstrap\.checkpoint")


def explain_lock(_: Path) -> Iterator[Finding]:
    yield Finding(kind="lock", text="a running broker locks this file")


SEGMENT_FILE = re.compile(r"\d{20}(\.\w+)")

BY_NAME: dict[str, tuple[str, Explainer]] = {
    "meta.properties": ("cluster, node and directory ids", explain_meta_properties),
    "partition.metadata": ("topic id", explain_partition_metadata),
    "leader-epoch-checkpoint": ("start offsets of leader epochs", explain_leader_epochs),
    "replication-offset-checkpoint": ("high watermarks", explain_offsets),
    "recovery-point-offset-checkpoint": ("recovery points", explain_offsets),
    "log-start-offset-checkpoint": ("log start offsets", explain_offsets),
    "cleaner-offset-checkpoint": ("compaction checkpoint", explain_offsets),
    "quorum-state": ("election state of this voter", explain_json),
    ".lock": ("lock", explain_lock),
    ".kafka_cleanshutdown": ("clean-shutdown file", explain_json),
}
BY_SUFFIX: dict[str, tuple[str, Explainer]] = {
    ".index": ("offset index", explain_offset_index),
    ".timeindex": ("time index", explain_time_index),
    ".txnindex": ("transaction index", explain_aborted_transactions),
    ".snapshot": ("producer snapshot", explain_producer_snapshot),
}


def explain(path: Path, *, with_records: bool) -> tuple[str, Iterator[Finding]]:
    """Returns the name of the file type and the findings."""
    name = final_name(path)
    segment = SEGMENT_FILE.fullmatch(name)
    suffix = segment[1] if segment else ""
    if METADATA_SNAPSHOT.fullmatch(name):
        return "metadata snapshot", explain_batches(
            path, explain_metadata_record, with_records=True
        )
    if suffix == ".log":
        return explain_segment(path, with_records=with_records)
    kind, explainer = BY_NAME.get(name) or BY_SUFFIX.get(suffix) or ("unknown", explain_unknown)
    return kind, explainer(path)


def explain_segment(path: Path, *, with_records: bool) -> tuple[str, Iterator[Finding]]:
    """Explains a log segment; the topic in its path selects the decoder of the records."""
    topic = path.absolute().parent.name.rpartition("-")[0]
    if topic == METADATA_TOPIC:
        return "metadata log", explain_batches(path, explain_metadata_record, with_records=True)
    types = RECORD_TYPES.get(topic)
    if types is not None:
        explain_record = partial(explain_coordinator_record, types)
        return "coordinator log", explain_batches(path, explain_record, with_records=with_records)
    return "log segment", explain_batches(path, explain_plain_record, with_records=with_records)


def final_name(path: Path) -> str:
    name = path.name
    for suffix in TEMPORARY_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def explain_unknown(_: Path) -> Iterator[Finding]:
    yield Finding(kind="unknown", text="file type is not supported")
