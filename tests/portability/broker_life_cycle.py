"""Restarts, crashes, forks and resets a broker while a client of the test produces and consumes."""

import sys

import pytest

from pykbroker import Broker, Topic
from pykbroker.testing.seeding import NotWritten

TOPICS = {
    "trucks": 2,
    "places": Topic(config={"cleanup.policy": "compact", "segment.bytes": 1_048_576}),
}

with Broker(TOPICS) as kafka:
    print(kafka.bootstrap, flush=True)
    assert sys.stdin.readline() == "written\n"
    assert [it.text for it in kafka.records("trucks")] == ["80", "81"]
    kafka.restart()
    assert len(kafka.records("trucks")) == 2
    kafka.crash()
    assert len(kafka.records("trucks")) == 2
    with kafka.snapshot():
        kafka.produce("trucks", ["inside"] * 1000)
    with kafka.fork() as other:
        assert len(other.records("trucks")) == 2
    kafka.clock.advance(days=8)
    assert kafka.records("trucks") == []
    with (
        kafka.faults.disk_full(topic="trucks", times=1),
        pytest.raises(NotWritten, match="KAFKA_STORAGE_ERROR"),
    ):
        kafka.produce("trucks", ["no"])
    kafka.reset()
    kafka.produce("trucks", ["again"])
    assert len(kafka.records("trucks")) == 1
print("done", flush=True)
