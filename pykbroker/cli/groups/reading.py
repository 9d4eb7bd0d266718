"""Reads a topic as a member of a group: what was printed is committed, and the group is left."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pykbroker.cli.client import Client
from pykbroker.cli.consumer import Consumer, Position
from pykbroker.cli.failure import CommandFailed
from pykbroker.cli.groups.committed import Place, committed_offsets
from pykbroker.cli.groups.member import HEARTBEAT_INTERVAL_S, Member
from pykbroker.cli.log_offsets import EARLIEST, LATEST, log_offsets
from pykbroker.cli.places import begin_offsets
from pykbroker.cli.topic_lookup import find_topic

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.cli.record_printer import RecordPrinter
    from pykbroker_protocol.messages.metadata import MetadataResponseTopic

FAREWELL_S_MAX: Final = 5.0


class GroupReading:
    def __init__(
        self, options: Namespace, client: Client, printer: RecordPrinter, isolation_level: int
    ) -> None:
        self._options = options
        self._client = client
        self._printer = printer
        self._isolation_level = isolation_level
        self._uncommitted: dict[Place, int] = {}

    async def read(self) -> None:
        """Read to the end of what is assigned to us or, with --follow, for ever."""
        await find_topic(self._client, self._options.topic)
        own_client = await Client.connect([self._client.bootstrap.address], self._options.timeout_s)
        member = Member(own_client, self._options.group, self._options.topic)
        try:
            while not await self._read_generation(member, await member.join()):
                await self._commit(member)  # the last word before the others have our partitions
            await self._commit(member)
        finally:
            with suppress(CommandFailed, TimeoutError):
                async with asyncio.timeout(FAREWELL_S_MAX):
                    await self._commit(member)
                    await member.leave(self._client)
            await own_client.close()

    async def _read_generation(self, member: Member, partitions: list[int]) -> bool:
        """Read while the generation lasts; True if nothing is left to read."""
        reading = asyncio.create_task(self._print_records(partitions))
        belonging = asyncio.create_task(self._belong(member))
        tasks = {reading, belonging}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            return reading in done
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _belong(self, member: Member) -> None:
        """Be alive, and commit what is printed, until the group calls its members together."""
        goes_on = True
        while goes_on:
            await asyncio.sleep(HEARTBEAT_INTERVAL_S)
            goes_on = await self._commit(member) and await member.heartbeat()

    async def _commit(self, member: Member) -> bool:
        offsets = dict(self._uncommitted)
        if not offsets:
            return True
        may_go_on = await member.commit(offsets)
        # What could not be committed will be read again, by whoever has the partition now.
        self._uncommitted = {
            place: offset
            for place, offset in self._uncommitted.items()
            if may_go_on and offset != offsets.get(place)
        }
        return may_go_on

    async def _print_records(self, partitions: list[int]) -> None:
        options = self._options
        topic = await find_topic(self._client, options.topic)
        positions = await self._first_positions(topic, partitions)
        by_partition = {it.partition: it for it in positions}
        consumer = Consumer(self._client, topic, positions, self._isolation_level)
        async for partition, records in consumer.records():
            printed = self._printer.print(partition, records)
            if len(printed) == len(records):
                offset = by_partition[partition].reached
            else:
                offset = printed[-1].offset + 1
            self._uncommitted[Place(options.topic, partition)] = offset
            if self._printer.is_done:
                return
        if options.follow:
            await asyncio.Event().wait()  # for a generation in which there is something for us

    async def _first_positions(
        self, topic: MetadataResponseTopic, partitions: list[int]
    ) -> list[Position]:
        """Where the group has come to; --from where it never was, or its place is gone."""
        options = self._options
        starts = await log_offsets(self._client, topic, EARLIEST, partitions=partitions)
        ends = await log_offsets(
            self._client,
            topic,
            LATEST,
            partitions=partitions,
            isolation_level=self._isolation_level,
        )
        begins = dict(await begin_offsets(options.begin, self._client, topic, starts, ends))
        committed = await committed_offsets(self._client, options.group)
        for partition in begins:
            known = committed.get(Place(options.topic, partition))
            if known and starts[partition] <= known.offset <= ends[partition]:
                begins[partition] = known.offset
        return [
            Position(partition=it, offset=begins[it], end=None if options.follow else ends[it])
            for it in sorted(begins)
        ]
