"""Which kind of file a name stands for, and who explains it."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from pykbroker.cli.log_dump.batches import (
    explain_batches,
    explain_coordinated,
    explain_metadata,
    explain_plain,
)
from pykbroker.cli.log_dump.coordinators import RECORD_TYPES
from pykbroker.cli.log_dump.finding import Finding
from pykbroker.cli.log_dump.indexes import (
    explain_aborted_transactions,
    explain_offset_index,
    explain_time_index,
)
from pykbroker.cli.log_dump.producers import explain_producers
from pykbroker.cli.log_dump.texts import (
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
# Files on their way out or in keep their contents under a longer name.
PASSING_SUFFIXES = (".deleted", ".cleaned", ".swap")
SNAPSHOT_OF_METADATA = re.compile(r"\d{20}-\d{10}\.checkpoint|bootstrap\.checkpoint")


def explain_lock(_: Path) -> Iterator[Finding]:
    yield Finding(kind="lock", text="a running broker holds it locked")


# The files of a segment are named for its first offset.
OF_A_SEGMENT = re.compile(r"\d{20}(\.\w+)")

BY_NAME: dict[str, tuple[str, Explainer]] = {
    "meta.properties": ("what this directory belongs to", explain_meta_properties),
    "partition.metadata": ("which topic this partition is of", explain_partition_metadata),
    "leader-epoch-checkpoint": ("where each leader's time began", explain_leader_epochs),
    "replication-offset-checkpoint": ("high watermarks", explain_offsets),
    "recovery-point-offset-checkpoint": ("what is known to be on disk", explain_offsets),
    "log-start-offset-checkpoint": ("log starts", explain_offsets),
    "cleaner-offset-checkpoint": ("how far compaction has come", explain_offsets),
    "quorum-state": ("this voter's memory of elections", explain_json),
    ".lock": ("lock", explain_lock),
    ".kafka_cleanshutdown": ("mark of a clean end", explain_json),
}
BY_SUFFIX: dict[str, tuple[str, Explainer]] = {
    ".index": ("offset index", explain_offset_index),
    ".timeindex": ("time index", explain_time_index),
    ".txnindex": ("index of aborted transactions", explain_aborted_transactions),
    ".snapshot": ("snapshot of producers", explain_producers),
}


def explain(path: Path, *, with_records: bool) -> tuple[str, Iterator[Finding]]:
    """The kind of a file in words, and what is found in it."""
    name = settled_name(path)
    segment = OF_A_SEGMENT.fullmatch(name)
    suffix = segment[1] if segment else ""
    if SNAPSHOT_OF_METADATA.fullmatch(name):
        return "snapshot of the metadata", explain_batches(
            path, explain_metadata, with_records=True
        )
    if suffix == ".log":
        return explain_segment(path, with_records=with_records)
    kind, explainer = BY_NAME.get(name) or BY_SUFFIX.get(suffix) or ("unknown", explain_nothing)
    return kind, explainer(path)


def explain_segment(path: Path, *, with_records: bool) -> tuple[str, Iterator[Finding]]:
    """What the records of a log mean is told by the topic."""
    topic = path.absolute().parent.name.rpartition("-")[0]
    if topic == METADATA_TOPIC:
        return "metadata log", explain_batches(path, explain_metadata, with_records=True)
    types = RECORD_TYPES.get(topic)
    if types is not None:
        explain_record = partial(explain_coordinated, types)
        return "coordinator's log", explain_batches(path, explain_record, with_records=with_records)
    return "log segment", explain_batches(path, explain_plain, with_records=with_records)


def settled_name(path: Path) -> str:
    name = path.name
    for suffix in PASSING_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def explain_nothing(_: Path) -> Iterator[Finding]:
    yield Finding(kind="unknown", text="no kind of file that is explained here")
