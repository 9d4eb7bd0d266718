"""Writes archives like Spark does."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)


def write_offsets(
    archive: Path,
    *offsets_by_partition: tuple[int, Iterable[int]],
    day: str = "2026-11-18",
    name: str = "a",
) -> None:
    """Writes a file of topic `trucks` with values `PARTITION:OFFSET`."""
    write_records(
        archive,
        [
            (partition, offset, 1000 + offset, None, f"{partition}:{offset}".encode(), [])
            for partition, offsets in offsets_by_partition
            for offset in offsets
        ],
        day=day,
        name=name,
    )


def write_records(
    archive: Path, rows: Sequence[tuple[object, ...]], *, day: str = "2026-11-18", name: str = "a"
) -> None:
    """Writes rows of partition, offset, timestamp, key, value and headers."""
    directory = archive / "topic=trucks" / f"day={day}"
    directory.mkdir(parents=True, exist_ok=True)
    columns = [*zip(*rows, strict=True)]
    columns.insert(3, (0,) * len(rows))
    arrays = [pa.array(it, field.type) for it, field in zip(columns, SCHEMA, strict=True)]
    parquet.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), directory / f"{name}.parquet")
