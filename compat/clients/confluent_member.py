"""A group member with confluent-kafka (librdkafka)."""

from confluent_kafka import Consumer, KafkaException, Message

from compat.clients.member_program import (
    POLL_SECONDS,
    Offsets,
    Options,
    commit_and_emit,
    emit,
    emit_partitions,
    emit_read,
    run_program,
    stopping,
)


def run(options: Options) -> None:
    consumer = Consumer(settings_of(options))
    consumer.subscribe(
        options["topics"],
        on_assign=lambda _, partitions: emit_partitions("assigned", partitions),
        on_revoke=lambda _, partitions: emit_partitions("revoked", partitions),
        on_lost=lambda _, partitions: emit_partitions("lost", partitions),
    )
    emit("started")
    while not stopping.is_set():
        offsets: Offsets = {}
        for record in consumer.consume(500, POLL_SECONDS):
            if record.error() is None:
                offsets.setdefault(place_of(record), []).append(record.offset() or 0)
        if offsets:
            emit_read(offsets)
            commit_and_emit(lambda: consumer.commit(asynchronous=False), KafkaException)
    emit("leaving")
    consumer.close()


def settings_of(options: Options) -> dict[str, object]:
    settings = {
        "bootstrap.servers": options["bootstrap"],
        "group.id": options["group"],
        "client.id": options["name"],
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "reconnect.backoff.max.ms": 500,
        "topic.metadata.refresh.interval.ms": 2000,
    }
    if options.get("instance"):
        settings["group.instance.id"] = options["instance"]
    if options["assignor"] == "consumer":
        return {**settings, "group.protocol": "consumer"}
    return {
        **settings,
        "partition.assignment.strategy": options["assignor"],
        "session.timeout.ms": options["session_timeout_ms"],
        "heartbeat.interval.ms": options["heartbeat_interval_ms"],
    }


def place_of(record: Message) -> tuple[str, int]:
    topic, partition = record.topic(), record.partition()
    assert topic is not None
    assert partition is not None
    return topic, partition


if __name__ == "__main__":
    run_program(run)
