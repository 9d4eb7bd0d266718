"""The command `cluster describe`: shows brokers, quorum and partitions, once or repeatedly."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final

from pykbroker.address import Address
from pykbroker.cli.cluster.document import cluster_document
from pykbroker.cli.cluster.partition_reading import measure_lags, take_census
from pykbroker.cli.cluster.survey import read_members
from pykbroker.cli.cluster.text import cluster_text
from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.failure import raise_if_any
from pykbroker.cli.output import counted, print_json
from pykbroker.client.cluster_client import ClusterClient
from pykbroker.client.errors import ClientError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

HOME: Final = "\x1b[H"
CLEAR_LINE: Final = "\x1b[K"
CLEAR_REST: Final = "\x1b[J"


@cluster_command
async def describe(options: Namespace, client: ClusterClient) -> None:
    if options.watch:
        await watch(options, client)
        return
    errors: list[str] = []
    document = await read_cluster(options, client, errors)
    if options.json:
        print_json(document)
    else:
        print(cluster_text(document))
    raise_if_any(errors)


async def read_cluster(
    options: Namespace, client: ClusterClient, errors: list[str]
) -> dict[str, Any]:
    members = await read_members(client)
    census = await take_census(client, options.topics, options.shown_max, errors)
    lags = await measure_lags(client, members, census.unhealthy)
    return cluster_document(members, census, lags)


async def watch(options: Namespace, client: ClusterClient) -> None:
    """Shows the cluster until interrupted. After a failure, connects to the next known broker."""
    current = client
    addresses: list[Address] = list(client.bootstrap_addresses)
    try:
        while True:
            errors: list[str] = []
            document: dict[str, Any] | None = None
            try:
                document = await read_cluster(options, current, errors)
                addresses = known_addresses(document, client.bootstrap_addresses)
            except ClientError as failure:
                errors.append(str(failure))
                addresses = [*addresses[1:], addresses[0]]
                if current is not client:
                    await current.close()
                current = ClusterClient(addresses, client.options)
            show(options, document, errors)
            await asyncio.sleep(options.interval_seconds)
    finally:
        if current is not client:
            await current.close()


def known_addresses(document: dict[str, Any], bootstrap: Sequence[Address]) -> list[Address]:
    """Returns the brokers that respond, then the bootstrap brokers."""
    responding = [
        Address(it["host"], it["port"])
        for it in document["brokers"]
        if it["error"] is None and not it["fenced"]
    ]
    return list(dict.fromkeys((*responding, *bootstrap)))


def show(options: Namespace, document: dict[str, Any] | None, errors: list[str]) -> None:
    if options.json:
        if document is not None:
            print(json.dumps(document, ensure_ascii=False))
        print_errors(options, errors)
    elif sys.stdout.isatty():
        print(screen(page(document, errors), *reversed(get_terminal_size())), end="")
    else:
        print(f"time        {local_time()}")
        if document is not None:
            print(cluster_text(document))
        print()
        print_errors(options, errors)
    sys.stdout.flush()


def print_errors(options: Namespace, errors: list[str]) -> None:
    for error in errors:
        print(f"{options.command}: {error}", file=sys.stderr, flush=True)


def page(document: dict[str, Any] | None, errors: Sequence[str]) -> list[str]:
    text = cluster_text(document) if document is not None else ""
    return [f"time        {local_time()}", *errors, *text.splitlines()]


def screen(lines: Sequence[str], rows: int, columns: int) -> str:
    """Returns the control sequences that replace the content of a terminal by these lines."""
    shown = list(lines)
    if len(shown) > rows:
        hidden = counted(len(shown) - rows + 1, "line")
        shown[rows - 1 :] = [f"{hidden} not shown: the terminal has {rows} lines"]
    cut = (line[:columns] + CLEAR_LINE for line in shown)
    return HOME + "\r\n".join(cut) + CLEAR_REST


def local_time() -> str:
    return datetime.now(UTC).astimezone().isoformat(sep=" ", timespec="seconds")
