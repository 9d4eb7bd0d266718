"""The command `produce`: writes records to a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.failure import CannotBegin
from pykbroker.cli.output import Progress, counted, print_json
from pykbroker.cli.record_lines import InvalidLine, argument_bytes, line_reader
from pykbroker.cli.standard_input import line_groups
from pykbroker.client.producer import ACKS_ALL, ACKS_NONE, UNKNOWN_OFFSET, Delivery, Producer
from pykbroker_protocol.records.compression import Compression

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import AsyncIterator, Callable, Iterable

    from pykbroker.client.cluster_client import ClusterClient
    from pykbroker.client.producer import NewRecord, Written

ACKS = {"0": ACKS_NONE, "1": 1, "all": ACKS_ALL}


@cluster_command
async def produce(options: Namespace, client: ClusterClient) -> None:
    if options.values and options.json_lines:
        raise CannotBegin("--json-lines cannot be combined with VALUE arguments")
    read = line_reader(options)
    producer = await Producer.open(client, options.topic, delivery_of(options))
    progress = Progress("record")
    count = 0
    try:
        async for lines in lines_of(options):
            records, invalid = read_valid(read, lines)
            await producer.write(records)
            count += len(records)
            if invalid is not None:
                raise InvalidLine(f"line {count + 1}: {invalid}")
            progress.show(count)
        await producer.flush()
    finally:
        progress.clear()
    report(options, producer.written)


def delivery_of(options: Namespace) -> Delivery:
    acks = ACKS[options.acks]
    return Delivery(
        acks=acks,
        compression=Compression[options.compression.upper()],
        batch_bytes=options.batch_bytes,
        is_idempotent=acks == ACKS_ALL and not options.no_idempotence,
    )


async def lines_of(options: Namespace) -> AsyncIterator[list[bytes]]:
    """Yields the values of the command line, or the lines of standard input."""
    if options.values:
        yield [argument_bytes(value) for value in options.values]
        return
    async for lines in line_groups():
        yield lines


def read_valid(
    read: Callable[[bytes], NewRecord], lines: Iterable[bytes]
) -> tuple[list[NewRecord], InvalidLine | None]:
    """Returns the records before the first invalid line, and its error."""
    records = []
    for line in lines:
        try:
            records.append(read(line))
        except InvalidLine as invalid:
            return records, invalid
    return records, None


def report(options: Namespace, written: dict[int, Written]) -> None:
    partitions = sorted(written.items())
    total = sum(it.records for it in written.values())
    if options.json:
        print_json(
            {
                "topic": options.topic,
                "records": total,
                "partitions": [partition_document(*it) for it in partitions],
            }
        )
        return
    offsets = ", ".join(partition_text(*it) for it in partitions)
    print(f"{options.topic}: {counted(total, 'record')} written{f', {offsets}' if offsets else ''}")


def partition_document(partition: int, written: Written) -> dict[str, Any]:
    def known(offset: int) -> int | None:
        return None if offset == UNKNOWN_OFFSET else offset

    return {
        "partition": partition,
        "records": written.records,
        "first_offset": known(written.first_offset),
        "last_offset": known(written.last_offset),
    }


def partition_text(partition: int, written: Written) -> str:
    if written.first_offset == UNKNOWN_OFFSET:
        return f"partition {partition}"
    if written.first_offset == written.last_offset:
        return f"partition {partition} offset {written.first_offset}"
    return f"partition {partition} offsets {written.first_offset} to {written.last_offset}"
