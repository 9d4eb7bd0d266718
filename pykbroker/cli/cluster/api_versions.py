"""The command `api-versions`: shows the APIs, versions and features of a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.output import print_json, table
from pykbroker_protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.client.cluster_client import ClusterClient
    from pykbroker_protocol.messages.api_versions import ApiVersionsResponse


@cluster_command
async def api_versions(options: Namespace, client: ClusterClient) -> None:
    offered = (await client.broker()).offered
    documents = [
        {
            "key": api.api_key,
            "name": api_name(api.api_key),
            "min_version": api.min_version,
            "max_version": api.max_version,
        }
        for api in sorted(offered.api_keys, key=lambda api: api.api_key)
    ]
    if options.json:
        print_json({"apis": documents, "features": feature_documents(offered)})
        return
    rows = [(it["key"], it["name"], it["min_version"], it["max_version"]) for it in documents]
    print(table(("KEY", "API", "MIN", "MAX"), rows))
    features = [tuple(it.values()) for it in feature_documents(offered)]
    if features:
        print("\n" + table(("FEATURE", "MIN", "MAX", "FINALIZED"), features))


def api_name(api_key: int) -> str | None:
    """Returns the name in the protocol, such as ApiVersions; None for an unknown key."""
    try:
        words = ApiKey(api_key).name.split("_")
    except ValueError:
        return None
    return "".join(word.capitalize() for word in words)


def feature_documents(offers: ApiVersionsResponse) -> list[dict[str, Any]]:
    finalized = finalized_features(offers)
    return [
        {
            "name": it.name,
            "min_version": it.min_version,
            "max_version": it.max_version,
            "finalized": finalized.get(it.name),
        }
        for it in sorted(offers.supported_features, key=lambda it: it.name)
    ]


def finalized_features(offers: ApiVersionsResponse) -> dict[str, int]:
    return {it.name: it.max_version_level for it in offers.finalized_features}
