"""Request handlers, one module per API, and `APIS`, the only table of served APIs and versions.

ApiVersions responses, version checks, decoding and documents are derived from `APIS`. The module of
an API is imported at its first request.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import Message, Versions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pykbroker.apis.node import Call

    Handle: TypeAlias = Callable[[Any, Call], Message | Awaitable[Message | None] | None]


class Api:
    """One row of the table: an API, its served versions and its handler.

    The message types are those of `pykbroker_protocol.messages.<name>`, the handler is
    `pykbroker.apis.<name>.handle`.
    """

    def __init__(
        self,
        key: ApiKey,
        served: tuple[int, int],
        *,
        advertised_from: int | None = None,
        pipelined: bool = False,
        answer_only: bool = False,
        divided: str | None = None,
        forwarded: bool = False,
    ) -> None:
        self.key = key
        self.served = Versions(*served)
        self.advertised = Versions(
            served[0] if advertised_from is None else advertised_from, served[1]
        )
        self.pipelined = pipelined
        """The connection serves further requests while the response to this one is pending."""
        self.answer_only = answer_only
        """The request has no effect besides its response: it is cancelled on disconnect."""
        self.divided = divided
        """The array at which a large request is divided; its elements are independent."""
        self.forwarded = forwarded
        """The active controller serves the request if it is not in this process (KIP-590)."""
        self._request_type: type[Message] | None = None
        self._handle: Handle | None = None

    def limited(self, first: int, last: int, handle: Handle | None = None) -> Api | None:
        """Returns a copy with fewer versions or another handler; None if no version is left."""
        served = max(first, self.served.first), min(last, self.served.last)
        if served[0] > served[1]:
            return None
        api = Api(
            self.key,
            served,
            advertised_from=max(first, self.advertised.first),
            pipelined=self.pipelined,
            answer_only=self.answer_only,
            divided=self.divided,
            forwarded=self.forwarded,
        )
        api._handle = handle
        return api

    def forwarding(self) -> Api:
        """Returns a copy whose handler forwards whole requests to the active controller."""
        from pykbroker.apis.forwarding import forwarding_handle  # noqa: PLC0415  # rarely needed

        api = Api(self.key, self.served, advertised_from=self.advertised.first, forwarded=True)
        api._handle = forwarding_handle(self)
        return api

    @property
    def name(self) -> str:
        return self.key.name.lower()

    @property
    def title(self) -> str:
        """Returns the name in Kafka's spelling, for example OffsetForLeaderEpoch."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def request_type(self) -> type[Message]:
        if self._request_type is None:
            module = import_module(f"pykbroker_protocol.messages.{self.name}")
            self._request_type = getattr(module, f"{self.title}Request")
        assert self._request_type is not None
        return self._request_type

    @property
    def response_type(self) -> type[Message]:
        module = import_module(f"pykbroker_protocol.messages.{self.name}")
        response_type: type[Message] = getattr(module, f"{self.title}Response")
        return response_type

    @property
    def handle(self) -> Handle:
        if self._handle is None:
            self._handle = import_module(f"pykbroker.apis.{self.name}").handle
        assert self._handle is not None
        return self._handle


_ROWS = (
    # KAFKA-18659: librdkafka concludes from Produce version 0 that gzip, snappy and lz4 work.
    Api(ApiKey.PRODUCE, (3, 13), advertised_from=0, pipelined=True, divided="topic_data"),
    Api(ApiKey.FETCH, (4, 18), answer_only=True),
    Api(ApiKey.LIST_OFFSETS, (1, 11)),
    Api(ApiKey.METADATA, (0, 13)),
    Api(ApiKey.OFFSET_COMMIT, (2, 10), divided="topics"),
    Api(ApiKey.OFFSET_FETCH, (1, 10)),
    Api(ApiKey.FIND_COORDINATOR, (0, 6), divided="coordinator_keys"),
    Api(ApiKey.JOIN_GROUP, (0, 9)),
    Api(ApiKey.HEARTBEAT, (0, 4)),
    Api(ApiKey.LEAVE_GROUP, (0, 5), divided="members"),
    Api(ApiKey.SYNC_GROUP, (0, 5)),
    Api(ApiKey.DESCRIBE_GROUPS, (0, 6)),
    Api(ApiKey.LIST_GROUPS, (0, 5)),
    Api(ApiKey.API_VERSIONS, (0, 4)),
    Api(ApiKey.CREATE_TOPICS, (2, 7), forwarded=True),
    Api(ApiKey.DELETE_TOPICS, (1, 6), forwarded=True),
    Api(ApiKey.DELETE_RECORDS, (0, 2)),
    Api(ApiKey.INIT_PRODUCER_ID, (0, 5)),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, (2, 4), divided="topics"),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, (0, 5)),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, (0, 4)),
    Api(ApiKey.END_TXN, (0, 5)),
    Api(ApiKey.WRITE_TXN_MARKERS, (1, 2), divided="markers"),
    Api(ApiKey.TXN_OFFSET_COMMIT, (0, 5), divided="topics"),
    Api(ApiKey.DESCRIBE_ACLS, (1, 3)),
    Api(ApiKey.CREATE_ACLS, (1, 3), forwarded=True),
    Api(ApiKey.DELETE_ACLS, (1, 3), forwarded=True),
    Api(ApiKey.DESCRIBE_CONFIGS, (1, 4)),
    Api(ApiKey.ALTER_CONFIGS, (0, 2), forwarded=True),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, (1, 2), divided="dirs"),
    Api(ApiKey.DESCRIBE_LOG_DIRS, (1, 5)),
    Api(ApiKey.CREATE_PARTITIONS, (0, 3), forwarded=True),
    Api(ApiKey.CREATE_DELEGATION_TOKEN, (1, 3)),
    Api(ApiKey.RENEW_DELEGATION_TOKEN, (1, 2)),
    Api(ApiKey.EXPIRE_DELEGATION_TOKEN, (1, 2)),
    Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, (1, 3)),
    Api(ApiKey.DELETE_GROUPS, (0, 2), divided="groups_names"),
    Api(ApiKey.ELECT_LEADERS, (0, 2), divided="topic_partitions", forwarded=True),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, (0, 1), forwarded=True),
    Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, (0, 1), divided="topics", forwarded=True),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, (0, 0), forwarded=True),
    Api(ApiKey.OFFSET_DELETE, (0, 0), divided="topics"),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, (0, 0)),
    Api(ApiKey.DESCRIBE_QUORUM, (0, 2), forwarded=True),
    Api(ApiKey.UPDATE_FEATURES, (0, 2), forwarded=True),
    Api(ApiKey.DESCRIBE_CLUSTER, (0, 2)),
    Api(ApiKey.DESCRIBE_PRODUCERS, (0, 0)),
    Api(ApiKey.UNREGISTER_BROKER, (0, 0), forwarded=True),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, (0, 0)),
    Api(ApiKey.LIST_TRANSACTIONS, (0, 2)),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, (0, 1)),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, (0, 1)),
    Api(ApiKey.LIST_CONFIG_RESOURCES, (0, 1)),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, (0, 0)),
)

APIS: dict[int, Api] = {api.key: api for api in _ROWS}
