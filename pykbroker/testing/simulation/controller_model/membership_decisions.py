"""Decides BrokerRegistration and BrokerHeartbeat as KRaft does: records in, no side effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker.controller.decision import Decision
from pykbroker.testing.simulation.controller_model.broker_sessions import (
    BrokerState,
    Heartbeat,
    Session,
    has_valid_session,
    leads_partitions,
    lowest_active_offset,
    next_state,
    state_of,
)
from pykbroker.testing.simulation.controller_model.partition_changes import (
    ELIGIBLE_LEADER_REPLICAS,
    with_broker,
    without_broker,
    without_directories,
)
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.metadata.cluster import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pykbroker.metadata.image import BrokerImage, ClusterImage
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
    from pykbroker_protocol.messages.broker_registration import BrokerRegistrationRequest

FENCE, UNFENCE = 1, -1
IN_CONTROLLED_SHUTDOWN = 1

ANOTHER_BROKER = Refusal(
    ErrorCode.DUPLICATE_BROKER_REGISTRATION, "Another broker is registered with that broker id."
)


class HeartbeatOutcome(NamedTuple):
    state: BrokerState
    is_caught_up: bool
    session: Session


def register(
    image: ClusterImage,
    request: BrokerRegistrationRequest,
    session: Session | None,
    *,
    next_offset: int,
    now_seconds: float,
    timeout_seconds: float,
) -> Decision[int | Refusal]:
    """Returns the broker epoch: the offset of the registration record."""
    refusal = refuse_registration(image, request)
    if refusal is not None:
        return Decision((), refusal)
    known = image.brokers.get(request.broker_id)
    is_same = known is not None and known.incarnation_id == request.incarnation_id
    records: list[Message] = []
    if known is not None and not is_same:
        if has_valid_session(
            known, session, now_seconds=now_seconds, timeout_seconds=timeout_seconds
        ):
            return Decision((), ANOTHER_BROKER)
        records += _end_incarnation(image, known, request.previous_broker_epoch)
    broker_epoch = known.epoch if known is not None and is_same else next_offset + len(records)
    records.append(
        RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            broker_epoch=broker_epoch,
            end_points=[
                BrokerEndpoint(
                    name=it.name,
                    host=it.host,
                    port=it.port,
                    security_protocol=it.security_protocol,
                )
                for it in request.listeners
            ],
            features=[
                BrokerFeature(
                    name=it.name,
                    min_supported_version=it.min_supported_version,
                    max_supported_version=it.max_supported_version,
                )
                for it in request.features
            ],
            rack=request.rack,
            fenced=known.fenced if known is not None and is_same else True,
            in_controlled_shutdown=(
                known.in_controlled_shutdown if known is not None and is_same else False
            ),
            log_dirs=tuple(request.log_dirs),
        )
    )
    return Decision(records, broker_epoch)


def _end_incarnation(
    image: ClusterImage, known: BrokerImage, previous_broker_epoch: int
) -> list[Message]:
    """Removes an earlier incarnation from in-sync sets.

    After an unclean shutdown, also from eligible leader replicas: the log may have lost its end.
    """
    detects = image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0
    was_clean = not detects or previous_broker_epoch == known.epoch
    return list(without_broker(image, known.id, was_clean=was_clean))


def refuse_registration(image: ClusterImage, request: BrokerRegistrationRequest) -> Refusal | None:
    if request.cluster_id != image.cluster_id:
        return Refusal(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    if not request.log_dirs:
        return Refusal(ErrorCode.INVALID_REQUEST, "No directories specified in request")
    ranges = {it.name: it for it in request.features}
    for name, level in image.features.items():
        found = ranges.get(name)
        lowest, highest = (
            (0, 0) if found is None else (found.min_supported_version, found.max_supported_version)
        )
        if not lowest <= level <= highest:
            return Refusal(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} "
                f"of {name}. The broker wants a version between {lowest} and {highest}, inclusive.",
            )
    return None


def check_epoch(image: ClusterImage, broker_id: int, broker_epoch: int) -> Refusal | None:
    broker = image.brokers.get(broker_id)
    if broker is None:
        return Refusal(ErrorCode.BROKER_ID_NOT_REGISTERED, "Broker is not registered.")
    if broker.epoch != broker_epoch:
        return Refusal(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}",
        )
    return None


def heartbeat(
    image: ClusterImage,
    request: BrokerHeartbeatRequest,
    sessions: Mapping[int, Session],
    *,
    last_offset: int,
    now_seconds: float,
) -> Decision[HeartbeatOutcome | Refusal]:
    refusal = check_epoch(image, request.broker_id, request.broker_epoch)
    if refusal is not None:
        return Decision((), refusal)
    broker = image.brokers[request.broker_id]
    session = sessions.get(broker.id)
    leads = leads_partitions(image, broker.id)
    shutdown_offset = None if session is None else session.shutdown_offset
    before = state_of(broker)
    if before is BrokerState.CONTROLLED_SHUTDOWN and not leads and shutdown_offset is None:
        shutdown_offset = last_offset
    after = next_state(
        broker,
        Heartbeat(
            metadata_offset=request.current_metadata_offset,
            requests_fence=request.want_fence,
            requests_shutdown=request.want_shut_down,
        ),
        leads=leads,
        shutdown_offset=shutdown_offset,
        lowest_offset=lowest_active_offset(image, sessions),
    )
    records = list(_transition(image, broker, before, after)) if after is not before else []
    offline = frozenset(request.offline_log_dirs).intersection(broker.directories)
    if offline and not records:
        records = _lose_directories(image, broker, offline)
    touched = Session(
        broker_epoch=broker.epoch,
        contact_seconds=now_seconds,
        metadata_offset=request.current_metadata_offset,
        shutdown_offset=shutdown_offset,
    )
    is_caught_up = request.current_metadata_offset >= broker.epoch
    return Decision(records, HeartbeatOutcome(after, is_caught_up, touched))


def _transition(
    image: ClusterImage, broker: BrokerImage, before: BrokerState, after: BrokerState
) -> list[Message]:
    match after:
        case BrokerState.UNFENCED:
            return [_registration_change(broker, fenced=UNFENCE), *with_broker(image, broker.id)]
        case BrokerState.CONTROLLED_SHUTDOWN:
            change = _registration_change(broker, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN)
            return [change, *without_broker(image, broker.id)]
        case _:
            return [] if before is BrokerState.FENCED else fence(image, broker.id)


def fence(image: ClusterImage, broker_id: int) -> list[Message]:
    """Returns the records that fence a broker and elect other leaders."""
    change = _registration_change(image.brokers[broker_id], fenced=FENCE)
    return [*without_broker(image, broker_id), change]


def _lose_directories(
    image: ClusterImage, broker: BrokerImage, offline: frozenset[bytes]
) -> list[Message]:
    left = tuple(it for it in broker.directories if it not in offline)
    change = _registration_change(broker, directories=left)
    return [change, *without_directories(image, broker.id, offline)]


def _registration_change(
    broker: BrokerImage,
    *,
    fenced: int = 0,
    in_controlled_shutdown: int = 0,
    directories: Sequence[bytes] = (),
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        log_dirs=directories,
    )
