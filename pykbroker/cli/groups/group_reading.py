"""Reads a topic as a member of a group: commits the printed records and leaves the group."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pykbroker.cli.offset_specs import begin_offsets
from pykbroker.client.cluster_client import ClusterClient
from pykbroker.client.committed_offsets import TopicPartition, committed_offsets
from pykbroker.client.consumer import Consumer, Position
from pykbroker.client.errors import ClientError
from pykbroker.client.group_member import HEARTBEAT_SECONDS, GroupMember
from pykbroker.client.log_offsets import EARLIEST, LATEST, log_offsets

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.cli.record_printer import RecordPrinter
    from pykbroker_protocol.messages.metadata import MetadataResponseTopic

LEAVE_SECONDS_MAX: Final = 5.0
LEAVE_REASON: Final = "the command ends"


class GroupReading:
    def __init__(
        self,
        options: Namespace,
        client: ClusterClient,
        printer: RecordPrinter,
        isolation_level: int,
    ) -> None:
        self._options = options
        self._client = client
        self._printer = printer
        self._isolation_level = isolation_level
        self._uncommitted: dict[TopicPartition, int] = {}

    async def read(self) -> None:
        """Reads to the end of the assigned partitions, or with --follow until interrupted."""
        await self._client.topic(self._options.topic)
        client = self._client
        member_client = await ClusterClient.connect(client.bootstrap_addresses, client.options)
        member = GroupMember(member_client, self._options.group, self._options.topic)
        try:
            while not await self._read_generation(member, await member.join()):
                await self._commit(member)  # before other members get the partitions
            await self._commit(member)
        finally:
            with suppress(ClientError, TimeoutError):
                async with asyncio.timeout(LEAVE_SECONDS_MAX):
                    await self._commit(member)
                    await member.leave(self._client, LEAVE_REASON)
            await member_client.close()

    async def _read_generation(self, member: GroupMember, partitions: list[int]) -> bool:
        """Reads until the generation ends; returns True if all partitions are read."""
        reading = asyncio.create_task(self._print_records(partitions))
        heartbeats = asyncio.create_task(self._send_heartbeats(member))
        tasks = {reading, heartbeats}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            return reading in done
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_heartbeats(self, member: GroupMember) -> None:
        """Sends heartbeats and commits printed records until the group rebalances."""
        is_member = True
        while is_member:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            is_member = await self._commit(member) and await member.heartbeat()

    async def _commit(self, member: GroupMember) -> bool:
        offsets = dict(self._uncommitted)
        if not offsets:
            return True
        is_member = await member.commit(offsets)
        # After a failed commit, the next owner of the partitions reads these records again.
        self._uncommitted = {
            partition: offset
            for partition, offset in self._uncommitted.items()
            if is_member and offset != offsets.get(partition)
        }
        return is_member

    async def _print_records(self, partitions: list[int]) -> None:
        options = self._options
        topic = await self._client.topic(options.topic)
        positions = await self._first_positions(topic, partitions)
        by_partition = {it.partition: it for it in positions}
        consumer = Consumer(self._client, topic, positions, self._isolation_level)
        async for partition, records in consumer.records():
            printed = self._printer.print(partition, records)
            if len(printed) == len(records):
                offset = by_partition[partition].committable
            else:
                offset = printed[-1].offset + 1
            self._uncommitted[TopicPartition(options.topic, partition)] = offset
            if self._printer.is_done:
                return
        if options.follow:
            await asyncio.Event().wait()  # a later generation may assign partitions

    async def _first_positions(
        self, topic: MetadataResponseTopic, partitions: list[int]
    ) -> list[Position]:
        """Starts at the committed offset, or at --from if there is none in the log."""
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
            known = committed.get(TopicPartition(options.topic, partition))
            if known and starts[partition] <= known.offset <= ends[partition]:
                begins[partition] = known.offset
        return [
            Position(partition=it, offset=begins[it], end=None if options.follow else ends[it])
            for it in sorted(begins)
        ]
