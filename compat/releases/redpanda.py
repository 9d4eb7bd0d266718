"""Writes the API versions of a Redpanda release, read from its source code.

git clone https://github.com/redpanda-data/redpanda
python -m compat.releases.redpanda redpanda v24.3.2-rc5 > pykbroker/testing/profiles/redpanda.csv

Each request handler there declares its lowest and highest version.
"""

from __future__ import annotations

import re
import subprocess
import sys

from pykbroker_protocol.api_keys import ApiKey

HANDLERS = "src/v/kafka/server/handlers"
DECLARED = re.compile(r"_handler<\s*(\w+)_api,\s*(\d+),\s*(\d+)")


def main(checkout: str, tag: str) -> None:
    command = ["git", "-C", checkout, "grep", "-h", "-E", r"_handler<\w+_api", tag, "--", HANDLERS]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    ranges = {name.upper(): f"{low}-{high}" for name, low, high in DECLARED.findall(found)}
    major, minor = tag.removeprefix("v").split(".")[:2]
    print(f",redpanda-{major}.{minor}")
    for key in ApiKey:
        if key.name in ranges:
            print(f"{key.name},{ranges[key.name]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
