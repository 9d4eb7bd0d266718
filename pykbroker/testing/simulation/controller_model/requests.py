"""Serves the requests of a controller listener with a controller model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pykbroker.apis import APIS
from pykbroker.apis.node import Call, Node
from pykbroker.apis.peer import Peer
from pykbroker.generation import Generation
from pykbroker.metadata.features import SUPPORTED_FEATURES
from pykbroker.testing.simulation.controller_model.broker_sessions import BrokerState
from pykbroker.testing.simulation.controller_model.log_requests import (
    fetch_metadata,
    read_snapshot,
)
from pykbroker.testing.simulation.controller_model.model import LeadershipLost
from pykbroker.testing.simulation.controller_model.partition_changes import ELIGIBLE_LEADER_REPLICAS
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import reader_of
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.frame import body_position, read_request_header, write_response
from pykbroker_protocol.message import Message
from pykbroker_protocol.messages import (
    allocate_producer_ids,
    alter_partition,
    api_versions,
    broker_heartbeat,
    broker_registration,
    describe_cluster,
    envelope,
)
from pykbroker_protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from pykbroker_protocol.messages.fetch import FetchRequest, FetchResponse
from pykbroker_protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pykbroker.testing.simulation.controller_model.model import ControllerModel
    from pykbroker_protocol.compiler import Buffer

Sent = TypeVar("Sent", bound=Message)
Outcome = TypeVar("Outcome")

CONTROLLER_ENDPOINT = 2

FORWARDED = (
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.UPDATE_FEATURES,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.DESCRIBE_QUORUM,
)
"""Admin requests, accepted directly and in an Envelope."""


class ServedApi(NamedTuple):
    request: type[Message]
    first: int
    last: int
    handle: Callable[[ControllerRequests, Any, int], Awaitable[Message]]


class MalformedFrame(Exception):
    """The request cannot be answered; the connection closes."""


class ControllerRequests:
    """The requests to one controller of the quorum, active or not."""

    def __init__(self, model: ControllerModel, controller_id: int) -> None:
        self._model = model
        self._controller_id = controller_id

    async def serve(self, frame: Buffer) -> list[Buffer]:
        """Returns the response to a request without its frame size."""
        header = read_request_header(frame)
        key, version = header.api_key, header.api_version
        served = SERVED.get(key)
        if served is None or not served.first <= version <= served.last:
            if key == ApiKey.API_VERSIONS:
                refused = api_versions.ApiVersionsResponse(
                    error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=()
                )
                return write_response(refused, 0, header.correlation_id)
            raise MalformedFrame(f"API {key} version {version} is not served by a controller")
        read = reader_of(served.request, version)
        request, _ = read(frame, body_position(header, frame, served.request))
        self._model.received.append(request)
        response = await served.handle(self, request, version)
        return write_response(response, version, header.correlation_id)

    @property
    def _is_active(self) -> bool:
        return self._model.leader_id == self._controller_id

    # --- discovery

    async def api_versions(
        self, request: api_versions.ApiVersionsRequest, version: int
    ) -> api_versions.ApiVersionsResponse:
        del request
        model = self._model
        return api_versions.ApiVersionsResponse(
            error_code=ErrorCode.NONE,
            api_keys=[
                api_versions.ApiVersion(api_key=key, min_version=it.first, max_version=it.last)
                for key, it in sorted(SERVED.items())
            ],
            supported_features=[
                api_versions.SupportedFeatureKey(name=name, min_version=low, max_version=high)
                for name, (low, high) in {
                    **SUPPORTED_FEATURES,
                    ELIGIBLE_LEADER_REPLICAS: (0, 1),
                }.items()
                if low > 0 or version >= 4
            ],
            finalized_features_epoch=model.image.offset,
            finalized_features=[
                api_versions.FinalizedFeatureKey(
                    name=name, max_version_level=level, min_version_level=level
                )
                for name, level in sorted(model.image.features.items())
            ],
        )

    async def describe_cluster(
        self, request: describe_cluster.DescribeClusterRequest, version: int
    ) -> describe_cluster.DescribeClusterResponse:
        del version
        model = self._model
        if request.endpoint_type != CONTROLLER_ENDPOINT:
            return describe_cluster.DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, cluster_id="", brokers=()
            )
        return describe_cluster.DescribeClusterResponse(
            error_code=ErrorCode.NONE,
            endpoint_type=CONTROLLER_ENDPOINT,
            cluster_id=model.cluster_id,
            controller_id=model.leader_id,
            brokers=[
                describe_cluster.DescribeClusterBroker(broker_id=it, host=host, port=port)
                for it, (host, port) in sorted(model.endpoints.items())
            ],
        )

    # --- the metadata log

    async def fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        del version
        return await fetch_metadata(self._model, self._controller_id, request)

    async def fetch_snapshot(
        self, request: FetchSnapshotRequest, version: int
    ) -> FetchSnapshotResponse:
        del version
        return read_snapshot(self._model, self._controller_id, request)

    # --- brokers

    async def broker_registration(
        self, request: broker_registration.BrokerRegistrationRequest, version: int
    ) -> broker_registration.BrokerRegistrationResponse:
        del version
        outcome = await self._as_leader(self._model.register, request)
        if isinstance(outcome, Refusal):
            return broker_registration.BrokerRegistrationResponse(error_code=outcome.code)
        return broker_registration.BrokerRegistrationResponse(
            error_code=ErrorCode.NONE, broker_epoch=outcome
        )

    async def broker_heartbeat(
        self, request: broker_heartbeat.BrokerHeartbeatRequest, version: int
    ) -> broker_heartbeat.BrokerHeartbeatResponse:
        del version
        outcome = await self._as_leader(self._model.heartbeat, request)
        if isinstance(outcome, Refusal):
            return broker_heartbeat.BrokerHeartbeatResponse(error_code=outcome.code)
        return broker_heartbeat.BrokerHeartbeatResponse(
            error_code=ErrorCode.NONE,
            is_caught_up=outcome.is_caught_up,
            is_fenced=outcome.state.is_fenced,
            should_shut_down=outcome.state is BrokerState.SHUTDOWN_NOW,
        )

    async def alter_partition(
        self, request: alter_partition.AlterPartitionRequest, version: int
    ) -> alter_partition.AlterPartitionResponse:
        del version
        outcome: alter_partition.AlterPartitionResponse | Refusal = await self._as_leader(
            self._model.alter_partitions, request
        )
        if isinstance(outcome, Refusal):
            return alter_partition.AlterPartitionResponse(error_code=outcome.code, topics=())
        return outcome

    async def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest, version: int
    ) -> AssignReplicasToDirsResponse:
        del version
        outcome: AssignReplicasToDirsResponse | Refusal = await self._as_leader(
            self._model.assign_directories, request
        )
        if isinstance(outcome, Refusal):
            return AssignReplicasToDirsResponse(error_code=outcome.code, directories=())
        return outcome

    async def allocate_producer_ids(
        self, request: allocate_producer_ids.AllocateProducerIdsRequest, version: int
    ) -> allocate_producer_ids.AllocateProducerIdsResponse:
        del version
        outcome = await self._as_leader(self._model.allocate_ids, request)
        if isinstance(outcome, Refusal):
            return allocate_producer_ids.AllocateProducerIdsResponse(
                error_code=outcome.code, producer_id_start=-1, producer_id_len=0
            )
        return allocate_producer_ids.AllocateProducerIdsResponse(
            error_code=ErrorCode.NONE, producer_id_start=outcome.start, producer_id_len=len(outcome)
        )

    async def _as_leader(self, execute: Callable[[Any], Awaitable[Any]], request: Message) -> Any:
        """Returns the outcome; NOT_CONTROLLER if this controller does not lead until the commit."""
        if not self._is_active:
            return Refusal(ErrorCode.NOT_CONTROLLER)
        try:
            return await execute(request)
        except LeadershipLost:
            return Refusal(ErrorCode.NOT_CONTROLLER)

    # --- admin requests

    async def envelope(
        self, request: envelope.EnvelopeRequest, version: int
    ) -> envelope.EnvelopeResponse:
        del version
        if not self._is_active:
            return envelope.EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        frame = memoryview(bytes(request.request_data))
        header = read_request_header(frame)
        if header.api_key not in FORWARDED:
            return envelope.EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
        served = SERVED[header.api_key]
        if not served.first <= header.api_version <= served.last:
            return envelope.EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        try:
            response = await self.serve(frame)
        except LeadershipLost:
            return envelope.EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        return envelope.EnvelopeResponse(
            error_code=ErrorCode.NONE, response_data=b"".join(response)
        )

    async def admin(self, key: ApiKey, request: Message, version: int) -> Message:
        """Serves an admin request with the handler of a broker and the model as controller."""
        model = self._model
        missing: Any = None  # parts of a broker that admin requests do not use
        node = Node(
            node_id=self._controller_id,
            settings=model.settings,
            clock=model.clock,
            controller=model,
            image=model.image,
            partitions=missing,
            fetch_sessions=missing,
            producer_ids=missing,
            groups=missing,
            transactions=missing,
            randomness=model.randomness,
            generation=Generation(),
        )
        peer = Peer(host="broker", port=0, listener="CONTROLLER", connection_id=0)
        answer = APIS[key].handle(request, Call(node, version, None, peer))
        assert answer is not None
        found = answer if isinstance(answer, Message) else await answer
        assert found is not None
        return found


def _admin_api(key: ApiKey) -> ServedApi:
    async def handle(requests: ControllerRequests, request: Message, version: int) -> Message:
        return await requests.admin(key, request, version)

    api = APIS[key]
    return ServedApi(api.request_type, api.served.first, api.served.last, handle)


SERVED: Mapping[int, ServedApi] = {
    ApiKey.API_VERSIONS: ServedApi(
        api_versions.ApiVersionsRequest, 0, 4, ControllerRequests.api_versions
    ),
    ApiKey.DESCRIBE_CLUSTER: ServedApi(
        describe_cluster.DescribeClusterRequest, 0, 2, ControllerRequests.describe_cluster
    ),
    ApiKey.FETCH: ServedApi(FetchRequest, 12, 18, ControllerRequests.fetch),
    ApiKey.FETCH_SNAPSHOT: ServedApi(FetchSnapshotRequest, 0, 1, ControllerRequests.fetch_snapshot),
    ApiKey.BROKER_REGISTRATION: ServedApi(
        broker_registration.BrokerRegistrationRequest, 0, 4, ControllerRequests.broker_registration
    ),
    ApiKey.BROKER_HEARTBEAT: ServedApi(
        broker_heartbeat.BrokerHeartbeatRequest, 0, 2, ControllerRequests.broker_heartbeat
    ),
    ApiKey.ALTER_PARTITION: ServedApi(
        alter_partition.AlterPartitionRequest, 2, 3, ControllerRequests.alter_partition
    ),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: ServedApi(
        AssignReplicasToDirsRequest,
        0,
        0,
        ControllerRequests.assign_replicas_to_dirs,
    ),
    ApiKey.ALLOCATE_PRODUCER_IDS: ServedApi(
        allocate_producer_ids.AllocateProducerIdsRequest,
        0,
        0,
        ControllerRequests.allocate_producer_ids,
    ),
    ApiKey.ENVELOPE: ServedApi(envelope.EnvelopeRequest, 0, 0, ControllerRequests.envelope),
    **{key: _admin_api(key) for key in FORWARDED},
}
