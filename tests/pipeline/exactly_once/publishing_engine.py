"""A small Spark: plans batches, publishes them slot by slot, notes which are done."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pykbroker.pipeline.exactly_once_output import TopicOutput
from pykbroker.pipeline.exactly_once_slot_count import decide_slot_count
from pykbroker.pipeline.exactly_once_slots import Outgoing, SlotOfBatch, publish_slot
from pykbroker.pipeline.topic_target import TopicTarget

BATCH_RECORDS = 200


def main(bootstrap: str, checkpoint: Path, batches: int, slots: int) -> None:
    output = TopicOutput(
        target=TopicTarget(bootstrap=bootstrap, topic="out", slots=slots), query="q"
    )
    for batch_id in range(batches):
        if not (checkpoint / str(batch_id)).exists():
            publish(output, batch_id)
            (checkpoint / str(batch_id)).touch()


def publish(output: TopicOutput, batch_id: int) -> None:
    slots = decide_slot_count(output, batch_id)
    shares: dict[int, list[Outgoing]] = {}
    for number in range(batch_id * BATCH_RECORDS, (batch_id + 1) * BATCH_RECORDS):
        shares.setdefault(number * 7 % slots, []).append(Outgoing(key=None, value=b"%d" % number))

    def publish_share(slot: int) -> int:
        of_batch = SlotOfBatch(output=output, batch_id=batch_id, slot=slot, slots=slots)
        return publish_slot(of_batch, shares[slot])

    with ThreadPoolExecutor(2) as tasks:
        list(tasks.map(publish_share, shares))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    os._exit(0)  # ignores threads of failed attempts
