"""Error codes of the protocol: number, whether a retry can succeed, and a message."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Self

RETRIABLE, FINAL = 1, 0


class ErrorCode(IntEnum):
    """The error code of a response, sent as its number."""

    retriable: bool
    sentence: str

    def __new__(cls, number: int, retriable: int, sentence: str) -> Self:
        code = int.__new__(cls, number)
        code._value_ = number
        code.retriable = bool(retriable)
        code.sentence = sentence
        return code

    UNKNOWN_SERVER_ERROR = (
        -1,
        FINAL,
        "Internal error while the broker processed the request.",
    )
    NONE = 0, FINAL, "No error."
    OFFSET_OUT_OF_RANGE = 1, FINAL, "The offset is outside the range of the partition's log."
    CORRUPT_MESSAGE = (
        2,
        RETRIABLE,
        "The record batch is corrupt: its checksum, size or format is invalid.",
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, RETRIABLE, "This broker does not host the topic or partition."
    INVALID_FETCH_SIZE = 4, FINAL, "The fetch size is invalid."
    LEADER_NOT_AVAILABLE = 5, RETRIABLE, "The partition has no leader."
    NOT_LEADER_OR_FOLLOWER = (
        6,
        RETRIABLE,
        "This broker is not the leader or not a replica of the partition.",
    )
    REQUEST_TIMED_OUT = (
        7,
        RETRIABLE,
        "The request was not completed within its timeout.",
    )
    BROKER_NOT_AVAILABLE = 8, FINAL, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, RETRIABLE, "The replica is not available."
    MESSAGE_TOO_LARGE = 10, FINAL, "A record batch exceeds max.message.bytes of the topic."
    STALE_CONTROLLER_EPOCH = 11, FINAL, "The controller epoch is stale; a newer controller exists."
    OFFSET_METADATA_TOO_LARGE = 12, FINAL, "The metadata of an offset commit is too long."
    NETWORK_EXCEPTION = 13, RETRIABLE, "The connection closed before the response arrived."
    COORDINATOR_LOAD_IN_PROGRESS = 14, RETRIABLE, "The coordinator is loading its state."
    COORDINATOR_NOT_AVAILABLE = 15, RETRIABLE, "The coordinator is not available."
    NOT_COORDINATOR = 16, RETRIABLE, "This broker is not the coordinator."
    INVALID_TOPIC_EXCEPTION = 17, FINAL, "The topic name is invalid."
    RECORD_LIST_TOO_LARGE = 18, FINAL, "The record batch is larger than a log segment."
    NOT_ENOUGH_REPLICAS = (
        19,
        RETRIABLE,
        "Fewer replicas are in sync than min.insync.replicas; nothing was appended.",
    )
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        RETRIABLE,
        "The records were appended, but fewer replicas are in sync than min.insync.replicas.",
    )
    INVALID_REQUIRED_ACKS = 21, FINAL, "acks must be -1, 0 or 1."
    ILLEGAL_GENERATION = (
        22,
        FINAL,
        "The generation id is not the current generation of the group.",
    )
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        FINAL,
        "The member and the group have no common protocol.",
    )
    INVALID_GROUP_ID = 24, FINAL, "The group id is invalid."
    UNKNOWN_MEMBER_ID = 25, FINAL, "The group has no member with this id."
    INVALID_SESSION_TIMEOUT = 26, FINAL, "The session timeout is outside the limits of the broker."
    REBALANCE_IN_PROGRESS = 27, FINAL, "The group is rebalancing; the member must rejoin."
    INVALID_COMMIT_OFFSET_SIZE = 28, FINAL, "The size of the offset commit is invalid."
    TOPIC_AUTHORIZATION_FAILED = 29, FINAL, "Not authorized to access the topic."
    GROUP_AUTHORIZATION_FAILED = 30, FINAL, "Not authorized to access the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, FINAL, "Not authorized to access the cluster."
    INVALID_TIMESTAMP = (
        32,
        FINAL,
        "A record timestamp is outside the range that the topic allows.",
    )
    UNSUPPORTED_SASL_MECHANISM = 33, FINAL, "The SASL mechanism is not supported."
    ILLEGAL_SASL_STATE = 34, FINAL, "The request is not valid in this state of the SASL exchange."
    UNSUPPORTED_VERSION = 35, FINAL, "The request version is not supported."
    TOPIC_ALREADY_EXISTS = 36, FINAL, "A topic with this name already exists."
    INVALID_PARTITIONS = 37, FINAL, "The number of partitions is invalid."
    INVALID_REPLICATION_FACTOR = (
        38,
        FINAL,
        "The replication factor is invalid or larger than the number of brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, FINAL, "The replica assignment is invalid."
    INVALID_CONFIG = 40, FINAL, "The configuration is invalid."
    NOT_CONTROLLER = 41, RETRIABLE, "This broker is not the controller."
    INVALID_REQUEST = 42, FINAL, "The request is invalid."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (
        43,
        FINAL,
        "The message format of the log does not support this request.",
    )
    POLICY_VIOLATION = 44, FINAL, "The request violates a policy of the cluster."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, FINAL, "The sequence number of the producer is out of order."
    DUPLICATE_SEQUENCE_NUMBER = 46, FINAL, "The batch of the producer was appended before."
    INVALID_PRODUCER_EPOCH = 47, FINAL, "The producer epoch is older than the current epoch."
    INVALID_TXN_STATE = 48, FINAL, "The request is not valid in the state of the transaction."
    INVALID_PRODUCER_ID_MAPPING = (
        49,
        FINAL,
        "The producer id is not the current one of the transactional id.",
    )
    INVALID_TRANSACTION_TIMEOUT = 50, FINAL, "The transaction timeout is invalid or too large."
    CONCURRENT_TRANSACTIONS = (
        51,
        RETRIABLE,
        "Another request for the same transaction is in progress.",
    )
    TRANSACTION_COORDINATOR_FENCED = 52, FINAL, "The epoch of the transaction coordinator is stale."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (
        53,
        FINAL,
        "Not authorized to access the transactional id.",
    )
    SECURITY_DISABLED = 54, FINAL, "Security is not enabled on this broker."
    OPERATION_NOT_ATTEMPTED = 55, FINAL, "Not attempted because another operation failed."
    KAFKA_STORAGE_ERROR = 56, RETRIABLE, "I/O error in the log of the partition."
    LOG_DIR_NOT_FOUND = 57, FINAL, "The broker does not have this log directory."
    SASL_AUTHENTICATION_FAILED = 58, FINAL, "SASL authentication failed."
    UNKNOWN_PRODUCER_ID = 59, FINAL, "The broker has no state for the producer id."
    REASSIGNMENT_IN_PROGRESS = 60, FINAL, "The partition is already being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, FINAL, "Delegation tokens are not enabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, FINAL, "The delegation token does not exist."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, FINAL, "The delegation token has another owner."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        FINAL,
        "Delegation tokens cannot be managed over this connection.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (
        65,
        FINAL,
        "Not authorized to access the delegation token.",
    )
    DELEGATION_TOKEN_EXPIRED = 66, FINAL, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, FINAL, "The principal type is not supported."
    NON_EMPTY_GROUP = 68, FINAL, "The group is not empty."
    GROUP_ID_NOT_FOUND = 69, FINAL, "The group does not exist."
    FETCH_SESSION_ID_NOT_FOUND = 70, RETRIABLE, "The fetch session does not exist."
    INVALID_FETCH_SESSION_EPOCH = 71, RETRIABLE, "The fetch session epoch is invalid."
    LISTENER_NOT_FOUND = (
        72,
        RETRIABLE,
        "The leader has no listener with the name of the listener of this request.",
    )
    TOPIC_DELETION_DISABLED = 73, FINAL, "Topic deletion is disabled."
    FENCED_LEADER_EPOCH = (
        74,
        RETRIABLE,
        "The leader epoch of the request is older than the broker's.",
    )
    UNKNOWN_LEADER_EPOCH = (
        75,
        RETRIABLE,
        "The leader epoch of the request is newer than the broker's.",
    )
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        FINAL,
        "The request version does not support the compression type.",
    )
    STALE_BROKER_EPOCH = 77, FINAL, "The broker epoch is stale; the broker registered again."
    OFFSET_NOT_AVAILABLE = (
        78,
        RETRIABLE,
        "The offset is unknown until the high watermark of the new leader has advanced.",
    )
    MEMBER_ID_REQUIRED = 79, FINAL, "The member must rejoin with the member id of this response."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, RETRIABLE, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, FINAL, "The group has reached its maximum size."
    FENCED_INSTANCE_ID = 82, FINAL, "Another member uses this group instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, RETRIABLE, "No eligible leader is available."
    ELECTION_NOT_NEEDED = 84, RETRIABLE, "The partition does not need a leader election."
    NO_REASSIGNMENT_IN_PROGRESS = 85, FINAL, "The partition is not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, FINAL, "The group is subscribed to the topic."
    INVALID_RECORD = 87, FINAL, "A record failed validation."
    UNSTABLE_OFFSET_COMMIT = (
        88,
        RETRIABLE,
        "An open transaction has pending offset commits for the partition.",
    )
    THROTTLING_QUOTA_EXCEEDED = 89, RETRIABLE, "The quota is exceeded."
    PRODUCER_FENCED = 90, FINAL, "A newer producer with the same transactional id exists."
    RESOURCE_NOT_FOUND = 91, FINAL, "The resource does not exist."
    DUPLICATE_RESOURCE = 92, FINAL, "The request contains the same resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, FINAL, "The credential is not acceptable."
    INCONSISTENT_VOTER_SET = 94, FINAL, "The voter sets differ."
    INVALID_UPDATE_VERSION = 95, FINAL, "The partition epoch of the update is invalid."
    FEATURE_UPDATE_FAILED = 96, FINAL, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, FINAL, "The forwarded principal cannot be decoded."
    SNAPSHOT_NOT_FOUND = 98, FINAL, "The snapshot does not exist."
    POSITION_OUT_OF_RANGE = 99, FINAL, "The position is outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, RETRIABLE, "This broker does not host a topic with this id."
    DUPLICATE_BROKER_REGISTRATION = 101, FINAL, "The broker id is in use."
    BROKER_ID_NOT_REGISTERED = 102, FINAL, "The broker id is not registered."
    INCONSISTENT_TOPIC_ID = 103, RETRIABLE, "The log of the partition has another topic id."
    INCONSISTENT_CLUSTER_ID = 104, FINAL, "The request has the id of another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, FINAL, "The transactional id does not exist."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, RETRIABLE, "The fetch session mixes topic names and ids."
    INELIGIBLE_REPLICA = 107, FINAL, "A replica is not eligible for the in-sync replicas."
    NEW_LEADER_ELECTED = 108, FINAL, "The change of the in-sync replicas elected a new leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, FINAL, "The offset is only in tiered storage."
    FENCED_MEMBER_EPOCH = (
        110,
        FINAL,
        "The member epoch is fenced; the member must release its partitions and rejoin.",
    )
    UNRELEASED_INSTANCE_ID = 111, FINAL, "Another member still uses this group instance id."
    UNSUPPORTED_ASSIGNOR = 112, FINAL, "The assignor is not supported."
    STALE_MEMBER_EPOCH = (
        113,
        FINAL,
        "The member epoch is stale; the next heartbeat returns the current one.",
    )
    MISMATCHED_ENDPOINT_TYPE = 114, FINAL, "The request was sent to the wrong type of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, FINAL, "The endpoint type is not supported."
    UNKNOWN_CONTROLLER_ID = 116, FINAL, "The controller id does not exist."
    UNKNOWN_SUBSCRIPTION_ID = 117, FINAL, "The telemetry subscription does not exist."
    TELEMETRY_TOO_LARGE = 118, FINAL, "The telemetry payload is too large."
    INVALID_REGISTRATION = 119, FINAL, "The broker registration is invalid."
    TRANSACTION_ABORTABLE = 120, FINAL, "The transaction failed and must be aborted."
    INVALID_RECORD_STATE = 121, FINAL, "The state of the record does not allow acknowledgement."
    SHARE_SESSION_NOT_FOUND = 122, RETRIABLE, "The share session does not exist."
    INVALID_SHARE_SESSION_EPOCH = 123, RETRIABLE, "The share session epoch is invalid."
    FENCED_STATE_EPOCH = 124, FINAL, "The state epoch of the share group does not match."
    INVALID_VOTER_KEY = 125, FINAL, "The voter key does not match that of this replica."
    DUPLICATE_VOTER = 126, FINAL, "The node is already a voter."
    VOTER_NOT_FOUND = 127, FINAL, "The node is not a voter."
    INVALID_REGULAR_EXPRESSION = 128, FINAL, "The regular expression is invalid."
    REBOOTSTRAP_REQUIRED = (
        129,
        FINAL,
        "The client metadata is too old; the client must rebootstrap.",
    )
    STREAMS_INVALID_TOPOLOGY = 130, FINAL, "The topology is invalid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, FINAL, "The topology epoch is invalid."
    STREAMS_TOPOLOGY_FENCED = 132, FINAL, "The topology epoch is fenced by a newer topology."
    SHARE_SESSION_LIMIT_REACHED = 133, RETRIABLE, "The maximum number of share sessions is reached."


class Refusal(NamedTuple):
    """A rejected operation as a value: the error code and the message of the response."""

    code: ErrorCode
    message: str | None = None
