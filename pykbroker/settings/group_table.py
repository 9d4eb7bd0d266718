"""The properties that a group can override, each with the broker property of its default."""

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
        "Minimum time between two computations of the group assignment."),
    _row("consumer.heartbeat.interval.ms", 5000, 1,
        "Heartbeat interval that the coordinator sends to members."),
    _row("consumer.session.timeout.ms", 45_000, 1,
        "Time without a heartbeat after which a member is removed from the group."),
)  # fmt: skip
