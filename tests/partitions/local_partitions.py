"""The partitions of a node, for tests of periodic work."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pykbroker.clock import SystemClock
from pykbroker.partitions.leadership import Leadership
from pykbroker.partitions.partition import Partition
from pykbroker.partitions.partition_registry import log_configuration
from pykbroker.settings import Settings, load_settings, resolve_topic
from pykbroker_storage.filesystem import LOCAL_DISK, FileSystem
from pykbroker_storage.log_directory import LogDirectory
from tests.partitions.reading import AtOnce
from tests.storage.batches import NOW

TOPIC_ID = bytes(15) + b"t"
LEADERSHIP = Leadership(leader=1, leader_epoch=0, partition_epoch=0, replicas=(1,), in_sync=(1,))


@dataclass
class Clock(SystemClock):
    now: int = NOW

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000


@dataclass
class LocalPartitions:
    """The partitions of a node, without a controller."""

    path: Path
    settings: Settings = field(default_factory=load_settings)
    clock: Clock = field(default_factory=Clock)
    found: list[Partition] = field(default_factory=list)
    disk: FileSystem = LOCAL_DISK
    directory: LogDirectory = field(init=False)

    def __post_init__(self) -> None:
        self.directory = LogDirectory.open(
            str(self.path),
            cluster_id="c",
            node_id=1,
            new_directory_id=bytes(16),
            configuration=log_configuration(self.settings.topic_defaults),
            filesystem=self.disk,
        )

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        return {(it.topic, it.index): it.high_watermark for it in self.found}

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.found)

    def add(self, topic: str, **overrides: str) -> Partition:
        texts = {"cleanup.policy": "compact", "segment.bytes": "1048576"}
        texts |= {name.replace("_", "."): value for name, value in overrides.items()}
        settings = resolve_topic(self.settings, texts)
        log = self.directory.create_log(
            (topic, 0), topic_id=TOPIC_ID, configuration=log_configuration(settings), now_ms=NOW
        )
        partition = Partition(
            topic=topic,
            index=0,
            topic_id=topic.encode(),
            node_id=1,
            log=log,
            leadership=LEADERSHIP,
            settings=settings,
            high_watermark=0,
            off_loop=AtOnce(),
        )
        self.found.append(partition)
        return partition


def damage(partition: Partition) -> None:
    """Deletes the time index and corrupts the batch from which it would be rebuilt."""
    segment = partition.log.segments()[0]
    segment.drop_indexes()
    segment.max_timestamp_ms = -1
    Path(segment.path(".timeindex")).unlink()
    log_file = Path(segment.path(".log"))
    content = bytearray(log_file.read_bytes())
    content[8:12] = b"\x7f\xff\xff\xff"
    log_file.write_bytes(content)
