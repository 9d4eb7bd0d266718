"""A socket client that commits offsets; each connection has its own group."""

import argparse
import json

from benchmarks.clients.pipelined_connections import Lane, run
from benchmarks.groups import commit_frames, wait_for_coordinator


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("topic")
    parser.add_argument("connections", type=int)
    parser.add_argument("depth", type=int)
    parser.add_argument("requests", type=int)
    asked = parser.parse_args()
    groups = [f"commits-{number}" for number in range(asked.connections)]
    wait_for_coordinator(asked.port, groups)
    each = asked.requests // asked.connections
    lanes = []
    for partition, group in enumerate(groups):
        frames = commit_frames(group, asked.topic, partition)
        lanes.append(Lane(asked.port, frames.request, frames.error_position, asked.depth, each))
    print(json.dumps(run(lanes)))


if __name__ == "__main__":
    main()
