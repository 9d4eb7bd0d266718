"""Dynamic group configuration survives a kill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.apis.groups.consuming import Consumer
from tests.apis.groups.transcript import GroupTranscript
from tests.end_to_end.groups.test_textbook import SETTINGS

if TYPE_CHECKING:
    from compat.broker_process import BrokerProcess
    from tests.end_to_end.conftest import StartBroker

GROUP = 32
STOCK_MS = SETTINGS["group.consumer.heartbeat.interval.ms"]
OWN_MS = 4_000


def heartbeat_interval_ms(broker: BrokerProcess, name: str) -> int:
    transcript = GroupTranscript(broker.port, "configured", 0)
    try:
        consumer = Consumer(transcript.group(name), "consumer")
        interval_ms: int = consumer.join().heartbeat_interval_ms
        return interval_ms
    finally:
        transcript.close()


def set_interval(broker: BrokerProcess, name: str) -> None:
    transcript = GroupTranscript(broker.port, "configured", 0)
    value = AlterableConfig(
        name="consumer.heartbeat.interval.ms", config_operation=0, value=str(OWN_MS)
    )
    resource = AlterConfigsResource(
        resource_type=GROUP, resource_name=transcript.group(name).id, configs=[value]
    )
    try:
        answer = transcript.quietly(
            IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1
        )
        assert not answer.responses[0].error_code, answer
    finally:
        transcript.close()


def test_intervals_of_a_group_outlive_a_kill(start_broker: StartBroker) -> None:
    broker = start_broker(settings=SETTINGS)
    assert heartbeat_interval_ms(broker, "fleet") == STOCK_MS
    set_interval(broker, "fleet")
    for _ in range(2):
        assert heartbeat_interval_ms(broker, "fleet") == OWN_MS
        assert heartbeat_interval_ms(broker, "others") == STOCK_MS
        broker.kill()
        broker.start()
