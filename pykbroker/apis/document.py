"""The page that tells which APIs are served, written from the table itself.

python -m pykbroker.apis.document > docs/supported-apis.md
"""

from __future__ import annotations

import sys
from importlib import import_module

from pykbroker.apis import APIS
from pykbroker.version import __version__
from pykbroker_protocol.api_keys import ApiKey

APACHE_RELEASE = "4.3"
"""Whose ranges of versions are served; a test compares them with those that its jars tell."""

HEAD = f"""# The APIs that PyKBroker {__version__} serves

Written from the table in `pykbroker/apis/__init__.py` by `make docs`. Where an API is served, the
versions are those of Apache Kafka {APACHE_RELEASE}, the newest release that it is compared with;
what is not in the table is not advertised.

| key | API | versions | what it is for |
|---|---|---|---|
"""

QUIRK = """
Produce is advertised from version 0, although versions below 3 are refused as in Apache Kafka:
released versions of librdkafka conclude from it which compressions the broker can take.
"""


def page() -> str:
    rows = [row(key) for key in sorted(APIS)]
    missing = [key for key in ApiKey if key not in APIS]
    names = ", ".join(
        f"{key.name.replace('_', ' ').title().replace(' ', '')} ({key})" for key in missing
    )
    return f"{HEAD}{''.join(rows)}{QUIRK}\n## Not served\n\n{names}.\n"


def row(key: int) -> str:
    api = APIS[key]
    sentence = (import_module(f"pykbroker_protocol.messages.{api.name}").__doc__ or "").split("\n")[
        0
    ]
    purpose = sentence.partition(": ")[2].rstrip(".")
    return f"| {key} | {api.title} | {api.advertised} | {purpose} |\n"


if __name__ == "__main__":
    sys.stdout.write(page())
