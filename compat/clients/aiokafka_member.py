"""A group member with aiokafka."""

import asyncio
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError

from compat.clients.member_program import (
    POLL_SECONDS,
    Options,
    emit,
    emit_partitions,
    emit_read,
    offsets_of,
    run_program,
    stopping,
)

ASSIGNORS = (RangePartitionAssignor, RoundRobinPartitionAssignor)


def run(options: Options) -> None:
    asyncio.run(serve(options))


async def serve(options: Options) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        group_instance_id=options.get("instance"),
        client_id=options["name"],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[it for it in ASSIGNORS if it.name == options["assignor"]],
        session_timeout_ms=options["session_timeout_ms"],
        heartbeat_interval_ms=options["heartbeat_interval_ms"],
    )
    await consumer.start()
    consumer.subscribe(options["topics"], listener=Listener())
    emit("started")
    while not stopping.is_set():
        found = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
        if not found:
            continue
        emit_read(offsets_of(found))
        try:
            await consumer.commit()
        except KafkaError as error:
            emit("not committed", reason=repr(error))
        else:
            emit("committed")
    emit("leaving")
    await consumer.stop()


class Listener(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka is untyped
    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        emit_partitions("assigned", assigned)

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        emit_partitions("revoked", revoked)


if __name__ == "__main__":
    run_program(run)
