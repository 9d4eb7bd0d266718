"""Commands of the line protocol with their options. compat/README.md describes them."""

from typing import Any, Final

Options = dict[str, Any]

COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "hello": (),
    "reset": (),
    "close": (),
    # producers
    "open_producer": (
        "bootstrap",
        "client_id",
        "acks",
        "compression",
        "idempotent",
        "transactional_id",
        "transaction_timeout_ms",
        "partitioner",
        "linger_ms",
        "batch_bytes_max",
        "request_bytes_max",
        "delivery_timeout_ms",
        "request_timeout_ms",
    ),
    "produce": ("records",),
    "begin": (),
    "send_offsets": ("consumer", "offsets"),
    "commit_transaction": (),
    "abort_transaction": (),
    # consumers
    "open_consumer": (
        "bootstrap",
        "client_id",
        "group",
        "instance_id",
        "protocol",
        "assignor",
        "isolation",
        "reset",
        "session_timeout_ms",
        "heartbeat_interval_ms",
        "fetch_bytes_min",
        "fetch_wait_ms_max",
        "partition_bytes_max",
        "records_max",
    ),
    "subscribe": ("topics",),
    "assign": ("partitions",),
    "poll": ("timeout_ms",),
    "seek": ("topic", "partition", "offset"),
    "position": ("topic", "partition"),
    "pause": ("partitions",),
    "resume": ("partitions",),
    "commit": ("offsets",),
    "committed": ("partitions",),
    "offsets_at": ("partitions", "at"),
    # admin clients
    "open_admin": ("bootstrap", "client_id", "request_timeout_ms"),
    "create_topics": ("topics", "validate_only"),
    "delete_topics": ("topics",),
    "list_topics": (),
    "describe_topics": ("topics",),
    "create_partitions": ("topic", "total"),
    "describe_configs": ("kind", "name"),
    "alter_configs": ("kind", "name", "set", "unset"),
    "replace_configs": ("kind", "name", "set"),
    "delete_records": ("topic", "partition", "before"),
    "describe_cluster": (),
    "list_groups": (),
    "describe_group": ("group",),
    "group_offsets": ("group",),
    "alter_group_offsets": ("group", "offsets"),
    "delete_group_offsets": ("group", "partitions"),
    "delete_group": ("group",),
    "list_offsets": ("topic", "partition", "at"),
    "list_transactions": (),
    "describe_transaction": ("transactional_id",),
    # Apache Kafka's own programs
    "run_tool": ("tool", "arguments", "input"),
    "start_tool": ("tool", "arguments"),
    "heard": (),
    # stream processors
    "open_word_count": ("bootstrap", "client_id", "application", "source", "sink", "directory"),
    "state": (),
    # Spark
    "read_batch": ("bootstrap", "topic", "options"),
    "write_batch": ("bootstrap", "records", "options"),
    "stream": ("bootstrap", "source", "sink", "directory", "options"),
}

RECORD_FIELDS: Final = ("topic", "partition", "key", "value", "headers", "timestamp_ms")


def complete(command: str, given: Options) -> Options:
    """Returns all options of a command, None for those that are not given."""
    unknown = given.keys() - set(COMMANDS[command])
    assert not unknown, f"{command} has no option {', '.join(sorted(unknown))}"
    return {option: given.get(option) for option in COMMANDS[command]}


def required_features(command: str, options: Options) -> set[str]:
    """Returns the features that a command uses, written like keys of a manifest's `cannot`."""
    features = {command}
    for option, value in _set_options(options):
        features.add(f"{command}.{option}")
        if isinstance(value, (str, int)):
            features.add(f"{command}.{option}={_as_text(value)}")
    for record in options.get("records") or ():
        features |= {f"{command}.{field}" for field, _ in _set_options(record)}
    return features


def is_command_or_option(feature: str) -> bool:
    """Returns whether a key of `cannot` names an existing command or option."""
    command, _, option = feature.partition("=")[0].partition(".")
    options = (*COMMANDS.get(command, ()), *RECORD_FIELDS * (command == "produce"))
    return command in COMMANDS and (not option or option in options)


def _set_options(options: Options) -> list[tuple[str, Any]]:
    return [it for it in options.items() if it[1] not in (None, False, [])]


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
