"""A broker of a cluster joins, keeps its session and leaves, under a controller model."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import threading
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.broker import Broker, CannotStart
from pykbroker.cluster_member import ClusterMember
from pykbroker.controller_access import NewTopic
from pykbroker.membership.lifecycle import Phase
from pykbroker.membership.observer_log import ObserverLog
from pykbroker.metadata.features import FEATURES_OF_A_NEW_CLUSTER
from pykbroker.partitions.partition_registry import Partitions
from pykbroker.settings import load_settings
from pykbroker_protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from pykbroker_protocol.messages.broker_registration import BrokerRegistrationRequest
from pykbroker_protocol.metadata.cluster import UnregisterBrokerRecord
from pykbroker_storage.filesystem import DiskFull

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from pykbroker.metadata.image import TopicImage
    from pykbroker.settings import Settings
    from pykbroker.testing.simulation.controller_model import RunningController, StartController

NODE_ID = 4
DEADLINE_SECONDS = 20.0
SESSION_SECONDS = 1.0
DIRECTORY = "meta.properties"


def settings_of(controllers: str, data: Path, **more: str) -> Settings:
    return load_settings(
        {
            "process.roles": "broker",
            "node.id": str(NODE_ID),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "controller.quorum.bootstrap.servers": controllers,
            "log.dirs": str(data),
            "broker.heartbeat.interval.ms": "100",
            "broker.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )


async def start(controller: RunningController, data: Path, **more: Any) -> Broker:
    cluster_id = more.pop("cluster_id", None)
    settings = settings_of(",".join(controller.addresses), data, **more)
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await Broker.start(settings, cluster_id=cluster_id)


@asynccontextmanager
async def serving(controller: RunningController, data: Path, **more: Any) -> AsyncIterator[Broker]:
    broker = await start(controller, data, **more)
    try:
        yield broker
    finally:
        await broker.stop()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():  # noqa: ASYNC110  # no event reports all of these states
            await asyncio.sleep(0.01)


def member(broker: Broker) -> ClusterMember:
    assert isinstance(broker.control_plane, ClusterMember)
    return broker.control_plane


def registrations(controller: RunningController) -> list[BrokerRegistrationRequest]:
    return controller.requests(BrokerRegistrationRequest)


def heartbeats(controller: RunningController) -> list[BrokerHeartbeatRequest]:
    return controller.requests(BrokerHeartbeatRequest)


@pytest.fixture
async def controller(controller_model: StartController) -> RunningController:
    return await controller_model(session_timeout_seconds=SESSION_SECONDS)


# --- joining


async def test_a_broker_is_unfenced_when_its_start_ends(
    controller: RunningController, tmp_path: Path
) -> None:
    async with serving(controller, tmp_path, broker_rack="b") as broker:
        registered = controller.model.image.brokers[NODE_ID]
        assert not registered.fenced
        assert registered.rack == "b"
        assert registered.listeners == {"PLAINTEXT": ("127.0.0.1", broker.bound_port)}
        assert registered.directories == (broker.directory.directory_id,)
        assert broker.control_plane.broker_epoch == registered.epoch
        assert broker.cluster_id == controller.model.cluster_id
    assert f"cluster.id={controller.model.cluster_id}" in (tmp_path / DIRECTORY).read_text()


async def test_a_broker_asks_for_unfencing_after_its_metadata_contains_the_registration(
    controller: RunningController, tmp_path: Path
) -> None:
    async with serving(controller, tmp_path):
        pass
    asks = [it for it in heartbeats(controller) if not it.want_fence]
    assert asks[0].current_metadata_offset >= asks[0].broker_epoch


async def test_the_incarnation_changes_with_each_start_and_the_directory_id_stays(
    controller: RunningController, tmp_path: Path
) -> None:
    for _ in range(2):
        async with serving(controller, tmp_path):
            pass
    first, *_, last = registrations(controller)
    assert first.incarnation_id != last.incarnation_id
    assert first.log_dirs == last.log_dirs


async def test_a_start_without_controllers_can_be_cancelled_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_of("127.0.0.1:1,127.0.0.1:2", tmp_path)
    starting = asyncio.ensure_future(Broker.start(settings))
    await until(lambda: "no active controller found" in caplog.text)
    assert "127.0.0.1:1 (" in caplog.text
    assert "127.0.0.1:2 (" in caplog.text
    assert "connection refused" in caplog.text
    starting.cancel()
    async with asyncio.timeout(2.0):
        await asyncio.wait([starting])
    assert starting.cancelled()


async def test_a_broker_waits_for_a_controller_that_starts_later(
    controller_model: StartController, tmp_path: Path
) -> None:
    controller = await controller_model()
    port = controller.servers[0].address
    await controller.servers[0].stop()
    starting = asyncio.ensure_future(Broker.start(settings_of(port, tmp_path)))
    await asyncio.sleep(0.2)
    assert not starting.done()
    starting.cancel()
    await asyncio.wait([starting])


# --- clusters that a broker does not join


async def test_a_stated_cluster_id_must_be_that_of_the_controllers(
    controller: RunningController, tmp_path: Path
) -> None:
    with pytest.raises(CannotStart, match="does not belong to cluster other") as refusal:
        await start(controller, tmp_path, cluster_id="other")
    assert "\n" not in str(refusal.value)
    assert not registrations(controller)


async def test_a_stated_cluster_id_must_be_that_of_the_directory(
    controller: RunningController, tmp_path: Path
) -> None:
    async with serving(controller, tmp_path):
        pass
    with pytest.raises(CannotStart, match="belongs to cluster model-cluster-AAAAAAAAA, this is"):
        await start(controller, tmp_path, cluster_id="other")


async def test_the_directory_of_another_cluster_is_refused(
    controller: RunningController, controller_model: StartController, tmp_path: Path
) -> None:
    async with serving(controller, tmp_path):
        pass
    other = await controller_model(cluster_id="another-cluster-AAAAAA")
    with pytest.raises(CannotStart, match="does not belong to cluster model-cluster-AAAAAAAAA"):
        await start(other, tmp_path)


async def test_a_cluster_with_features_that_are_not_served_is_refused_with_the_command(
    controller_model: StartController, tmp_path: Path
) -> None:
    features = {**FEATURES_OF_A_NEW_CLUSTER, "share.version": 1, "streams.version": 1}
    controller = await controller_model(features=features)
    with pytest.raises(CannotStart) as refusal:
        await start(controller, tmp_path)
    assert str(refusal.value) == (
        "the cluster has finalized share.version 1 and streams.version 1, which this broker does "
        f"not serve; run kafka-features.sh --bootstrap-controller {controller.address} downgrade "
        "--feature share.version=0 --feature streams.version=0"
    )
    assert not registrations(controller)


async def test_a_guest_is_refused_where_directories_cannot_be_cordoned(
    controller_model: StartController, tmp_path: Path
) -> None:
    controller = await controller_model(
        features={**FEATURES_OF_A_NEW_CLUSTER, "metadata.version": 25}
    )
    with pytest.raises(CannotStart, match=r"requires metadata\.version 30"):
        await start(controller, tmp_path, cordoned_log_dirs="*")


# --- clean shutdowns


def clean_epoch(data: Path) -> int:
    mark = json.loads((data / ".kafka_cleanshutdown").read_text())
    return int(mark["brokerEpoch"])


async def test_a_stop_writes_the_broker_epoch_and_the_next_start_sends_it(
    controller: RunningController, tmp_path: Path
) -> None:
    async with serving(controller, tmp_path) as broker:
        epoch = broker.control_plane.broker_epoch
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert clean_epoch(tmp_path) == epoch
    async with serving(controller, tmp_path):
        assert {it.previous_broker_epoch for it in registrations(controller)[1:]} == {epoch}
        assert registrations(controller)[0].previous_broker_epoch == -1


async def test_the_start_after_a_crash_sends_no_epoch(
    controller: RunningController, tmp_path: Path
) -> None:
    broker = await start(controller, tmp_path)
    await broker.crash()
    async with serving(controller, tmp_path):
        assert {it.previous_broker_epoch for it in registrations(controller)} == {-1}


async def test_a_stop_before_the_registration_keeps_the_epoch_of_the_last_clean_shutdown(
    controller: RunningController, tmp_path: Path
) -> None:
    async with serving(controller, tmp_path):
        pass
    epoch = clean_epoch(tmp_path)
    starting = asyncio.ensure_future(Broker.start(settings_of("127.0.0.1:1", tmp_path)))
    await until(lambda: not (tmp_path / ".kafka_cleanshutdown").exists())
    starting.cancel()
    await asyncio.wait([starting])
    assert clean_epoch(tmp_path) == epoch


async def test_leaderships_move_before_the_broker_stops(
    controller: RunningController, tmp_path: Path
) -> None:
    async with serving(controller, tmp_path):
        pass
    assert heartbeats(controller)[-1].want_shut_down


async def test_a_controlled_shutdown_can_be_disabled(
    controller: RunningController, tmp_path: Path
) -> None:
    async with serving(controller, tmp_path, controlled_shutdown_enable="false"):
        pass
    assert not any(it.want_shut_down for it in heartbeats(controller))


# --- sessions


async def test_a_restart_after_a_crash_waits_for_the_end_of_the_old_session(
    controller: RunningController, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broker = await start(controller, tmp_path)
    await broker.crash()
    async with serving(controller, tmp_path):
        assert "another process is registered as broker 4" in caplog.text
        assert len(registrations(controller)) > 2


async def test_a_second_process_with_the_same_id_is_refused_after_the_timeout(
    controller: RunningController, tmp_path: Path
) -> None:
    async with serving(controller, tmp_path / "a"):
        with pytest.raises(CannotStart, match="DUPLICATE_BROKER_REGISTRATION"):
            await start(controller, tmp_path / "b", initial_broker_registration_timeout_ms="1200")


async def test_an_unregistered_broker_registers_again_without_claiming_a_clean_shutdown(
    controller: RunningController, tmp_path: Path
) -> None:
    async with serving(controller, tmp_path) as broker:
        epoch = broker.control_plane.broker_epoch
        controller.model._append([UnregisterBrokerRecord(broker_id=NODE_ID, broker_epoch=epoch)])
        controller.model.sessions.pop(NODE_ID)
        controller.model.commit()
        await until(lambda: len(registrations(controller)) == 2)
        again = registrations(controller)[1]
        assert again.previous_broker_epoch == -1
        assert again.incarnation_id == registrations(controller)[0].incarnation_id
        await until(lambda: not controller.model.image.brokers[NODE_ID].fenced)
        await until(lambda: member(broker).membership.phase is Phase.UNFENCED)
        assert broker.control_plane.broker_epoch > epoch
        assert broker.partitions.leader_context.own_epoch > epoch
        assert broker.partitions.leader_context.has_session


async def test_without_heartbeats_the_session_ends_by_itself(
    controller: RunningController, tmp_path: Path
) -> None:
    async with serving(controller, tmp_path) as broker:
        context = broker.partitions.leader_context
        for server in controller.servers:
            await server.stop()
        await until(lambda: not context.has_session)
        assert broker.failure is None


async def test_a_new_active_controller_is_followed(
    controller_model: StartController, tmp_path: Path
) -> None:
    controller = await controller_model(controller_ids=(1, 2))
    async with serving(controller, tmp_path) as broker:
        controller.model.elect(2)
        await controller.model.create_topics([NewTopic(name="orders", partitions=1)])
        await until(lambda: broker.partitions.get("orders", 0) is not None)
        count = len(heartbeats(controller))
        await until(lambda: len(heartbeats(controller)) > count + 1)


# --- directories


async def test_a_guest_reports_its_directory_as_cordoned_once_it_is_caught_up(
    controller: RunningController, tmp_path: Path
) -> None:
    async with serving(controller, tmp_path, cordoned_log_dirs="*") as broker:
        directory_id = broker.directory.directory_id
        asks = [it for it in heartbeats(controller) if not it.want_fence]
        assert asks[0].cordoned_log_dirs == [directory_id]


async def test_other_brokers_report_no_cordoned_directory(
    controller: RunningController, tmp_path: Path
) -> None:
    async with serving(controller, tmp_path):
        assert heartbeats(controller)[-1].cordoned_log_dirs == []


async def test_a_failed_directory_is_reported_and_ends_the_process_uncleanly(
    controller: RunningController, tmp_path: Path
) -> None:
    broker = await start(controller, tmp_path)
    health = broker.partitions.health
    health.note("orders-0", OSError(errno.EIO, "Input/output error"))
    async with asyncio.timeout(DEADLINE_SECONDS):
        reason = await broker.until_failed()
    assert "failed (orders-0: Input/output error)" in reason
    assert list(heartbeats(controller)[-1].offline_log_dirs) == [broker.directory.directory_id]
    await broker.stop()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


async def test_a_failed_directory_ends_the_process_also_without_a_controller(
    controller: RunningController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykbroker.member_disk.REPORT_SECONDS_MAX", 0.2)
    async with serving(controller, tmp_path) as broker:
        for server in controller.servers:
            await server.stop()
        broker.partitions.health.note("orders-0", OSError(errno.EIO, "Input/output error"))
        async with asyncio.timeout(DEADLINE_SECONDS):
            await broker.until_failed()


async def test_a_full_directory_fences_the_broker_until_space_is_free(
    controller: RunningController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykbroker.member_disk.SPACE_CHECK_SECONDS", 0.05)
    free = [0]
    async with serving(controller, tmp_path) as broker:
        monkeypatch.setattr(broker.directory, "space_bytes", lambda: (1 << 40, free[0]))
        broker.partitions.health.note(
            "orders-0", DiskFull(errno.ENOSPC, "full"), other_can_lead=True
        )
        await until(lambda: controller.model.image.brokers[NODE_ID].fenced)
        assert not broker.partitions.leader_context.has_session
        free[0] = 1 << 30
        await until(lambda: not controller.model.image.brokers[NODE_ID].fenced)
        await until(lambda: broker.partitions.leader_context.has_session)
        assert broker.failure is None


async def test_a_full_directory_without_other_replicas_changes_nothing(
    controller: RunningController, tmp_path: Path
) -> None:
    async with serving(controller, tmp_path) as broker:
        broker.partitions.health.note("orders-0", DiskFull(errno.ENOSPC, "full"))
        count = len(heartbeats(controller))
        await until(lambda: len(heartbeats(controller)) > count + 2)
        assert not controller.model.image.brokers[NODE_ID].fenced


async def test_a_metadata_log_on_a_full_disk_fences_the_broker(
    controller: RunningController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot learn of other leaders, so it must not lead, also without in-sync followers."""
    monkeypatch.setattr("pykbroker.member_disk.SPACE_CHECK_SECONDS", 0.05)
    free = [0]

    def append(*given: Any, **more: Any) -> None:
        if not free[0]:
            raise DiskFull(errno.ENOSPC, "No space left on device")
        appended(*given, **more)

    async with serving(controller, tmp_path) as broker:
        monkeypatch.setattr(broker.directory, "space_bytes", lambda: (1 << 40, free[0]))
        appended = ObserverLog.append
        monkeypatch.setattr(ObserverLog, "append", append)
        await controller.model.create_topics([NewTopic(name="orders")])
        await until(lambda: controller.model.image.brokers[NODE_ID].fenced)
        free[0] = 1 << 30
        await until(lambda: not controller.model.image.brokers[NODE_ID].fenced)
        assert broker.partitions.get("orders", 0) is not None


# --- partitions


async def test_partitions_on_disk_are_judged_by_metadata_with_the_own_registration(
    controller: RunningController, tmp_path: Path
) -> None:
    async with serving(controller, tmp_path) as broker:
        await controller.model.create_topics([NewTopic(name="kept"), NewTopic(name="deleted")])
        await until(lambda: broker.partitions.get("deleted", 0) is not None)
    await controller.model.delete_topics(["deleted"])
    async with serving(controller, tmp_path) as broker:
        assert broker.partitions.get("kept", 0) is not None
        assert [it.rpartition("-")[2] for it in broker.directory.strays()] == ["stray"]


async def test_heartbeats_continue_while_logs_are_recovered_after_a_crash(
    controller: RunningController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await start(controller, tmp_path)
    await controller.model.create_topics([NewTopic(name="orders", partitions=3)])
    await until(lambda: broker.partitions.get("orders", 2) is not None)
    await broker.crash()
    open_log = Partitions.open_log
    event_loop_thread = threading.get_ident()
    recovered: list[int] = []

    def recover_slowly(partitions: Partitions, topic: TopicImage, index: int, given: Any) -> Any:
        if threading.get_ident() != event_loop_thread:
            time.sleep(SESSION_SECONDS / 2)
            recovered.append(index)
        return open_log(partitions, topic, index, given)

    monkeypatch.setattr(Partitions, "open_log", recover_slowly)
    async with serving(controller, tmp_path) as broker:
        assert recovered == [0, 1, 2]
        epoch = broker.control_plane.broker_epoch
        waiting = [
            it for it in heartbeats(controller) if it.broker_epoch == epoch and it.want_fence
        ]
        assert len(waiting) > 3
        assert all(broker.partitions.get("orders", it) is not None for it in range(3))


async def test_a_start_that_is_cancelled_during_recovery_ends_after_the_running_log(
    controller: RunningController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await start(controller, tmp_path)
    await controller.model.create_topics([NewTopic(name="orders", partitions=3)])
    await until(lambda: broker.partitions.get("orders", 2) is not None)
    await broker.crash()
    open_log = Partitions.open_log
    recovered: list[int] = []

    def recover_slowly(partitions: Partitions, topic: TopicImage, index: int, given: Any) -> Any:
        recovered.append(index)
        time.sleep(SESSION_SECONDS / 5)
        return open_log(partitions, topic, index, given)

    monkeypatch.setattr(Partitions, "open_log", recover_slowly)
    settings = settings_of(controller.address, tmp_path)
    starting = asyncio.ensure_future(Broker.start(settings))
    await until(lambda: recovered)
    starting.cancel()
    await asyncio.wait([starting])
    assert len(recovered) < 3


# --- listeners


async def test_each_listener_is_registered_with_its_advertised_address(
    controller: RunningController, tmp_path: Path
) -> None:
    more = {
        "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0",
        "advertised_listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://example.org:9094",
        "listener_security_protocol_map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,C:PLAINTEXT",
        "inter_broker_listener_name": "INTERNAL",
        "controller_listener_names": "C",
    }
    async with serving(controller, tmp_path, **more) as broker:
        assert controller.model.image.brokers[NODE_ID].listeners == {
            "INTERNAL": ("127.0.0.1", broker.bound_port),
            "EXTERNAL": ("example.org", 9094),
        }
