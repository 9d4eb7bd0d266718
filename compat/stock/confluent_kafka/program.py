"""confluent-kafka as a client of the suite."""

from __future__ import annotations

from typing import Any

from admin import Administering
from confluent_kafka import KafkaError, KafkaException, Producer
from consuming import Consuming
from line_program import Program, run
from producing import FLUSH_SECONDS, Producing

TIMED_OUT = (KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT)  # noqa: SLF001 (public, oddly named)


class ConfluentKafka(Program, Producing, Consuming, Administering):
    client = "confluent-kafka"

    def code_of(self, error: BaseException) -> int | str:
        cause = error.args[0] if isinstance(error, KafkaException) and error.args else error
        if not isinstance(cause, KafkaError):
            return "CLIENT"
        if cause.code() in TIMED_OUT:
            return "TIMED_OUT"
        if cause.code() == KafkaError._FENCED:  # noqa: SLF001 (public, oddly named)
            return "FENCED"
        return int(cause.code()) if cause.code() > 0 else str(cause.name())

    def close_cleanly(self, opened: Any) -> None:
        if isinstance(opened, Producer):
            opened.flush(FLUSH_SECONDS)
        elif hasattr(opened, "close"):
            opened.close()

    def close_quickly(self, opened: Any) -> None:
        if isinstance(opened, Producer):
            opened.purge()
            opened.flush(1)
        elif hasattr(opened, "close"):
            opened.close()


if __name__ == "__main__":
    run(ConfluentKafka())
