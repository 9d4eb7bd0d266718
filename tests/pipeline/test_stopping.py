"""Signals, the batch gate and the cause of a failed query."""

import os
import signal
from typing import TYPE_CHECKING, cast

import pytest

from pykbroker.pipeline.running.batch_gate import BatchGate, StoppedBetweenBatches
from pykbroker.pipeline.running.failures import failure_cause
from pykbroker.pipeline.running.program import stop_signals
from pykbroker.pipeline.running.run import has_no_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FRAME = cast("DataFrame", None)


def test_closed_gate_rejects_batches() -> None:
    gate = BatchGate()
    written: list[int] = []
    write = gate.guard(lambda _, batch_id: written.append(batch_id))
    write(FRAME, 1)
    gate.close()
    with pytest.raises(StoppedBetweenBatches):
        write(FRAME, 2)
    assert written == [1]


def test_running_batch_ends_after_the_gate_closes() -> None:
    gate = BatchGate()
    written: list[int] = []

    def write(_: "DataFrame", batch_id: int) -> None:
        gate.close()
        written.append(batch_id)

    gate.guard(write)(FRAME, 1)
    assert written == [1]


@pytest.mark.parametrize(
    ("message", "is_active", "at_first", "later"),
    [
        ("Waiting for next trigger", False, True, True),
        ("Getting offsets from KafkaV2[Subscribe[trucks]]", True, False, True),
        ("Initializing sources", True, False, True),
        ("Processing new data", True, False, False),
    ],
)
def test_query_that_requests_offsets_is_stopped_after_the_waiting_time(
    message: str,
    is_active: bool,  # noqa: FBT001  # a column of the table
    at_first: bool,  # noqa: FBT001  # likewise
    later: bool,  # noqa: FBT001  # likewise
) -> None:
    status = {"message": message, "isTriggerActive": is_active, "isDataAvailable": False}
    assert has_no_batch(status, has_waited=False) is at_first
    assert has_no_batch(status, has_waited=True) is later


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_first_signal_requests_and_second_signal_forces_the_stop(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_signals() as stopping:
        assert not stopping.is_requested.is_set()
        os.kill(os.getpid(), number)
        assert stopping.is_requested.wait(60)
        assert not stopping.is_forced.is_set()
        os.kill(os.getpid(), number)
        assert stopping.is_forced.wait(60)
    assert signal.getsignal(number) is before


SURROUNDING = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
CAUSES = {
    "an error raised in SQL": (
        (
            f"{SURROUNDING}[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred\n"
            "SparkRuntimeException: [USER_RAISED_EXCEPTION] broken record at offset 1"
            " SQLSTATE: P0001\n\tat org.apache.spark.sql.errors"
        ),
        "broken record at offset 1",
    ),
    "an error raised in Python": (
        (
            f"{SURROUNDING}[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred SQLSTATE: 39000\n"
            "Traceback (most recent call last):\n"
            '  File "writers.py", line 7, in write\n'
            "pykbroker.pipeline.topic_target.CannotPublish: the rows have no column `value`\n"
        ),
        "CannotPublish: the rows have no column `value`",
    ),
    "an error raised in a Python task": (
        (
            f"{SURROUNDING}Return Message: Traceback (most recent call last):\n"
            '  File "gate.py", line 33, in guarded\n'
            "    write(frame, batch_id)\n"
            "py4j.protocol.Py4JJavaError: An error occurred while calling z:PythonRDD.collect.\n"
            ": org.apache.spark.SparkException: Job aborted: Traceback (most recent call last):\n"
            '  File "exactly_once.py", line 89, in publish\n'
            "    ^^^^^\n"
            "KafkaException: no broker answers\n"
            "\n"
            "Driver stacktrace:\n"
            "\tat org.apache.spark.scheduler.DAGScheduler\n"
        ),
        "KafkaException: no broker answers",
    ),
    "an assertion without a message": (
        f"{SURROUNDING}Traceback (most recent call last):\n  assert False\nAssertionError\n",
        "AssertionError",
    ),
    "a message of Spark": (
        f"{SURROUNDING}Some data may have been lost. SQLSTATE: XXKST\n",
        "Some data may have been lost.",
    ),
    "nothing": ("", "no reason given"),
}


@pytest.mark.parametrize(("text", "cause"), CAUSES.values(), ids=CAUSES)
def test_cause_of_a_failed_query_is_extracted(text: str, cause: str) -> None:
    assert failure_cause(text) == cause
