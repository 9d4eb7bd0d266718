"""BrokerRegistration: registers a broker with the active controller.

Not served. Declared versions: 0-4
     0  first version, flexible (KIP-631)
     1  is_migrating_zk_broker (KIP-866)
     2  log_dirs (KIP-858)
     3  previous_broker_epoch (KIP-966)
     4  features with a minimum level of 0 (KIP-1022)
Reason: Brokers send it to a controller; controllers serve it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    UUID,
    Message,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class Listener(Message):
    name: str = string("0+")
    host: str = string("0+")
    port: int = uint16("0+")
    security_protocol: int = int16("0+")


class Feature(Message):
    name: str = string("0+")
    min_supported_version: int = int16("0+")
    max_supported_version: int = int16("0+")


class BrokerRegistrationRequest(
    Message, api=ApiKey.BROKER_REGISTRATION, versions="0-4", flexible="0+"
):
    broker_id: int = int32("0+")
    cluster_id: str = string("0+")
    incarnation_id: bytes = uuid("0+")
    listeners: Sequence[Listener] = array(Listener, "0+")
    features: Sequence[Feature] = array(Feature, "0+")
    rack: str | None = string("0+", nullable="0+")
    is_migrating_zk_broker: bool = boolean("1+", default=False)
    log_dirs: Sequence[bytes] = array(UUID, "2+", default=(), ignorable=True)
    previous_broker_epoch: int = int64("3+", default=-1, ignorable=True)


class BrokerRegistrationResponse(
    Message, api=ApiKey.BROKER_REGISTRATION, versions="0-4", flexible="0+"
):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+")
    broker_epoch: int = int64("0+", default=-1)
