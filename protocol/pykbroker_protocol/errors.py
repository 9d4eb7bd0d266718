"""Every error of the protocol: its number, whether trying again can help, one sentence."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Self

RETRIABLE, FINAL = 1, 0


class ErrorCode(IntEnum):
    """What a broker answers when it refuses; the number is what travels."""

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
        "The broker met a fault of its own while it worked on the request.",
    )
    NONE = 0, FINAL, "No error."
    OFFSET_OUT_OF_RANGE = 1, FINAL, "The offset lies outside the range that this partition holds."
    CORRUPT_MESSAGE = (
        2,
        RETRIABLE,
        "The record batch is damaged: its checksum, size or shape is wrong.",
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, RETRIABLE, "This broker does not hold that topic or partition."
    INVALID_FETCH_SIZE = 4, FINAL, "The fetch size is not usable."
    LEADER_NOT_AVAILABLE = 5, RETRIABLE, "The partition has no leader at this moment."
    NOT_LEADER_OR_FOLLOWER = (
        6,
        RETRIABLE,
        "This broker is not the leader, or not a replica, of the partition.",
    )
    REQUEST_TIMED_OUT = (
        7,
        RETRIABLE,
        "The work was not done within the time that the request allowed.",
    )
    BROKER_NOT_AVAILABLE = 8, FINAL, "The broker cannot be reached."
    REPLICA_NOT_AVAILABLE = 9, RETRIABLE, "The replica is not available."
    MESSAGE_TOO_LARGE = 10, FINAL, "A record batch is larger than the topic accepts."
    STALE_CONTROLLER_EPOCH = 11, FINAL, "A newer controller has taken over."
    OFFSET_METADATA_TOO_LARGE = 12, FINAL, "The metadata text of an offset commit is too long."
    NETWORK_EXCEPTION = 13, RETRIABLE, "The connection was lost before the answer came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, RETRIABLE, "The coordinator is still reading its log."
    COORDINATOR_NOT_AVAILABLE = 15, RETRIABLE, "No coordinator is available yet."
    NOT_COORDINATOR = 16, RETRIABLE, "Another broker coordinates this group or transaction."
    INVALID_TOPIC_EXCEPTION = 17, FINAL, "The topic name is not allowed."
    RECORD_LIST_TOO_LARGE = 18, FINAL, "The batch is larger than a whole log segment."
    NOT_ENOUGH_REPLICAS = (
        19,
        RETRIABLE,
        "Fewer replicas are in sync than the topic demands; nothing was written.",
    )
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        RETRIABLE,
        "The records were written, but fewer replicas are in sync than the topic demands.",
    )
    INVALID_REQUIRED_ACKS = 21, FINAL, "acks must be -1, 0 or 1."
    ILLEGAL_GENERATION = (
        22,
        FINAL,
        "The member speaks for a generation that is not the group's current one.",
    )
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        FINAL,
        "The member shares no assignment protocol with the rest of its group.",
    )
    INVALID_GROUP_ID = 24, FINAL, "The group id is not allowed."
    UNKNOWN_MEMBER_ID = 25, FINAL, "The coordinator knows no such member."
    INVALID_SESSION_TIMEOUT = 26, FINAL, "The session timeout lies outside the broker's limits."
    REBALANCE_IN_PROGRESS = 27, FINAL, "The group is rebalancing; the member should rejoin."
    INVALID_COMMIT_OFFSET_SIZE = 28, FINAL, "The size of an offset commit is not usable."
    TOPIC_AUTHORIZATION_FAILED = 29, FINAL, "Not authorized to use this topic."
    GROUP_AUTHORIZATION_FAILED = 30, FINAL, "Not authorized to use this group."
    CLUSTER_AUTHORIZATION_FAILED = 31, FINAL, "Not authorized to act on the cluster."
    INVALID_TIMESTAMP = (
        32,
        FINAL,
        "A record's timestamp is further from now than the topic accepts.",
    )
    UNSUPPORTED_SASL_MECHANISM = 33, FINAL, "The SASL mechanism is not offered here."
    ILLEGAL_SASL_STATE = 34, FINAL, "The request does not fit the state of the SASL exchange."
    UNSUPPORTED_VERSION = 35, FINAL, "The version of the request is not supported."
    TOPIC_ALREADY_EXISTS = 36, FINAL, "A topic of that name exists."
    INVALID_PARTITIONS = 37, FINAL, "The number of partitions is not usable."
    INVALID_REPLICATION_FACTOR = (
        38,
        FINAL,
        "The replication factor does not fit the brokers at hand.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, FINAL, "The replica assignment is not usable."
    INVALID_CONFIG = 40, FINAL, "A configuration value is not usable."
    NOT_CONTROLLER = 41, RETRIABLE, "This broker is not the controller."
    INVALID_REQUEST = 42, FINAL, "The request contradicts itself or the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (
        43,
        FINAL,
        "The stored record format cannot serve this request.",
    )
    POLICY_VIOLATION = 44, FINAL, "A policy of the cluster forbids the request."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, FINAL, "The producer's sequence number leaves a gap."
    DUPLICATE_SEQUENCE_NUMBER = 46, FINAL, "The producer's batch was written before."
    INVALID_PRODUCER_EPOCH = 47, FINAL, "A newer instance of the producer has taken over."
    INVALID_TXN_STATE = 48, FINAL, "The transaction is not in a state for this step."
    INVALID_PRODUCER_ID_MAPPING = (
        49,
        FINAL,
        "The producer id does not belong to the transactional id.",
    )
    INVALID_TRANSACTION_TIMEOUT = 50, FINAL, "The transaction timeout exceeds the broker's maximum."
    CONCURRENT_TRANSACTIONS = (
        51,
        RETRIABLE,
        "Another step of the same transaction is still under way.",
    )
    TRANSACTION_COORDINATOR_FENCED = 52, FINAL, "A newer transaction coordinator has taken over."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (
        53,
        FINAL,
        "Not authorized to use this transactional id.",
    )
    SECURITY_DISABLED = 54, FINAL, "Security is not enabled on this broker."
    OPERATION_NOT_ATTEMPTED = 55, FINAL, "The step was not tried because an earlier one failed."
    KAFKA_STORAGE_ERROR = 56, RETRIABLE, "The disk failed under the log."
    LOG_DIR_NOT_FOUND = 57, FINAL, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, FINAL, "The SASL authentication failed."
    UNKNOWN_PRODUCER_ID = 59, FINAL, "Nothing is known of this producer id."
    REASSIGNMENT_IN_PROGRESS = 60, FINAL, "The partition is already being moved."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, FINAL, "Delegation tokens are not enabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, FINAL, "No such delegation token exists."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, FINAL, "The delegation token belongs to somebody else."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        FINAL,
        "Delegation tokens cannot be managed over this connection.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (
        65,
        FINAL,
        "Not authorized to use this delegation token.",
    )
    DELEGATION_TOKEN_EXPIRED = 66, FINAL, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, FINAL, "The kind of principal is not supported."
    NON_EMPTY_GROUP = 68, FINAL, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, FINAL, "No such group exists."
    FETCH_SESSION_ID_NOT_FOUND = 70, RETRIABLE, "The fetch session is not known."
    INVALID_FETCH_SESSION_EPOCH = 71, RETRIABLE, "The fetch session is at another epoch."
    LISTENER_NOT_FOUND = (
        72,
        RETRIABLE,
        "The leader has no listener of the name this request came through.",
    )
    TOPIC_DELETION_DISABLED = 73, FINAL, "Deleting topics is switched off."
    FENCED_LEADER_EPOCH = 74, RETRIABLE, "The client's leader epoch is older than the partition's."
    UNKNOWN_LEADER_EPOCH = (
        75,
        RETRIABLE,
        "The client's leader epoch is newer than this broker knows of.",
    )
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        FINAL,
        "The compression type does not fit this version of the request.",
    )
    STALE_BROKER_EPOCH = 77, FINAL, "The broker has registered anew since."
    OFFSET_NOT_AVAILABLE = (
        78,
        RETRIABLE,
        "The offset cannot be told until the new leader's high watermark has caught up.",
    )
    MEMBER_ID_REQUIRED = 79, FINAL, "The member must come back with the member id it was given."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, RETRIABLE, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, FINAL, "The group is full."
    FENCED_INSTANCE_ID = 82, FINAL, "Another consumer has taken over this group instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, RETRIABLE, "No replica is eligible to lead."
    ELECTION_NOT_NEEDED = 84, RETRIABLE, "The partition already has the right leader."
    NO_REASSIGNMENT_IN_PROGRESS = 85, FINAL, "The partition is not being moved."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, FINAL, "The group still reads this topic."
    INVALID_RECORD = 87, FINAL, "The broker's checks refused a record."
    UNSTABLE_OFFSET_COMMIT = (
        88,
        RETRIABLE,
        "A transaction still holds offsets of this partition open.",
    )
    THROTTLING_QUOTA_EXCEEDED = 89, RETRIABLE, "A quota is used up."
    PRODUCER_FENCED = 90, FINAL, "A newer producer with the same transactional id has taken over."
    RESOURCE_NOT_FOUND = 91, FINAL, "The request names something that does not exist."
    DUPLICATE_RESOURCE = 92, FINAL, "The request names the same thing twice."
    UNACCEPTABLE_CREDENTIAL = 93, FINAL, "The credential is not acceptable."
    INCONSISTENT_VOTER_SET = 94, FINAL, "The voter sets do not agree."
    INVALID_UPDATE_VERSION = 95, FINAL, "The update version is not usable."
    FEATURE_UPDATE_FAILED = 96, FINAL, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, FINAL, "The forwarded principal could not be read."
    SNAPSHOT_NOT_FOUND = 98, FINAL, "No such snapshot exists."
    POSITION_OUT_OF_RANGE = 99, FINAL, "The position lies outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, RETRIABLE, "This broker knows no topic of that id."
    DUPLICATE_BROKER_REGISTRATION = 101, FINAL, "The broker id is in use."
    BROKER_ID_NOT_REGISTERED = 102, FINAL, "The broker id is not registered."
    INCONSISTENT_TOPIC_ID = 103, RETRIABLE, "The topic id is not the one that the log was made for."
    INCONSISTENT_CLUSTER_ID = 104, FINAL, "The request is meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, FINAL, "The transactional id is not known."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, RETRIABLE, "The fetch session mixes topic names and ids."
    INELIGIBLE_REPLICA = 107, FINAL, "A replica is not eligible for the in-sync set."
    NEW_LEADER_ELECTED = 108, FINAL, "The in-sync set was changed, and with it the leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, FINAL, "The offset lives in tiered storage now."
    FENCED_MEMBER_EPOCH = (
        110,
        FINAL,
        "The member's epoch is fenced; it must give up its partitions and rejoin.",
    )
    UNRELEASED_INSTANCE_ID = 111, FINAL, "Another member still uses this group instance id."
    UNSUPPORTED_ASSIGNOR = 112, FINAL, "The group does not offer this assignor."
    STALE_MEMBER_EPOCH = (
        113,
        FINAL,
        "The member's epoch is out of date; a heartbeat brings the new one.",
    )
    MISMATCHED_ENDPOINT_TYPE = 114, FINAL, "The request went to the wrong kind of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, FINAL, "This kind of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, FINAL, "The controller id is not known."
    UNKNOWN_SUBSCRIPTION_ID = 117, FINAL, "The telemetry subscription is not known."
    TELEMETRY_TOO_LARGE = 118, FINAL, "The telemetry payload is too large."
    INVALID_REGISTRATION = 119, FINAL, "The broker's registration is not acceptable."
    TRANSACTION_ABORTABLE = 120, FINAL, "The transaction cannot go on; aborting it clears the way."
    INVALID_RECORD_STATE = 121, FINAL, "The record is not in a state to be acknowledged."
    SHARE_SESSION_NOT_FOUND = 122, RETRIABLE, "The share session is not known."
    INVALID_SHARE_SESSION_EPOCH = 123, RETRIABLE, "The share session is at another epoch."
    FENCED_STATE_EPOCH = 124, FINAL, "The share group's state epoch does not match."
    INVALID_VOTER_KEY = 125, FINAL, "The voter's key does not match this replica's."
    DUPLICATE_VOTER = 126, FINAL, "The voter is already a voter."
    VOTER_NOT_FOUND = 127, FINAL, "The voter is not a voter."
    INVALID_REGULAR_EXPRESSION = 128, FINAL, "The regular expression is not usable."
    REBOOTSTRAP_REQUIRED = 129, FINAL, "The client's metadata is too old; it must bootstrap again."
    STREAMS_INVALID_TOPOLOGY = 130, FINAL, "The topology is not usable."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, FINAL, "The topology epoch is not usable."
    STREAMS_TOPOLOGY_FENCED = 132, FINAL, "A newer topology has taken over."
    SHARE_SESSION_LIMIT_REACHED = 133, RETRIABLE, "No more share sessions fit."


class Refusal(NamedTuple):
    """What could not be done, as a value: the code, and the words that go to the client with it."""

    code: ErrorCode
    message: str | None = None
