"""Validates combinations of properties, with Apache Kafka's messages where it has any."""

from collections.abc import Iterable

from pykbroker.settings.addresses import Listener, parse_listener, security_protocols
from pykbroker.settings.checks import at_least
from pykbroker.settings.property import InvalidSetting
from pykbroker.settings.topic_table import SEGMENT_BYTES_MIN
from pykbroker.settings.values import Settings

ASSIGNORS = ("uniform", "range")
"""The server-side assignors of this broker."""

PLAIN = "PLAINTEXT"
SECURED = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")

# Pairs of properties: the first must not be less than the second. In the order of Apache Kafka,
# because only the first violation is reported.
_BOUNDS = tuple(
    (f"group.consumer.{above}{name}", f"group.consumer.{below}{name}")
    for name in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
    for above, below in (("max.", "min."), ("", "min."), ("max.", ""))
)


def refuse_conflicts(settings: Settings) -> None:
    """Raises `InvalidSetting`."""
    if settings.max_connections_per_ip == 0 and not settings.max_connections_per_ip_overrides:
        raise InvalidSetting(
            "requirement failed: max.connections.per.ip can be set to zero only if "
            "max.connections.per.ip.overrides property is set."
        )
    for above, below in _BOUNDS:
        if value(settings, above) < value(settings, below):
            raise InvalidSetting(out_of_order(above, below))
    if settings.group_consumer_heartbeat_interval_ms >= settings.group_consumer_session_timeout_ms:
        raise InvalidSetting(
            "group.consumer.heartbeat.interval.ms must be less than "
            "group.consumer.session.timeout.ms"
        )
    refuse_small_segments(settings)
    refuse_assignors(settings.group_consumer_assignors)
    refuse_encrypted_listeners(settings)
    refuse_roles(settings)


def value(settings: Settings, name: str) -> int:
    found: int = getattr(settings, name.replace(".", "_"))
    return found


def out_of_order(above: str, below: str) -> str:
    """Returns the error message, which starts with the bounded property, not with the bound."""
    if ".max." in above and ".min." not in below:
        return f"{below} must be less than or equal to {above}"
    return f"{above} must be greater than or equal to {below}"


def refuse_small_segments(settings: Settings) -> None:
    """The internal topic could not be created with this size, so its coordinator would not work."""
    for name in ("offsets.topic.segment.bytes", "transaction.state.log.segment.bytes"):
        refusal = at_least(SEGMENT_BYTES_MIN)(name, value(settings, name))
        if refusal:
            raise InvalidSetting(refusal)


def refuse_assignors(assignors: tuple[str, ...]) -> None:
    if not assignors:
        raise InvalidSetting(
            "Configuration 'group.consumer.assignors' must not be empty. "
            "Valid values include: any non-empty value"
        )
    for name in assignors:
        if name not in ASSIGNORS:
            known = ", ".join(ASSIGNORS)
            raise InvalidSetting(f"group.consumer.assignors: unknown assignor {name}, use {known}")


def refuse_encrypted_listeners(settings: Settings) -> None:
    """Rejects TLS and SASL listeners, which would otherwise accept plaintext connections."""
    protocols = security_protocols(settings.listener_security_protocol_map)
    for name in _listener_names(settings):
        protocol = protocols.get(name, name if name in SECURED else PLAIN)
        if protocol != PLAIN:
            raise InvalidSetting(
                f"listener {name}: security protocol {protocol} is not supported, use {PLAIN}"
            )


def _listener_names(settings: Settings) -> Iterable[str]:
    for listener in (*settings.listeners, *(settings.advertised_listeners or ())):
        yield parse_listener(listener).name
    if settings.inter_broker_listener_name:
        yield settings.inter_broker_listener_name.upper()


def refuse_roles(settings: Settings) -> None:
    roles = set(settings.process_roles)
    if roles == {"broker"}:
        refuse_broker_role(settings)
    elif roles == {"broker", "controller"}:
        refuse_other_voters(settings)
        refuse_other_controllers(settings)
    else:
        raise InvalidSetting(
            f"process.roles={','.join(settings.process_roles)}: a controller without the role "
            "broker is not supported, use broker or broker,controller"
        )
    if not broker_listeners(settings):
        raise InvalidSetting(
            "listeners: all listeners are in controller.listener.names, add one for clients"
        )
    directory = settings.metadata_log_dir
    if directory and directory.rstrip("/") != settings.log_dirs[0].rstrip("/"):
        raise InvalidSetting(
            "metadata.log.dir: a separate directory is not supported, use the one of log.dirs"
        )


def refuse_other_voters(settings: Settings) -> None:
    """Rejects other voters of a node that is its own controller.

    Otherwise each node would start its own cluster and acknowledge records that the others lack.
    """
    voters = settings.controller_quorum_voters
    if any(voter.partition("@")[0] != str(settings.node_id) for voter in voters):
        raise InvalidSetting(
            f"controller.quorum.voters={','.join(voters)}: quorums of several controllers are "
            f"not supported, only this node (node.id {settings.node_id}) can be a voter; "
            "process.roles=broker joins another quorum"
        )


def refuse_other_controllers(settings: Settings) -> None:
    """Rejects other ports and several servers; `wiring` checks the host with a name lookup."""
    servers = settings.controller_quorum_bootstrap_servers
    if not servers:
        return
    own_ports = {it.port for it in map(parse_listener, settings.listeners)}
    own_ports -= {it.port for it in broker_listeners(settings)}
    _, _, port = servers[0].rpartition(":")
    is_own = not own_ports or port in {str(it) for it in own_ports}
    if len(servers) > 1 or not is_own:
        raise InvalidSetting(other_controllers(settings))


def other_controllers(settings: Settings) -> str:
    servers = ",".join(settings.controller_quorum_bootstrap_servers)
    return (
        f"controller.quorum.bootstrap.servers={servers}: quorums of several controllers are not "
        "supported, only this node can be the controller; process.roles=broker joins another quorum"
    )


def refuse_broker_role(settings: Settings) -> None:
    """Rejects settings with which a broker cannot join the controllers of other processes."""
    if settings.layers.text("node.id") is None:
        raise InvalidSetting(
            "process.roles=broker: specify node.id (--node-id), unique in the cluster"
        )
    voters = settings.controller_quorum_voters
    if not voters and not settings.controller_quorum_bootstrap_servers:
        raise InvalidSetting(
            "process.roles=broker: specify controller.quorum.bootstrap.servers (--controllers) or "
            "controller.quorum.voters"
        )
    if any(voter.partition("@")[0] == str(settings.node_id) for voter in voters):
        raise InvalidSetting(
            "If process.roles contains just the 'broker' role, the node id "
            f"{settings.node_id} must not be included in the set of voters "
            f"controller.quorum.voters={','.join(voters)}"
        )
    if len(broker_listeners(settings)) < len(settings.listeners):
        raise InvalidSetting(
            "controller.listener.names must not contain a value appearing in the 'listeners' "
            "configuration when running KRaft with just the broker role"
        )
    protocols = security_protocols(settings.listener_security_protocol_map)
    for name in map(str.upper, settings.controller_listener_names):
        protocol = protocols.get(name, name if name in SECURED else PLAIN)
        if protocol != PLAIN:
            raise InvalidSetting(
                f"controller.listener.names: security protocol {protocol} of listener {name} is "
                f"not supported, use {PLAIN}"
            )
    names = [it.name for it in broker_listeners(settings)]
    if inter_broker_listener(settings) not in names:
        raise InvalidSetting(
            "inter.broker.listener.name must be a listener name defined in listeners "
            f"({', '.join(names)}), it is {inter_broker_listener(settings)}"
        )


def inter_broker_listener(settings: Settings) -> str:
    """Returns the name of the listener for connections between brokers."""
    return (settings.inter_broker_listener_name or PLAIN).upper()


def is_own_controller(settings: Settings) -> bool:
    """Returns whether this node is the controller of its cluster, which has no other node."""
    return "controller" in settings.process_roles


def broker_listeners(settings: Settings) -> tuple[Listener, ...]:
    """Returns the listeners for clients. A quorum of one needs no controller listener."""
    of_controllers = {name.upper() for name in settings.controller_listener_names}
    listeners = map(parse_listener, settings.listeners)
    return tuple(it for it in listeners if it.name not in of_controllers)
