"""A socket client that repeatedly requests the log end offset of a partition."""

import argparse
import json

from benchmarks.clients.pipelined_connections import Lane, run
from benchmarks.wire import list_offsets_frames


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("topic")
    parser.add_argument("connections", type=int)
    parser.add_argument("depth", type=int)
    parser.add_argument("requests", type=int)
    asked = parser.parse_args()
    request, error_position = list_offsets_frames(asked.topic, 0)
    each = asked.requests // asked.connections
    lanes = [
        Lane(asked.port, request, error_position, asked.depth, each)
        for _ in range(asked.connections)
    ]
    print(json.dumps(run(lanes)))


if __name__ == "__main__":
    main()
