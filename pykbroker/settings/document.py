"""Generates the reference page of all properties from their tables.

python -m pykbroker.settings.document > docs/properties.md
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pykbroker.settings.kinds import UpdateMode
from pykbroker.settings.load import NAMES_WITH_EFFECT, topic_names_without_effect
from pykbroker.settings.property import shown
from pykbroker.settings.table import ALIASES, BROKER, GROUP, TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.settings.property import Property

HEAD = """# Properties

Generated from the tables in `pykbroker/settings/` by `make docs`. Names, types, defaults and valid
values are those of Apache Kafka 4.3; see also [known differences](../compat/known_differences.md).

Set broker properties in a properties file (`--config FILE`), on the command line
(`--set NAME=VALUE`) or, in containers, as environment variables ([containers.md](containers.md)).
Properties with the update mode cluster-wide or per-broker can also be changed at run time with
`pykbroker configs alter`.

The broker logs other properties of Apache Kafka as having no effect. If one of them asks for TLS,
authentication or another feature that is not supported, the broker refuses to start.
"""

MODES = {
    UpdateMode.READ_ONLY: "read-only",
    UpdateMode.PER_BROKER: "per-broker",
    UpdateMode.CLUSTER_WIDE: "cluster-wide",
}


def page() -> str:
    aliases = ", ".join(f"`{alias}` for `{name}`" for alias, name in ALIASES.items())
    return "\n".join(
        [
            HEAD,
            "## Brokers\n",
            f"Alternative names: {aliases}.\n",
            "| property | type | default | update mode | description |",
            "|---|---|---|---|---|",
            *broker_rows(),
            "",
            "## Topics\n",
            "The default of a topic property is the broker property in the third column.\n",
            "| property | type | default | description |",
            "|---|---|---|---|",
            *topic_rows(),
            "",
            "## Groups\n",
            "| property | type | default | description |",
            "|---|---|---|---|",
            *(row(it, default_of(it)) for it in sorted(GROUP.values())),
            "",
        ]
    )


def broker_rows() -> Iterable[str]:
    for it in sorted(BROKER.values()):
        if not it.internal:
            yield row(
                it, default_of(it), MODES[it.update_mode], in_effect=it.name in NAMES_WITH_EFFECT
            )


def topic_rows() -> Iterable[str]:
    idle = topic_names_without_effect(TOPIC)
    for it in sorted(TOPIC.values()):
        if not it.internal:
            yield row(it, default_of(it), in_effect=it.name not in idle)


def row(it: Property, *columns: str, in_effect: bool = True) -> str:
    text = it.documentation if in_effect else f"{it.documentation} *No effect.*"
    cells = (f"`{it.name}`", it.type.name.lower(), *columns, text)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def default_of(it: Property) -> str:
    """Returns the default, and the properties that replace it if they are set."""
    text = shown(it.default)
    default = "none" if text is None else f"`{text}`" if text else "empty"
    others = ", ".join(f"`{name}`" for name, _ in it.fallbacks)
    return f"{others}, else {default}" if others else default


if __name__ == "__main__":
    sys.stdout.write(page())
