"""How a pipeline hears that it should end, and how it says why it ended by itself."""

import os
import signal
from typing import TYPE_CHECKING, cast

import pytest

from pykbroker.pipeline.running.batch_gate import Gate, StoppedBetweenBatches
from pykbroker.pipeline.running.failures import failure_cause
from pykbroker.pipeline.running.program import stop_signals
from pykbroker.pipeline.running.run import has_no_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FRAME = cast("DataFrame", None)


def test_a_gate_lets_batches_through_until_it_is_closed() -> None:
    gate = Gate()
    written: list[int] = []
    write = gate.before(lambda _, batch_id: written.append(batch_id))
    write(FRAME, 1)
    gate.close()
    with pytest.raises(StoppedBetweenBatches):
        write(FRAME, 2)
    assert written == [1]


def test_a_batch_that_is_inside_ends_though_the_gate_closes() -> None:
    gate = Gate()
    written: list[int] = []

    def write(_: "DataFrame", batch_id: int) -> None:
        gate.close()
        written.append(batch_id)

    gate.before(write)(FRAME, 1)
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
def test_a_query_that_only_asks_for_offsets_is_not_waited_for_long(
    message: str,
    is_active: bool,  # noqa: FBT001  # a column of the table
    at_first: bool,  # noqa: FBT001  # likewise
    later: bool,  # noqa: FBT001  # likewise
) -> None:
    status = {"message": message, "isTriggerActive": is_active, "isDataAvailable": False}
    assert has_no_batch(status, has_waited=False) is at_first
    assert has_no_batch(status, has_waited=True) is later


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_the_first_signal_asks_and_the_second_insists(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_signals() as stopping:
        assert not stopping.asked.is_set()
        os.kill(os.getpid(), number)
        assert stopping.asked.wait(60)
        assert not stopping.insisted.is_set()
        os.kill(os.getpid(), number)
        assert stopping.insisted.wait(60)
    assert signal.getsignal(number) is before


AROUND = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
CAUSES = {
    "what SQL raised": (
        (
            f"{AROUND}[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred\n"
            "SparkRuntimeException: [USER_RAISED_EXCEPTION] broken record at offset 1"
            " SQLSTATE: P0001\n\tat org.apache.spark.sql.errors"
        ),
        "broken record at offset 1",
    ),
    "what Python raised": (
        (
            f"{AROUND}[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred SQLSTATE: 39000\n"
            "Traceback (most recent call last):\n"
            '  File "writers.py", line 7, in write\n'
            "pykbroker.pipeline.topic_target.CannotPublish: the rows have no column `value`\n"
        ),
        "CannotPublish: the rows have no column `value`",
    ),
    "what a task raised in Python": (
        (
            f"{AROUND}Return Message: Traceback (most recent call last):\n"
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
    "an assertion without words": (
        f"{AROUND}Traceback (most recent call last):\n  assert False\nAssertionError\n",
        "AssertionError",
    ),
    "what Spark says": (
        f"{AROUND}Some data may have been lost because they are not available. SQLSTATE: XXKST\n",
        "Some data may have been lost because they are not available.",
    ),
    "nothing": ("", "no reason given"),
}


@pytest.mark.parametrize(("text", "cause"), CAUSES.values(), ids=CAUSES)
def test_the_sentence_that_matters_is_found(text: str, cause: str) -> None:
    assert failure_cause(text) == cause
