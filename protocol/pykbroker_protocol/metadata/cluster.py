"""Metadata records about nodes, features, producer id blocks and metadata transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.message import (
    UUID,
    Message,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class BrokerEndpoint(Message):
    name: str = string("0+")
    host: str = string("0+")
    port: int = uint16("0+")
    security_protocol: int = int16("0+")


class BrokerFeature(Message):
    name: str = string("0+")
    min_supported_version: int = int16("0+")
    max_supported_version: int = int16("0+")


class RegisterBrokerRecord(Message, record_type=0, versions="0-4", flexible="0+"):
    broker_id: int = int32("0+")
    is_migrating_zk_broker: bool = boolean("2+", default=False)
    incarnation_id: bytes = uuid("0+")
    broker_epoch: int = int64("0+")
    end_points: Sequence[BrokerEndpoint] = array(BrokerEndpoint, "0+")
    features: Sequence[BrokerFeature] = array(BrokerFeature, "0+")
    rack: str | None = string("0+", nullable="0+")
    fenced: bool = boolean("0+", default=True)
    in_controlled_shutdown: bool = boolean("1+", default=False)
    log_dirs: Sequence[bytes] = array(UUID, "3+", tag=0, default=())
    cordoned_log_dirs: Sequence[bytes] | None = array(
        UUID, "4+", nullable="4+", tag=1, default=None
    )


class UnregisterBrokerRecord(Message, record_type=1, versions="0", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+")


class FenceBrokerRecord(Message, record_type=7, versions="0", flexible="0+"):
    id: int = int32("0+")
    epoch: int = int64("0+")


class UnfenceBrokerRecord(Message, record_type=8, versions="0", flexible="0+"):
    id: int = int32("0+")
    epoch: int = int64("0+")


class BrokerRegistrationChangeRecord(Message, record_type=17, versions="0-3", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+")
    fenced: int = int8("0+", tag=0, default=0)
    in_controlled_shutdown: int = int8("1+", tag=1, default=0)
    log_dirs: Sequence[bytes] = array(UUID, "2+", tag=2, default=())
    cordoned_log_dirs: Sequence[bytes] | None = array(
        UUID, "3+", nullable="3+", tag=3, default=None
    )


class ControllerEndpoint(Message):
    name: str = string("0+")
    host: str = string("0+")
    port: int = uint16("0+")
    security_protocol: int = int16("0+")


class ControllerFeature(Message):
    name: str = string("0+")
    min_supported_version: int = int16("0+")
    max_supported_version: int = int16("0+")


class RegisterControllerRecord(Message, record_type=27, versions="0", flexible="0+"):
    controller_id: int = int32("0+")
    incarnation_id: bytes = uuid("0+")
    zk_migration_ready: bool = boolean("0+")
    end_points: Sequence[ControllerEndpoint] = array(ControllerEndpoint, "0+")
    features: Sequence[ControllerFeature] = array(ControllerFeature, "0+")


class FeatureLevelRecord(Message, record_type=12, versions="0", flexible="0+"):
    name: str = string("0+")
    feature_level: int = int16("0+")


class ProducerIdsRecord(Message, record_type=15, versions="0", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    next_producer_id: int = int64("0+")


class NoOpRecord(Message, record_type=20, versions="0", flexible="0+"):
    pass


class BeginTransactionRecord(Message, record_type=23, versions="0", flexible="0+"):
    name: str | None = string("0+", nullable="0+", tag=0, default=None)


class EndTransactionRecord(Message, record_type=24, versions="0", flexible="0+"):
    pass


class AbortTransactionRecord(Message, record_type=25, versions="0", flexible="0+"):
    reason: str | None = string("0+", nullable="0+", tag=0, default=None)


class ZkMigrationStateRecord(Message, record_type=21, versions="0", flexible="0+"):
    zk_migration_state: int = int8("0+")
