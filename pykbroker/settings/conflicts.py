"""Properties that are each good and do not go together, in Kafka's words where it has any."""

from pykbroker.settings.addresses import parse_listener, security_protocols
from pykbroker.settings.property import InvalidSetting
from pykbroker.settings.values import Settings

ASSIGNORS = ("uniform", "range")
"""The ways in which partitions are assigned that this broker has."""

PLAIN = "PLAINTEXT"
SECURED = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")

# Each value and what it must not be below; checked in Apache's order, for the first is told.
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
    refuse_assignors(settings.group_consumer_assignors)
    refuse_secured(settings)


def value(settings: Settings, name: str) -> int:
    found: int = getattr(settings, name.replace(".", "_"))
    return found


def out_of_order(above: str, below: str) -> str:
    """Of a bound and what it bounds, the sentence begins with what it bounds."""
    if ".max." in above and ".min." not in below:
        return f"{below} must be less than or equal to {above}"
    return f"{above} must be greater than or equal to {below}"


def refuse_assignors(assignors: tuple[str, ...]) -> None:
    if not assignors:
        raise InvalidSetting(
            "Configuration 'group.consumer.assignors' must not be empty. "
            "Valid values include: any non-empty value"
        )
    for name in assignors:
        if name not in ASSIGNORS:
            known = ", ".join(ASSIGNORS)
            raise InvalidSetting(f"group.consumer.assignors: {name} is none of {known}")


def refuse_secured(settings: Settings) -> None:
    """Nothing is served in the clear that was meant to be encrypted."""
    protocols = security_protocols(settings.listener_security_protocol_map)
    for listener in settings.listeners:
        name = parse_listener(listener).name
        protocol = protocols.get(name, name if name in SECURED else PLAIN)
        if protocol != PLAIN:
            raise InvalidSetting(f"listener {name}: {protocol} is not spoken here, only {PLAIN}")
