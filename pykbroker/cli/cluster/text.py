"""Formats the document of `cluster describe` as tables, partitions with problems first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pykbroker.cli.cluster.health import age_text
from pykbroker.cli.output import bytes_text, counted, table

if TYPE_CHECKING:
    from collections.abc import Iterator

BROKER_HEADINGS: Final = (
    *("BROKER", "ADDRESS", "RACK", "STATE", "LEADERS", "REPLICAS"),
    *("DISK", "METADATA LAG", "LAST FETCH"),
)
VOTER_HEADINGS: Final = ("VOTER", "ADDRESS", "STATE", "LAG", "LAST FETCH", "LAST CAUGHT UP")
PROBLEM_HEADINGS: Final = (
    *("TOPIC", "PARTITION", "PROBLEM", "LEADER", "REPLICAS", "ISR", "ELR", "REASON"),
)
PARTITION_HEADINGS: Final = ("TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "ELR")


def cluster_text(cluster: dict[str, Any]) -> str:
    sections = [head(cluster), table(BROKER_HEADINGS, map(broker_row, cluster["brokers"]))]
    quorum = cluster["quorum"]
    if quorum is not None:
        rows = [voter_row(it, quorum["leader"]) for it in quorum["voters"]]
        sections.append(table(VOTER_HEADINGS, rows))
    if cluster["problems"]:
        rows = [problem_row(it) for it in cluster["problems"]]
        sections.append(table(PROBLEM_HEADINGS, rows) + omitted(cluster["problems_omitted"]))
    if cluster["partition_states"]:
        rows = [partition_row(it) for it in cluster["partition_states"]]
        text = table(PARTITION_HEADINGS, rows)
        sections.append(text + omitted(cluster["partition_states_omitted"]))
    return "\n\n".join(sections)


def head(cluster: dict[str, Any]) -> str:
    features = ", ".join(f"{name} {level}" for name, level in sorted(cluster["features"].items()))
    topics = f"{counted(cluster['topics'], 'topic')}, {counted(cluster['partitions'], 'partition')}"
    return "\n".join(
        (
            f"cluster     {cluster['cluster_id']}",
            f"controller  {controller_text(cluster)}",
            f"topics      {topics}",
            f"problems    {', '.join(problem_counts(cluster)) or 'none'}",
            f"features    {features or '-'}",
        )
    )


def controller_text(cluster: dict[str, Any]) -> str:
    quorum = cluster["quorum"]
    if quorum is None:
        return f"unknown ({cluster['quorum_error']})"
    offset = quorum["high_watermark"]
    return f"{quorum['leader']}, epoch {quorum['epoch']}, metadata offset {offset}"


def problem_counts(cluster: dict[str, Any]) -> Iterator[str]:
    for problem, count in cluster["problem_counts"].items():
        if count:
            name = problem.replace("_", "-").replace("isr", "ISR")
            yield f"{count} {name}"


def broker_row(broker: dict[str, Any]) -> tuple[object, ...]:
    used = sum(directory["bytes"] for directory in broker["log_dirs"])
    return (
        broker["id"],
        f"{broker['host']}:{broker['port']}",
        broker["rack"],
        ", ".join(broker_states(broker)),
        broker["leads"],
        broker["replicas"],
        bytes_text(used) if broker["log_dirs"] else None,
        broker["metadata_lag"],
        age_cell(broker["last_fetch_age_ms"]),
    )


def broker_states(broker: dict[str, Any]) -> Iterator[str]:
    yield broker["state"]
    if broker["cordoned"]:
        yield "cordoned"
    elif any(it["cordoned"] for it in broker["log_dirs"]):
        yield "partly cordoned"
    if any(it["error"] for it in broker["log_dirs"]):
        yield "log directory offline"
    if broker["error"] is not None and not broker["fenced"]:
        yield "no response"


def voter_row(voter: dict[str, Any], leader: int) -> tuple[object, ...]:
    return (
        voter["id"],
        voter["address"],
        "leader" if voter["id"] == leader else "follower",
        voter["lag"],
        age_cell(voter["last_fetch_age_ms"]),
        age_cell(voter["last_caught_up_age_ms"]),
    )


def age_cell(age_ms: int | None) -> str | None:
    return None if age_ms is None else age_text(age_ms)


def problem_row(partition: dict[str, Any]) -> tuple[object, ...]:
    return (
        partition["topic"],
        partition["partition"],
        partition["problem"],
        partition["leader"],
        partition["replicas"],
        in_sync_text(partition),
        partition["eligible"],
        "; ".join(f"replica {it['replica']}: {it['text']}" for it in partition["missing"]),
    )


def in_sync_text(partition: dict[str, Any]) -> str:
    """Formats the in-sync set with its required size, such as `1 (min 2)`."""
    in_sync = ",".join(map(str, partition["in_sync"])) or "-"
    is_below = partition["problem"] == "under-min-isr"
    return f"{in_sync} (min {partition['min_in_sync']})" if is_below else in_sync


def partition_row(partition: dict[str, Any]) -> tuple[object, ...]:
    return (
        partition["topic"],
        partition["partition"],
        partition["leader"],
        partition["leader_epoch"],
        partition["replicas"],
        partition["in_sync"],
        partition["eligible"],
    )


def omitted(count: int) -> str:
    if not count:
        return ""
    return f"\n{counted(count, 'partition')} not shown (--limit shows more, --topic selects topics)"
