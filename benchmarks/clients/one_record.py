"""A socket client that sends Produce requests with one record and times every response."""

import argparse
import json

from benchmarks.clients.pipelined_connections import Lane, run
from benchmarks.wire import produce_frames

RECORD_SIZE = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("topic")
    parser.add_argument("connections", type=int)
    parser.add_argument("depth", type=int)
    parser.add_argument("requests", type=int)
    parser.add_argument("--one-partition", action="store_true", help="for all connections")
    asked = parser.parse_args()
    each = asked.requests // asked.connections
    kind = SharingLane if asked.one_partition else ProduceLane
    lanes = [kind(asked.port, asked.topic, n, asked.depth, each) for n in range(asked.connections)]
    print(json.dumps(run(lanes)))


class ProduceLane(Lane):
    """A connection that produces to its own partition."""

    def __init__(self, port: int, topic: str, partition: int, depth: int, requests: int) -> None:
        frames = produce_frames(topic, partition, b"x" * RECORD_SIZE)
        self._base_offset_position = frames.base_offset_position
        self._first_offset = -1
        super().__init__(port, frames.request, frames.error_position, depth, requests)

    def check_first(self, answer: bytes) -> None:
        self._first_offset = self._offset(answer) + 1

    def check_last(self, answer: bytes) -> None:
        """Checks with the offset of the last record that each request was appended once."""
        expected = self._first_offset + len(self.latencies) - 1
        offset = self._offset(answer)
        if offset != expected:
            raise SystemExit(f"the last record has offset {offset}, not {expected}")

    def _offset(self, answer: bytes) -> int:
        position = self._base_offset_position
        return int.from_bytes(answer[position : position + 8], "big")


class SharingLane(ProduceLane):
    """A connection that produces to a partition shared by all connections."""

    def __init__(self, port: int, topic: str, number: int, depth: int, requests: int) -> None:
        del number
        super().__init__(port, topic, 0, depth, requests)

    def check_last(self, answer: bytes) -> None:
        """Offsets are not checked, because other connections write to the partition."""


if __name__ == "__main__":
    main()
