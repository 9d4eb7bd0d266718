"""A group member with kafka-python."""

from collections.abc import Iterable
from typing import Any

from kafka import KafkaConsumer
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaConnectionError, KafkaError

from compat.clients.member_program import (
    Options,
    commit_and_emit,
    emit,
    emit_partitions,
    emit_read,
    offsets_of,
    run_program,
    stopping,
)

POLL_MS = 1_000
"""Long, because a poll that times out during a join restarts the join."""
ASSIGNORS: tuple[type[Any], ...] = (
    RangePartitionAssignor,
    RoundRobinPartitionAssignor,
    CooperativeStickyAssignor,
)


def run(options: Options) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        group_instance_id=options.get("instance"),
        client_id=options["name"],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[assignor_of(options["assignor"])],
        session_timeout_ms=options["session_timeout_ms"],
        heartbeat_interval_ms=options["heartbeat_interval_ms"],
        reconnect_backoff_max_ms=500,
    )
    consumer.subscribe(options["topics"], listener=Listener())
    emit("started")
    while not stopping.is_set():
        try:
            found = consumer.poll(timeout_ms=POLL_MS)
        except KafkaConnectionError as error:  # retry like a user; the broker may restart
            emit("not connected", reason=repr(error))
            continue
        if found:
            emit_read(offsets_of(found))
            commit_and_emit(consumer.commit, KafkaError)
    emit("leaving")
    consumer.close()


def assignor_of(name: str) -> type:
    return next(it for it in ASSIGNORS if it.name == name)


class Listener(ConsumerRebalanceListener):  # type: ignore[misc] # kafka-python is untyped
    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        emit_partitions("assigned", assigned)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        emit_partitions("revoked", revoked)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        emit_partitions("lost", lost)


if __name__ == "__main__":
    run_program(run)
