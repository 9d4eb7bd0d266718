"""The properties a group can override, each with the broker property it otherwise follows."""

from pykbroker.settings.checks import at_least
from pykbroker.settings.kinds import ConfigType, Importance, UpdateMode
from pykbroker.settings.property import Property


def _row(name: str, default: int, low: int, documentation: str) -> Property:
    return Property(
        name=name,
        type=ConfigType.INT,
        default=default,
        check=at_least(low),
        importance=Importance.MEDIUM,
        update_mode=UpdateMode.CLUSTER_WIDE,
        documentation=documentation,
        fallbacks=((f"group.{name}", 1),),
    )


GROUP_PROPERTIES = (
    _row("consumer.assignment.interval.ms", 1000, 0,
        "Shortest time between two computations of this group's assignment."),
    _row("consumer.heartbeat.interval.ms", 5000, 1,
        "How often members of this group are told to send heartbeats."),
    _row("consumer.session.timeout.ms", 45_000, 1,
        "How long this group waits for a member's heartbeat before it counts as gone."),
)  # fmt: skip
