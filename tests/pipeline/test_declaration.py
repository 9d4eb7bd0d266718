"""Pipeline files, column types and durations are parsed."""

from pathlib import Path

import pytest

from pykbroker.pipeline.declaration.column_types import is_column_type
from pykbroker.pipeline.declaration.durations import Duration
from pykbroker.pipeline.declaration.problems import DeclarationRefused
from pykbroker.pipeline.declaration.reading import read_pipeline, read_text
from pykbroker.pipeline.declaration.values import (
    Archive,
    FileFormat,
    Format,
    Guarantee,
    OutputMode,
    Pipeline,
    Session,
    Sink,
    SinkKind,
    Source,
    SqlStep,
    Window,
)

FLEET = """
name = "fleet"
checkpoint = "state/checkpoint"
bootstrap = "one:9092, two:9092"
every = "2 seconds"

[spark]
"sql.shuffle.partitions" = 4

[source.trucks]
topics = ["trucks"]
format = "json"
required = ["truck_id", "reported_at"]
dead_letters = "trucks-broken"
event_time = "reported_at"
watermark = "1 minute"

[source.trucks.schema]
truck_id = "string"
speed = "double"
reported_at = "timestamp"

[archive.raw]
source = "trucks"
path = "lake/trucks"
format = "delta"

[sql.fast]
inputs = ["trucks"]
query = "SELECT truck_id, speed FROM trucks WHERE speed > 90"

[window.statistics]
input = "trucks"
size = "5 minutes"
by = ["truck_id"]
[window.statistics.aggregates]
mean_speed = "avg(speed)"

[session.drives]
input = "trucks"
gap = "60 seconds"
by = ["truck_id"]
aggregates = { reports = "count(*)" }

[sink.statistics]
input = "statistics"
kind = "topic"
topic = "fleet-statistics"
key = "truck_id"
guarantee = "exactly-once"

[sink.fast]
input = "fast"
kind = "console"
mode = "update"
"""


def test_pipeline_file_is_parsed() -> None:
    minute, hour_part = Duration(60_000), Duration(300_000)
    assert read_text(FLEET) == Pipeline(
        name="fleet",
        checkpoint="state/checkpoint",
        bootstrap="one:9092, two:9092",
        every=Duration(2000),
        spark={"sql.shuffle.partitions": "4"},
        source={
            "trucks": Source(
                topics=("trucks",),
                format=Format.JSON,
                required=("truck_id", "reported_at"),
                dead_letters="trucks-broken",
                event_time="reported_at",
                watermark=minute,
                schema={"truck_id": "string", "speed": "double", "reported_at": "timestamp"},
            )
        },
        archive={"raw": Archive(source="trucks", path="lake/trucks", format=FileFormat.DELTA)},
        sql={
            "fast": SqlStep(
                inputs=("trucks",), query="SELECT truck_id, speed FROM trucks WHERE speed > 90"
            )
        },
        window={
            "statistics": Window(
                input="trucks",
                size=hour_part,
                by=("truck_id",),
                aggregates={"mean_speed": "avg(speed)"},
            )
        },
        session={
            "drives": Session(
                input="trucks", gap=minute, by=("truck_id",), aggregates={"reports": "count(*)"}
            )
        },
        sink={
            "statistics": Sink(
                input="statistics",
                kind=SinkKind.TOPIC,
                topic="fleet-statistics",
                key="truck_id",
                guarantee=Guarantee.EXACTLY_ONCE,
            ),
            "fast": Sink(input="fast", kind=SinkKind.CONSOLE, mode=OutputMode.UPDATE),
        },
    )


def test_file_and_text_are_parsed_alike(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text(FLEET, encoding="utf-8")
    assert read_pipeline(file) == read_text(FLEET)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeclarationRefused, match=r"none\.toml: No such file or directory"):
        read_pipeline(tmp_path / "none.toml")


def test_invalid_toml_is_reported_with_its_line() -> None:
    with pytest.raises(DeclarationRefused, match=r"invalid TOML: .*line 1"):
        read_text("name = fleet")


TYPES = {
    "string": True,
    "Timestamp": True,
    "decimal(10,2)": True,
    "decimal( 38 , 38 )": True,
    "decimal(39)": False,
    "decimal(2,3)": False,
    "array<int>": True,
    "map<string, array<double>>": True,
    "map<string>": False,
    "struct<at: timestamp, price: decimal(10,2)>": True,
    "struct<at timestamp>": False,
    "struct<>": False,
    "array<dubble>": False,
    "varchar": False,
    "": False,
}


@pytest.mark.parametrize(("text", "is_type"), TYPES.items(), ids=TYPES)
def test_column_types_are_recognized(text: str, is_type: bool) -> None:  # noqa: FBT001  # a column of the table
    assert is_column_type(text) is is_type


DURATIONS = {
    "5 minutes": 300_000,
    "1 hour 30 minutes": 5_400_000,
    "2weeks": 1_209_600_000,
    "250 milliseconds": 250,
    "0 seconds": 0,
    "1 Day": 86_400_000,
    "5": None,
    "minutes": None,
    "-5 minutes": None,
    "5 months": None,
    "5 minutes soon": None,
    "": None,
}


@pytest.mark.parametrize(("text", "ms"), DURATIONS.items(), ids=DURATIONS)
def test_durations_are_parsed(text: str, ms: int | None) -> None:
    duration = Duration.parse(text)
    assert (None if duration is None else duration.ms) == ms


@pytest.mark.parametrize("ms", [0, 1, 999, 1000, 60_000, 90_000, 3_600_000, 604_800_000])
def test_durations_are_formatted_in_the_syntax_that_is_parsed(ms: int) -> None:
    assert Duration.parse(str(Duration(ms))) == Duration(ms)
