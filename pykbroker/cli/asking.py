"""Gives a command its client: connects to the cluster before, disconnects after."""

from __future__ import annotations

import argparse
import asyncio
from functools import wraps
from typing import TYPE_CHECKING

from pykbroker.cli.client import Client
from pykbroker.cli.command_line.values import address
from pykbroker.cli.failure import CannotBegin

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Awaitable, Callable

    from pykbroker.address import Address

    Command = Callable[[Namespace], int]
    AskingCommand = Callable[[Namespace, Client], Awaitable[None]]


def asks_the_cluster(command: AskingCommand) -> Command:
    """Turn a coroutine that needs a client into a command."""

    async def with_client(options: Namespace) -> None:
        client = await Client.connect(bootstrap_addresses(options.bootstrap), options.timeout_s)
        try:
            await command(options, client)
        finally:
            await client.close()

    @wraps(command)
    def run(options: Namespace) -> int:
        asyncio.run(with_client(options))
        return 0

    return run


def bootstrap_addresses(text: str, option: str = "--bootstrap") -> list[Address]:
    try:
        return [address(part.strip()) for part in text.split(",")]
    except argparse.ArgumentTypeError as reason:
        raise CannotBegin(f"{option}: {reason}") from None
