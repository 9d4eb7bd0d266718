"""Committed metadata reaches every part, also one that failed at first."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from pykbroker.broker import Broker
from pykbroker.clock import SystemClock
from pykbroker.controller.controller import Controller
from pykbroker.controller_access import ConfigurationChange, NewTopic
from pykbroker.environment import Environment
from pykbroker.metadata.image import BROKER_RESOURCE, TopicImage
from pykbroker.partitions.partition_registry import Partitions
from pykbroker.reconciler import LOGGED_MAX, RETRY_SECONDS_MAX, Reconciler
from pykbroker.settings import CurrentSettings, load_settings
from pykbroker_protocol.metadata.topics import TopicRecord
from pykbroker_storage.filesystem import VolatileDisk
from tests.metadata.replaying import apply


class SteppedClock(SystemClock):
    """Sleeps end once `may_end` is set; `slept` keeps their lengths."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.may_end = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await self.may_end.wait()


class Part:
    """Fails `failures` times, then applies."""

    def __init__(self, failures: int) -> None:
        self.failures_left = failures
        self.applied = 0

    def apply(self) -> None:
        if self.failures_left:
            self.failures_left -= 1
            raise OSError(5, "Input/output error")
        self.applied += 1


@pytest.fixture
async def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def reconciler(clock: SteppedClock) -> AsyncIterator[Reconciler]:
    reconciler = Reconciler(clock)
    yield reconciler
    await reconciler.close()


async def retried(reconciler: Reconciler) -> None:
    """Returns when no part is left to retry."""
    assert isinstance(reconciler._clock, SteppedClock)
    reconciler._clock.may_end.set()
    assert reconciler._retrying is not None
    await reconciler._retrying


async def test_a_failed_part_is_logged_retried_and_logged_again_when_it_succeeds(
    reconciler: Reconciler, caplog: pytest.LogCaptureFixture
) -> None:
    part = Part(failures=2)
    with caplog.at_level(logging.INFO):
        reconciler.attempt(1204, "orders-3", part.apply)
        await retried(reconciler)
    assert part.applied == 1
    failed, failed_again, succeeded = caplog.messages
    assert failed == (
        "metadata: offset 1204 is committed but could not be applied to orders-3; retrying"
    )
    assert "could not be applied to orders-3 in retry 1 (OSError: " in failed_again
    assert succeeded == "metadata: offset 1204 is applied to orders-3 (retries: 2)"
    assert caplog.records[0].exc_info is not None


async def test_the_pause_between_retries_doubles_up_to_its_maximum(
    reconciler: Reconciler, clock: SteppedClock
) -> None:
    part = Part(failures=12)
    reconciler.attempt(1, "orders-3", part.apply)
    await retried(reconciler)
    assert clock.slept[:4] == [0.1, 0.2, 0.4, 0.8]
    assert clock.slept[-1] == RETRY_SECONDS_MAX


async def test_a_later_action_for_a_part_replaces_one_that_failed(
    reconciler: Reconciler,
) -> None:
    first, second = Part(failures=1), Part(failures=0)
    reconciler.attempt(1, "orders-3", first.apply)
    reconciler.attempt(2, "orders-3", second.apply)
    await retried(reconciler)
    assert (first.applied, second.applied) == (0, 1)


async def test_log_lines_are_bounded_and_all_parts_are_retried(
    reconciler: Reconciler, caplog: pytest.LogCaptureFixture
) -> None:
    parts = [Part(failures=1) for _ in range(2 * LOGGED_MAX)]
    for number, part in enumerate(parts):
        reconciler.attempt(1, f"orders-{number}", part.apply)
    await retried(reconciler)
    assert all(part.applied == 1 for part in parts)
    assert caplog.text.count("is committed but could not be applied") == LOGGED_MAX
    assert f"metadata: {LOGGED_MAX} more parts could not be applied; retrying" in caplog.messages


async def test_closing_ends_the_retries(clock: SteppedClock) -> None:
    reconciler = Reconciler(clock)
    reconciler.attempt(1, "orders-3", Part(failures=1_000).apply)
    await reconciler.close()
    assert not asyncio.all_tasks() - {asyncio.current_task()}


def test_every_change_of_settings_reaches_every_subscriber() -> None:
    before, after = load_settings(), load_settings({"num.io.threads": "5"})
    current = CurrentSettings(before)
    seen: list[tuple[str, int]] = []
    for part in ("a", "b"):
        current.subscribe(part, lambda it, part=part: seen.append((part, it.num_io_threads)))  # type: ignore[misc]
    assert (current.value, seen) == (before, [])
    current.change(after, lambda _, apply: apply())
    assert current.value is after
    assert seen == [("a", 5), ("b", 5)]


def test_a_repeated_attempt_applies_the_settings_in_force() -> None:
    current = CurrentSettings(load_settings())
    seen: list[int] = []
    late = []
    current.subscribe("a", lambda it: seen.append(it.num_io_threads))
    current.change(load_settings({"num.io.threads": "5"}), lambda _, apply: late.append(apply))
    current.change(load_settings({"num.io.threads": "6"}), lambda _, apply: apply())
    late[0]()
    assert seen == [6, 6]


# --- in a broker


@pytest.fixture
async def broker(tmp_path: Path, clock: SteppedClock) -> AsyncIterator[Broker]:
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path / "data")}
    environment = Environment(filesystem=VolatileDisk())
    broker = await Broker.start(load_settings(given), environment)
    broker.reconciler = broker.applier.reconciler = Reconciler(clock)
    yield broker
    await broker.reconciler.close()
    await broker.stop()


async def test_the_broker_does_not_read_uncommitted_metadata_of_the_controller(
    broker: Broker,
) -> None:
    await broker.controller.create_topics([NewTopic(name="orders")])
    undecided = TopicRecord(name="payments", topic_id=bytes(15) + b"p")
    assert isinstance(broker.controller, Controller)
    apply(broker.controller.image, undecided)
    assert list(broker.image.topics) == list(broker.node.image.topics) == ["orders"]
    shared = broker.controller.image.topics["orders"]
    assert broker.image.topics["orders"] is shared, "values are stored once"


async def test_a_partition_that_fails_once_is_created_by_a_retry(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    update_partition = Partitions.update_partition
    failing = [3]

    def fail_once(partitions: Partitions, topic: TopicImage, image: object, given: object) -> None:
        if failing and image.index == failing[0]:  # type: ignore[attr-defined]
            failing.clear()
            raise RuntimeError("planted")
        update_partition(partitions, topic, image, given)  # type: ignore[arg-type]

    monkeypatch.setattr(Partitions, "update_partition", fail_once)
    await broker.controller.create_topics([NewTopic(name="orders", partitions=5)])
    there = [broker.partitions.get("orders", index) is not None for index in range(5)]
    assert there == [True, True, True, False, True]
    assert "could not be applied to orders-3; retrying" in caplog.text
    await retried(broker.reconciler)
    assert broker.partitions.get("orders", 3) is not None


async def test_a_log_that_cannot_be_deleted_is_deleted_by_a_retry(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.controller.create_topics([NewTopic(name="orders")])

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(type(broker.directory), "delete_log", fail)
        await broker.controller.delete_topics(["orders"])
    assert ("orders", 0) in broker.directory
    assert broker.partitions.get("orders", 0) is None
    await retried(broker.reconciler)
    assert ("orders", 0) not in broker.directory


async def test_settings_that_one_part_rejects_reach_the_others(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = broker.partitions.change_defaults
    failing = [True]

    def fail_once(*given: object) -> None:
        if failing:
            failing.clear()
            raise RuntimeError("planted")
        apply(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(broker.partitions, "change_defaults", fail_once)
    change = ConfigurationChange(
        resource_type=BROKER_RESOURCE, name="1", operations=[("max.connections", 0, "77")]
    )
    assert await broker.controller.alter_configurations([change]) == [None]
    assert broker.socket_server.limits.connections_max == 77
    assert broker.partitions.settings.max_connections != 77
    await retried(broker.reconciler)
    assert broker.partitions.settings.max_connections == 77


async def test_a_failure_after_closing_is_logged_and_not_retried(
    reconciler: Reconciler, caplog: pytest.LogCaptureFixture
) -> None:
    await reconciler.close()
    reconciler.attempt(1204, "orders-3", Part(failures=1).apply)
    assert "could not be applied to orders-3" in caplog.text
    assert not asyncio.all_tasks() - {asyncio.current_task()}


async def test_a_retried_deletion_of_offsets_leaves_those_of_a_new_topic_with_the_same_name(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted: list[str] = []
    failing = [True]

    def fail_once(names: Sequence[str]) -> None:
        if failing:
            failing.clear()
            raise RuntimeError("planted")
        deleted.extend(names)

    monkeypatch.setattr(broker.groups, "topics_deleted", fail_once)
    await broker.controller.create_topics([NewTopic(name="orders"), NewTopic(name="payments")])
    await broker.controller.delete_topics(["orders", "payments"])
    await broker.controller.create_topics([NewTopic(name="orders")])
    await retried(broker.reconciler)
    assert deleted == ["payments"]
