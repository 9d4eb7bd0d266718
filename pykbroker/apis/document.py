"""Generates the page of supported APIs from the table of APIs.

python -m pykbroker.apis.document > docs/supported-apis.md
"""

from __future__ import annotations

import sys
from importlib import import_module

from pykbroker.apis import APIS
from pykbroker.version import __version__
from pykbroker_protocol.api_keys import ApiKey

APACHE_RELEASE = "4.3"
"""Its version ranges are served; a test compares them with those in its jars."""

HEAD = f"""# Supported APIs of PyKBroker {__version__}

`make docs` generates this page from the table in `pykbroker/apis/__init__.py`. The versions of a
supported API are those of Apache Kafka {APACHE_RELEASE}, the newest release that PyKBroker is
compared with. APIs that are not in the table are not advertised.

| key | API | versions | purpose |
|---|---|---|---|
"""

QUIRK = """
Produce is advertised from version 0, although versions below 3 are rejected, as in Apache Kafka:
librdkafka derives the supported compression codecs from this range.
"""


def page() -> str:
    rows = [row(key) for key in sorted(APIS)]
    missing = [key for key in ApiKey if key not in APIS]
    names = ", ".join(
        f"{key.name.replace('_', ' ').title().replace(' ', '')} ({key})" for key in missing
    )
    return f"{HEAD}{''.join(rows)}{QUIRK}\n## Not supported\n\n{names}.\n"


def row(key: int) -> str:
    api = APIS[key]
    sentence = (import_module(f"pykbroker_protocol.messages.{api.name}").__doc__ or "").split("\n")[
        0
    ]
    purpose = sentence.partition(": ")[2].rstrip(".")
    return f"| {key} | {api.title} | {api.advertised} | {purpose} |\n"


if __name__ == "__main__":
    sys.stdout.write(page())
