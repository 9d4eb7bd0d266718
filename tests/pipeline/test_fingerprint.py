"""Changes of a definition that a checkpoint accepts or rejects."""

from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.pipeline.declaration.reading import declare
from pykbroker.pipeline.fingerprint import (
    AGGREGATE,
    DefinitionChanged,
    check_unchanged,
    differences,
    fingerprint_of,
)
from pykbroker.pipeline.plan import queries_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tables = dict[str, Any]


def tables() -> Tables:
    return {
        "name": "fleet",
        "checkpoint": "checkpoint",
        "source": {
            "trucks": {
                "topics": ["trucks", "vans"],
                "format": "json",
                "schema": {"truck_id": "string", "speed": "double", "at": "timestamp"},
                "event_time": "at",
                "watermark": "1 minute",
            }
        },
        "sql": {
            "fast": {"inputs": ["trucks"], "query": "SELECT * FROM trucks WHERE speed > 90"},
            "models": {"inputs": ["trucks"], "query": "SELECT DISTINCT truck_id FROM trucks"},
        },
        "window": {
            "means": {
                "input": "fast",
                "size": "5 minutes",
                "by": ["truck_id"],
                "aggregates": {"mean": "avg(speed)"},
            }
        },
        "session": {
            "drives": {
                "input": "trucks",
                "gap": "1 minute",
                "by": ["truck_id"],
                "aggregates": {"n": "count(*)"},
            }
        },
        "archive": {"raw": {"source": "trucks", "path": "lake"}},
        "sink": {
            "means": {"input": "means", "kind": "topic", "topic": "means"},
            "drives": {"input": "drives", "kind": "topic", "topic": "drives"},
            "fast": {"input": "fast", "kind": "topic", "topic": "fast"},
            "models": {"input": "models", "kind": "console"},
        },
    }


def changed_queries(before: Tables, after: Tables) -> dict[str, list[str]]:
    old, new = declare(before), declare(after)
    kept = {query.name: fingerprint_of(old, query) for query in queries_of(old)}
    compared = {
        query.name: differences(kept[query.name], fingerprint_of(new, query))
        for query in queries_of(new)
    }
    return {name: changes for name, changes in compared.items() if changes}


def with_value(path: str, value: object) -> Tables:
    changed = tables()
    *sections, key = path.split("/")
    table = changed
    for section in sections:
        table = table[section]
    table[key] = value
    return changed


ACCEPTED = {
    "a new order of topics": ("source/trucks/topics", ["vans", "trucks"]),
    "another watermark": ("source/trucks/watermark", "5 minutes"),
    "another filter before an aggregate": (
        "sql/fast/query",
        "SELECT * FROM trucks WHERE speed > 95",
    ),
    "another topic to write to": ("sink/fast/topic", "faster"),
    "another value to write": ("sink/means/value", "CAST(mean AS STRING)"),
    "another interval": ("every", "1 hour"),
    "more columns": (
        "source/trucks/schema",
        {"truck_id": "string", "speed": "double", "at": "timestamp", "driver": "string"},
    ),
    "other properties": ("kafka", {"security.protocol": "PLAINTEXT"}),
    "the mode of a stateless query": ("sink/fast/mode", "update"),
}


@pytest.mark.parametrize(("path", "value"), ACCEPTED.values(), ids=ACCEPTED)
def test_checkpoint_accepts_the_change(path: str, value: object) -> None:
    assert changed_queries(tables(), with_value(path, value)) == {}


REJECTED: dict[str, tuple[str, object, dict[str, list[str]]]] = {
    "another size of a window": (
        "window/means/size",
        "10 minutes",
        {
            "sink.means": [
                "window.means.size was 5 minutes and is 10 minutes",
                "window.means.slide was 5 minutes and is 10 minutes",
            ]
        },
    ),
    "windows that overlap": (
        "window/means/slide",
        "1 minute",
        {"sink.means": ["window.means.slide was 5 minutes and is 1 minute"]},
    ),
    "another key": (
        "window/means/by",
        ["truck_id", "speed"],
        {"sink.means": ["window.means.by was truck_id and is truck_id, speed"]},
    ),
    "another aggregate": (
        "window/means/aggregates",
        {"top": "max(speed)"},
        {"sink.means": ["window.means.aggregates was avg(speed) AS mean and is max(speed) AS top"]},
    ),
    "another gap": (
        "session/drives/gap",
        "2 minutes",
        {"sink.drives": ["session.drives.gap was 1 minute and is 2 minutes"]},
    ),
    "another mode": (
        "sink/means/mode",
        "update",
        {"sink.means": ["sink.means.mode was append and is update"]},
    ),
    "another stateful query": (
        "sql/models/query",
        "SELECT DISTINCT truck_id, speed FROM trucks",
        {
            "sink.models": [
                (
                    "sql.models.query was SELECT DISTINCT truck_id FROM trucks "
                    "and is SELECT DISTINCT truck_id, speed FROM trucks"
                )
            ]
        },
    ),
    "another archive": (
        "archive/raw/path",
        "lake2",
        {"archive.raw": ["archive.raw.path was lake and is lake2"]},
    ),
    "an aggregate of other rows": (
        "window/means/input",
        "models",
        {
            "sink.means": [
                "sql.models.query was nothing and is SELECT DISTINCT truck_id FROM trucks"
            ]
        },
    ),
}


@pytest.mark.parametrize(("path", "value", "changes"), REJECTED.values(), ids=REJECTED)
def test_checkpoint_rejects_the_change(
    path: str, value: object, changes: dict[str, list[str]]
) -> None:
    assert changed_queries(tables(), with_value(path, value)) == changes


def test_changed_topics_are_rejected_for_every_query() -> None:
    changed = changed_queries(tables(), with_value("source/trucks/topics", ["trucks"]))
    assert changed.keys() == {query.name for query in queries_of(declare(tables()))}


STATEFUL = (
    "SELECT max(speed) AS n FROM trucks",
    "SELECT SUM (speed) AS n FROM trucks",
    "SELECT truck_id FROM trucks UNION ALL SELECT upper(truck_id) FROM trucks",
    "SELECT a.at FROM trucks a JOIN trucks b ON a.truck_id = b.truck_id",
    "SELECT a.at FROM trucks a, trucks b WHERE a.truck_id = b.truck_id",
    "SELECT at FROM trucks WHERE truck_id IN (SELECT truck_id FROM trucks)",
)
STATELESS = (
    "SELECT speed, trucks.at FROM trucks WHERE speed > 90",
    "SELECT maximum(at), lasting, `count` FROM trucks",
)


@pytest.mark.parametrize("query", STATEFUL)
def test_changed_stateful_query_is_rejected(query: str) -> None:
    before, after = with_value("sql/fast/query", query), with_value("sql/fast/query", query + " ")
    assert changed_queries(before, after) == {}
    changed = changed_queries(before, with_value("sql/fast/query", f"{query} LIMIT 1"))
    assert changed.keys() == {"sink.means", "sink.fast"}


@pytest.mark.parametrize("query", STATELESS)
def test_changed_stateless_query_is_accepted(query: str) -> None:
    assert changed_queries(with_value("sql/fast/query", query), tables()) == {}


def test_pattern_matches_all_aggregates_of_this_spark(spark: "SparkSession") -> None:
    registry = spark._jsparkSession.sessionState().functionRegistry()
    functions = registry.listFunction().iterator()
    unknown = []
    while functions.hasNext():
        name = functions.next()
        is_aggregate = registry.lookupFunction(name).get().getGroup() == "agg_funcs"
        if is_aggregate and not AGGREGATE.fullmatch(f"{name.funcName()}("):
            unknown.append(name.funcName())
    assert unknown == []


def test_whitespace_of_a_query_may_change() -> None:
    spaced = with_value("sql/models/query", "SELECT DISTINCT truck_id\n  FROM trucks\n")
    assert changed_queries(tables(), spaced) == {}


def test_error_names_the_changes_and_both_remedies() -> None:
    pipeline = declare(tables())
    query = queries_of(pipeline)[1]
    declared = fingerprint_of(pipeline, query)
    kept = declared | {"window.means.size": "1 hour"}
    with pytest.raises(DefinitionChanged) as refused:
        check_unchanged(query, kept, declared, "checkpoint/sink.means")
    assert str(refused.value) == (
        "sink.means has a checkpoint that does not fit this declaration:\n"
        "  window.means.size was 1 hour and is 5 minutes\n"
        "Either restore the previous declaration, which keeps the state; or delete\n"
        "  checkpoint/sink.means\n"
        "and sink.means starts again at the start position of its sources. "
        "Its previous output is kept."
    )
    check_unchanged(query, declared, declared, "checkpoint/sink.means")
