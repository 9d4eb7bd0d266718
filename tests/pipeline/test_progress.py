"""Spark's report of a batch is converted to a value and to a line."""

from typing import Any

from pykbroker.pipeline.progress import Progress, progress_line, records_between

REPORT: dict[str, Any] = {
    "id": "6f0b2f5b-1c3c-4b8c-9f7a-2f9f1d0d1a11",
    "timestamp": "2026-11-18T14:03:22.120Z",
    "batchId": 17,
    "numInputRows": 5800,
    "processedRowsPerSecond": 2340.4217,
    "durationMs": {"triggerExecution": 2478, "addBatch": 2000},
    "eventTime": {"watermark": "2026-11-18T14:01:10.000Z"},
    "stateOperators": [
        {"numRowsTotal": 100, "memoryUsedBytes": 1_000_000, "numRowsDroppedByWatermark": 3},
        {"numRowsTotal": 20, "memoryUsedBytes": 258_291, "numRowsDroppedByWatermark": 0},
    ],
    "sources": [
        {
            "endOffset": {"trucks": {"0": 100, "1": 90}},
            "latestOffset": {"trucks": {"0": 104, "1": 90}},
        },
        {"endOffset": '{"depots":{"0":5}}', "latestOffset": '{"depots":{"0":5,"1":2}}'},
    ],
}


def test_spark_report_is_converted_to_progress() -> None:
    assert Progress.of_report("sink.alerts", REPORT) == Progress(
        query="sink.alerts",
        at="2026-11-18T14:03:22.120Z",
        batch_id=17,
        rows=5800,
        rows_per_s=2340.4,
        lag={"trucks": 4, "depots": 2},
        state_rows=120,
        state_bytes=1_258_291,
        dropped_late=3,
        watermark="2026-11-18T14:01:10.000Z",
        duration_ms=2478,
    )


def test_line_has_all_metrics() -> None:
    assert progress_line(Progress.of_report("sink.alerts", REPORT)) == (
        "14:03:22  sink.alerts  batch 17  5,800 rows  2,340 rows/s  lag trucks 4  lag depots 2  "
        "state 120 rows 1.2 MiB  watermark 2026-11-18 14:01:10  3 late rows dropped"
    )


def test_line_of_a_stateless_query_omits_state() -> None:
    report = {"timestamp": "2026-11-18T14:03:22.120Z", "batchId": 0, "sources": []}
    progress = Progress.of_report("sink.out", report)
    assert progress_line(progress) == "14:03:22  sink.out  batch 0  0 rows  0 rows/s"


def test_watermark_of_the_epoch_is_unset() -> None:
    report = REPORT | {"eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}}
    assert Progress.of_report("sink.out", report).watermark is None


def test_source_without_topics_has_no_lag() -> None:
    report = REPORT | {"sources": [{"endOffset": "12", "latestOffset": None}]}
    assert Progress.of_report("sink.out", report).lag == {}


def test_progress_is_stored_and_read() -> None:
    progress = Progress.of_report("sink.alerts", REPORT)
    assert Progress.of_text(progress.to_text()) == progress


def test_unread_partition_counts_from_its_start() -> None:
    assert records_between({"t": {"0": 5}}, {"t": {"0": 7, "1": 3}, "u": {"0": 1}}) == {
        "t": 5,
        "u": 1,
    }


def test_lag_of_a_recreated_topic_is_not_negative() -> None:
    assert records_between({"t": {"0": 500}}, {"t": {"0": 7}}) == {"t": 0}
