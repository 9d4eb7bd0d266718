"""Archives a topic and publishes it to another with its own Spark, until it is killed."""

import os
import sys

from crash_hook import at_crash_point
from pyspark.sql import DataFrame

from pykbroker.pipeline.archive.batches import archive_batch
from pykbroker.pipeline.archive.target import ArchiveTarget
from pykbroker.pipeline.exactly_once import publish_batch
from pykbroker.pipeline.session import spark_session
from pykbroker.pipeline.topic_target import TopicTarget

JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SETTINGS = {"spark.driver.memory": "1g", "spark.log.level": "OFF"}


def main(bootstrap: str, directory: str) -> None:
    spark = spark_session("killed", master="local[2]", settings=SETTINGS, jvm_options=JVM)
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "2000")
        .load()
    )
    columns = ("topic", "partition", "offset")
    rows = stream.selectExpr("value", *(f"{name} AS source_{name}" for name in columns))
    target = TopicTarget(bootstrap=bootstrap, topic="out")
    archive = ArchiveTarget(path=f"{directory}/lake")

    def publish(frame: DataFrame, batch_id: int) -> None:
        publish_batch(frame, batch_id, target)
        at_crash_point("RETURNED")

    def keep(frame: DataFrame, batch_id: int) -> None:
        archive_batch(frame, batch_id, archive)
        at_crash_point("KEPT")

    for name, frame, write in (("publish", rows, publish), ("keep", stream, keep)):
        query = (
            frame.writeStream.foreachBatch(write)
            .option("checkpointLocation", f"{directory}/{name}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)
