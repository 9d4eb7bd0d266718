"""Connects a command to a cluster and turns errors of the client into failures of the command."""

from __future__ import annotations

import argparse
import asyncio
from functools import wraps
from typing import TYPE_CHECKING, Final

from pykbroker.cli.command_line.values import address
from pykbroker.cli.failure import CannotBegin, CommandFailed
from pykbroker.client.cluster_client import ClusterClient
from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.client.errors import ApiError, ClientError, InvalidRequest, error_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Awaitable, Callable

    from pykbroker.address import Address

    Command = Callable[[Namespace], int]
    ClusterCommand = Callable[[Namespace, ClusterClient], Awaitable[None]]

CLIENT_ID: Final = "pykbroker-cli"


def cluster_command(command: ClusterCommand) -> Command:
    """Makes a command of a coroutine that needs a client."""

    async def run_with_client(options: Namespace) -> None:
        addresses = bootstrap_addresses(options.bootstrap)
        try:
            client = await ClusterClient.connect(addresses, client_options(options.timeout_seconds))
        except ClientError as failure:
            raise CannotBegin(str(failure)) from failure
        try:
            await command(options, client)
        except InvalidRequest as failure:
            raise CannotBegin(str(failure)) from failure
        except ClientError as failure:
            raise CommandFailed(str(failure)) from failure
        finally:
            await client.close()

    @wraps(command)
    def run(options: Namespace) -> int:
        asyncio.run(run_with_client(options))
        return 0

    return run


def client_options(timeout_seconds: float) -> ConnectionOptions:
    return ConnectionOptions(client_id=CLIENT_ID, timeout_seconds=timeout_seconds)


def bootstrap_addresses(text: str, option: str = "--bootstrap") -> list[Address]:
    try:
        return [address(part.strip()) for part in text.split(",")]
    except argparse.ArgumentTypeError as reason:
        raise CannotBegin(f"{option}: {reason}") from None


def error_line(subject: str, error_code: int, message: str | None = None) -> str:
    """Returns one line about one of several requested things."""
    return f"{subject}: {ApiError(error_of(error_code), message)}"
