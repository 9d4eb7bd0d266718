"""The command `pipeline status`: progress and lag from checkpoints and end offsets."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pykbroker.cli.cluster_command import bootstrap_addresses, client_options
from pykbroker.cli.failure import CannotBegin, CommandFailed
from pykbroker.cli.output import print_json, table
from pykbroker.cli.pipeline.pipeline_file import base_directory, pipeline_of
from pykbroker.client.cluster_client import ClusterClient
from pykbroker.client.errors import ApiError, ClientError
from pykbroker.client.log_offsets import LATEST, log_offsets
from pykbroker.pipeline.checkpoint import position_of, stored_progress
from pykbroker.pipeline.locations import Locations
from pykbroker.pipeline.plan import queries_of
from pykbroker.pipeline.progress import bytes_text, records_between

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Mapping

    from pykbroker.pipeline.checkpoint import Files, Position
    from pykbroker.pipeline.declaration.values import Pipeline
    from pykbroker.pipeline.progress import Offsets, Progress

HEADINGS = ("QUERY", "BATCH", "LAG", "ROWS/S", "STATE", "WATERMARK", "LAST BATCH AT")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    query: str
    position: Position | None
    """None if the query has never run."""
    progress: Progress | None
    lag: Mapping[str, int] | None
    """Records after the last committed batch, by topic. None if no broker was reached."""


def status(options: Namespace) -> int:
    pipeline = pipeline_of(options)
    files = Locations(directory=base_directory(options)).local_files(pipeline.checkpoint)
    if files is None:
        raise CannotBegin(
            f"{pipeline.checkpoint} is not a local directory; "
            "see the output of `pipeline run` for the progress"
        )
    statuses = asyncio.run(statuses_of(pipeline, files, options.timeout_seconds))
    if options.json:
        print_json([asdict(it) for it in statuses])
    else:
        print(table(HEADINGS, map(row, statuses)))
    return 0


async def statuses_of(
    pipeline: Pipeline, files: Files, timeout_seconds: float
) -> list[QueryStatus]:
    positions = {query.name: position_of(files, query.name) for query in queries_of(pipeline)}
    topics = {topic for position in positions.values() if position for topic in position.offsets}
    ends = await ends_of(pipeline.bootstrap, sorted(topics), timeout_seconds)
    return [
        QueryStatus(
            query=name,
            position=position,
            progress=stored_progress(files, name),
            lag=lag_of(position, ends),
        )
        for name, position in positions.items()
    ]


def lag_of(position: Position | None, ends: Offsets | None) -> dict[str, int] | None:
    if position is None or position.committed is None or ends is None:
        return None
    known = {topic: ends[topic] for topic in position.offsets if topic in ends}
    return records_between(position.offsets, known)


async def ends_of(bootstrap: str, topics: Iterable[str], timeout_seconds: float) -> Offsets | None:
    """Returns the end offsets of partitions, or None if no broker responds."""
    try:
        client = await ClusterClient.connect(
            bootstrap_addresses(bootstrap), client_options(timeout_seconds)
        )
        try:
            return {topic: await ends_of_topic(client, topic) for topic in topics}
        finally:
            await client.close()
    except (ClientError, CommandFailed):
        return None


async def ends_of_topic(client: ClusterClient, name: str) -> dict[str, int]:
    """Returns an empty dict for a topic that no longer exists."""
    try:
        offsets = await log_offsets(client, await client.topic(name), LATEST)
    except ApiError:
        return {}
    return {str(partition): offset for partition, offset in offsets.items()}


def row(it: QueryStatus) -> tuple[object, ...]:
    progress, position = it.progress, it.position
    return (
        it.query,
        "never ran" if position is None else position.committed,
        None if it.lag is None else ", ".join(f"{name} {lag:,}" for name, lag in it.lag.items()),
        None if progress is None else f"{progress.rows_per_s:,.0f}",
        state_text(progress),
        position.watermark if position else None,
        None if progress is None else progress.at,
    )


def state_text(progress: Progress | None) -> str | None:
    if progress is None or not progress.state_bytes:
        return None
    return f"{progress.state_rows:,} rows {bytes_text(progress.state_bytes)}"
