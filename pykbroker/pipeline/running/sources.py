"""Reads topics as rows: options of Spark's source and parsing of record values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sql
from pyspark.sql.avro.functions import from_avro

from pykbroker.pipeline.declaration.values import Broken, Format
from pykbroker.pipeline.session import READ_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from pykbroker.pipeline.declaration.values import Pipeline, Source

BROKEN: Final = "_broken"
REASON: Final = "_reason"
PARSED: Final = "_parsed"
KEY: Final = "_bytes_of_key"
VALUE: Final = "_bytes_of_value"
RECORD_COLUMNS: Final = {
    "_key": "CAST(key AS STRING)",
    "_topic": "topic",
    "_partition": "partition",
    "_offset": "offset",
    "_timestamp": "timestamp",
    "_headers": "headers",
}


def records(spark: SparkSession, pipeline: Pipeline, name: str) -> DataFrame:
    """Returns the unparsed records of a source: key, value, headers, partition, offset."""
    source = pipeline.source[name]
    return spark.readStream.format("kafka").options(**read_options(pipeline, source)).load()


def read_options(pipeline: Pipeline, source: Source) -> dict[str, str]:
    options = dict(READ_OPTIONS)
    options |= {f"kafka.{key}": value for key, value in {**pipeline.kafka, **source.kafka}.items()}
    options |= {
        "kafka.bootstrap.servers": pipeline.bootstrap,
        "kafka.isolation.level": source.isolation.value,
        "startingOffsets": source.starting.value,
        "failOnDataLoss": str(source.fail_on_data_loss).lower(),
        "includeHeaders": "true",
    }
    if source.pattern is not None:
        options["subscribePattern"] = source.pattern
    else:
        options["subscribe"] = ",".join(source.topics)
    if source.batch_records_max is not None:
        options["maxOffsetsPerTrigger"] = str(source.batch_records_max)
    if source.partitions_min is not None:
        options["minPartitions"] = str(source.partitions_min)
    return options


def valid_rows(spark: SparkSession, pipeline: Pipeline, name: str) -> DataFrame:
    """Returns the valid rows of a source, with the columns of its schema."""
    source = pipeline.source[name]
    rows = parsed(records(spark, pipeline, name), source)
    fails = source.dead_letters is None and source.broken is not Broken.DROP
    rows = rows.where(sql.expr(RAISE_IF_BROKEN if fails else f"{REASON} IS NULL"))
    rows = rows.drop(REASON, BROKEN, KEY, VALUE)
    if source.event_time is not None:
        rows = rows.withWatermark(source.event_time, str(source.watermark))
    return rows


RAISE_IF_BROKEN: Final = f"""
CASE WHEN {REASON} IS NULL THEN true ELSE CAST(raise_error(concat(
    'broken record at offset ', _offset, ' of ', _topic, '-', _partition, ': ', {REASON},
    ' (set dead_letters to a topic, or broken = "drop")')) AS BOOLEAN) END"""


def broken_rows(
    spark: SparkSession, pipeline: Pipeline, name: str, record_bytes_max: int
) -> DataFrame:
    """Returns the broken records of a source as records for the dead-letter topic.

    The headers added make a record larger. A value that then exceeds the limit is truncated,
    because a rejected record would stop the stream permanently.
    """
    rows = parsed(records(spark, pipeline, name), pipeline.source[name])
    value_bytes_max = (
        f"greatest(0, {record_bytes_max - DEAD_LETTER_BYTES} - {BYTES_BESIDE_THE_VALUE})"
    )
    return rows.where(f"{REASON} IS NOT NULL").select(
        sql.col(KEY).alias("key"),
        sql.expr(f"substring({VALUE}, 1, {value_bytes_max})").alias("value"),
        sql.expr(f"concat({DEAD_LETTER_HEADERS}, {cut_header(value_bytes_max)})").alias("headers"),
        sql.col("_topic").alias("source_topic"),
        sql.col("_partition").alias("source_partition"),
        sql.col("_offset").alias("source_offset"),
    )


DEAD_LETTER_HEADERS: Final = f"""
concat(coalesce(_headers, array()), array(
    named_struct('key', 'dlq.reason', 'value', CAST({REASON} AS BINARY)),
    named_struct('key', 'dlq.topic', 'value', CAST(_topic AS BINARY)),
    named_struct('key', 'dlq.partition', 'value', CAST(CAST(_partition AS STRING) AS BINARY)),
    named_struct('key', 'dlq.offset', 'value', CAST(CAST(_offset AS STRING) AS BINARY)),
    named_struct('key', 'dlq.timestamp', 'value',
                 CAST(CAST(unix_millis(_timestamp) AS STRING) AS BINARY))))"""


DEAD_LETTER_BYTES: Final = 4096
"""Upper bound for the headers of a dead letter and the overhead of a batch."""
BYTES_BESIDE_THE_VALUE: Final = f"""
(coalesce(octet_length({KEY}), 0) + aggregate(coalesce(_headers, array()), 0, (sum, it) ->
    sum + 16 + octet_length(it.key) + coalesce(octet_length(it.value), 0)))"""


def cut_header(value_bytes_max: str) -> str:
    """Returns a header with the original size of a truncated value."""
    size = f"octet_length({VALUE})"
    header = f"named_struct('key', 'dlq.cut_from_bytes', 'value', CAST(string({size}) AS BINARY))"
    return f"IF({size} > {value_bytes_max}, array({header}), array())"


def parsed(frame: DataFrame, source: Source) -> DataFrame:
    """Returns the columns of the value and of the record, and `_reason` if it is broken."""
    record = [sql.expr(text).alias(name) for name, text in RECORD_COLUMNS.items()]
    if source.format is Format.RAW:
        return frame.select("key", "value", *record, sql.expr("CAST(NULL AS STRING)").alias(REASON))
    both = (sql.col("key").alias(KEY), sql.col("value").alias(VALUE))
    whole = frame.select(*both, *record, value_column(source).alias(PARSED))
    match source.format:
        case Format.AVRO:
            whole = whole.withColumn(BROKEN, all_missing(whole))
        case Format.JSON:
            whole = whole.withColumn(BROKEN, sql.expr(NOT_ALL_JSON))
            whole = whole.withColumn(PARSED, sql.col(f"{PARSED}.it"))
    flat = whole.select("*", f"{PARSED}.*").drop(PARSED)
    return flat.withColumn(REASON, sql.expr(reason(source)))


def value_column(source: Source) -> Column:
    """Returns the parsed value as a struct; `_broken` is set if the value is invalid."""
    options = {"mode": "PERMISSIVE", **source.parser}
    match source.format:
        case Format.AVRO:
            first = 1 + (source.avro_prefix_bytes or 0)
            value = sql.expr(f"substring(value, {first})")
            return from_avro(value, source.avro_schema or "", options)
        case Format.CSV:
            options["columnNameOfCorruptRecord"] = BROKEN
            schema = f"{schema_text(source.schema)}, `{BROKEN}` string"
            return sql.from_csv(sql.col("value").cast("string"), schema, options)
        case _:
            options["columnNameOfCorruptRecord"] = BROKEN
            schema = f"it struct<{schema_text(source.schema, ':')}>, end int, `{BROKEN}` string"
            return sql.from_json(sql.expr(WHOLE_JSON), schema, options)


WHOLE_JSON: Final = """concat('{"it":', ltrim('\ufeff', CAST(value AS STRING)), '\n,"end":0}')"""
"""Spark's parser ignores text after an object; wrapped, the whole value must be one object."""
NOT_ALL_JSON: Final = f"""
CASE WHEN {PARSED}.`{BROKEN}` IS NOT NULL OR {PARSED}.it IS NULL OR {PARSED}.end IS NULL
    THEN 'broken' END"""


def schema_text(schema: Mapping[str, str], sign: str = "") -> str:
    return ", ".join(f"`{name}`{sign} {kind}" for name, kind in schema.items())


def all_missing(frame: DataFrame) -> Column:
    """Returns the check for invalid Avro, for which Spark returns a row of nulls."""
    names = frame.select(f"{PARSED}.*").columns
    missing = " AND ".join(f"{PARSED}.`{name}` IS NULL" for name in names)
    return sql.expr(f"CASE WHEN {missing} THEN 'broken' END")


def reason(source: Source) -> str:
    """Returns SQL for the reason why a record is broken; null for a valid record."""
    return f"CASE {' '.join(reasons(source))} END"


def reasons(source: Source) -> Iterator[str]:
    yield f"WHEN {VALUE} IS NULL OR trim(CAST({VALUE} AS STRING)) = '' THEN 'value is empty'"
    yield f"WHEN {BROKEN} IS NOT NULL THEN 'value does not match the {source.format.value} schema'"
    for name in source.required:
        yield f"WHEN `{name}` IS NULL THEN '{name} is missing'"
