"""`cluster describe` on scripted clusters: problems first, with reasons, within time limits."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker import Broker
from pykbroker.cli.cluster import survey
from pykbroker.cli.cluster.describe import read_cluster, screen, watch
from pykbroker.cli.cluster.text import cluster_text
from pykbroker.cli.command_line import read_command_line
from pykbroker.client.cluster_client import ClusterClient
from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.client.errors import InvalidResponse
from pykbroker_protocol.api_keys import ApiKey
from tests.cli.scripted_cluster import Member, Replicas, ScriptedCluster

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

SILENCE_SECONDS = 0.3


@pytest.fixture(autouse=True)
def _short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "BROKER_TIMEOUT_SECONDS", SILENCE_SECONDS)


def options_of(*arguments: str) -> Namespace:
    return read_command_line(["cluster", "describe", *arguments])


async def describe(cluster: ScriptedCluster, *arguments: str) -> dict[str, Any]:
    errors: list[str] = []
    async with cluster.serving():
        bootstrap = next(it.address for it in cluster.members.values() if not it.is_silent)
        client = ClusterClient([bootstrap], ConnectionOptions(timeout_seconds=5))
        try:
            document = await read_cluster(options_of(*arguments), client, errors)
        finally:
            await client.close()
    assert not errors
    return document


def three_members(**third: Any) -> dict[int, Member]:
    return {1: Member(rack="a"), 2: Member(rack="b"), 3: Member(rack="c", **third)}


def reasons(document: dict[str, Any]) -> dict[int, tuple[str, str]]:
    """Returns reason and text of the missing replicas of the first problem."""
    return {it["replica"]: (it["reason"], it["text"]) for it in document["problems"][0]["missing"]}


async def test_a_fenced_replica_is_shown_with_the_age_of_its_last_fetch() -> None:
    document = await describe(
        ScriptedCluster(
            members=three_members(is_fenced=True, fetch_age_ms=41_900),
            topics={"t": [Replicas(leader=1, replicas=(1, 2, 3), in_sync=(1, 2), offline=(3,))]},
            min_in_sync=2,
        )
    )
    assert document["brokers"][2]["state"] == "fenced"
    assert document["problem_counts"] == {"offline": 0, "under_min_isr": 0, "under_replicated": 1}
    text = cluster_text(document)
    assert "replica 3: fenced, last metadata fetch 41 s ago" in text
    assert "problems    1 under-replicated" in text


async def test_a_fenced_replica_that_the_controller_evicted_has_no_recent_fetch() -> None:
    document = await describe(
        ScriptedCluster(
            members=three_members(is_fenced=True, fetch_age_ms=None),
            topics={"t": [Replicas(leader=1, replicas=(1, 3), in_sync=(1,))]},
        )
    )
    assert reasons(document) == {3: ("fenced", "fenced, no recent metadata fetch")}


async def test_the_lag_of_a_replica_is_measured_between_log_ends() -> None:
    lagging = Replicas(leader=1, replicas=(1, 2, 3), in_sync=(1,), ends={1: 2000, 2: 796, 3: 2000})
    document = await describe(ScriptedCluster(members=three_members(), topics={"t": [lagging]}))
    assert reasons(document) == {
        2: ("lagging", "1,204 records behind the leader"),
        3: ("caught up", "has all records, returns to the in-sync set with its next fetches"),
    }


async def test_a_silent_broker_delays_the_output_by_one_timeout() -> None:
    cluster = ScriptedCluster(
        members=three_members(is_silent=True, fetch_age_ms=7_000),
        topics={"t": [Replicas(leader=1, replicas=(1, 3), in_sync=(1,), ends={1: 5})]},
    )
    began = time.monotonic()
    document = await describe(cluster)
    assert time.monotonic() - began < 10 * SILENCE_SECONDS
    assert reasons(document)[3] == (
        "unreachable",
        "unfenced, but does not respond (did not respond in 0.3 s), last metadata fetch 7 s ago",
    )
    assert "unfenced, no response" in cluster_text(document)


async def test_a_silent_controller_is_shown_as_unknown() -> None:
    cluster = ScriptedCluster(
        members=three_members(),
        topics={"t": [Replicas(leader=1, replicas=(1,), in_sync=(1,))]},
        silent_apis=frozenset({ApiKey.DESCRIBE_QUORUM}),
    )
    document = await describe(cluster)
    assert document["quorum"] is None
    assert "controller  unknown (127.0.0.1:" in cluster_text(document)
    assert document["partitions"] == 1


async def test_problems_are_sorted_by_severity() -> None:
    document = await describe(
        ScriptedCluster(
            members=three_members(is_fenced=True),
            topics={
                "a": [Replicas(leader=1, replicas=(1, 2, 3), in_sync=(1, 2))],
                "b": [Replicas(leader=1, replicas=(1, 3), in_sync=(1,))],
                "c": [Replicas(leader=-1, replicas=(1, 3), in_sync=(3,), eligible=())],
                "d": [Replicas(leader=1, replicas=(1, 2), in_sync=(1, 2))],
            },
            min_in_sync=2,
        )
    )
    found = [(it["topic"], it["problem"]) for it in document["problems"]]
    assert found == [("c", "offline"), ("b", "under-min-isr"), ("a", "under-replicated")]
    assert reasons(document) == {
        1: (
            "not eligible",
            "alive, but neither in sync nor eligible: its election would lose records",
        ),
        3: ("fenced", "fenced, last metadata fetch 0.1 s ago"),
    }
    assert " 1 (min 2) " in cluster_text(document)


async def test_an_offline_directory_and_a_missing_registration_are_reasons() -> None:
    document = await describe(
        ScriptedCluster(
            members=three_members(),
            topics={"t": [Replicas(leader=1, replicas=(1, 2, 9), in_sync=(1,), offline=(2, 9))]},
        )
    )
    assert reasons(document) == {
        2: ("log directory offline", "its log directory is offline"),
        9: ("not registered", "no registered broker has this id"),
    }


async def test_a_cordoned_broker_is_shown() -> None:
    document = await describe(ScriptedCluster(members=three_members(is_cordoned=True)))
    assert [it["cordoned"] for it in document["brokers"]] == [False, False, True]
    assert "unfenced, cordoned" in cluster_text(document)


async def test_thousands_of_partitions_are_counted_in_pages_and_shown_up_to_the_limit() -> None:
    healthy = Replicas(leader=1, replicas=(1, 2), in_sync=(1, 2))
    under = Replicas(leader=1, replicas=(1, 3), in_sync=(1,))
    cluster = ScriptedCluster(
        members=three_members(is_fenced=True),
        topics={f"t{number}": [healthy] * 400 + [under] * 100 for number in range(9)},
    )
    document = await describe(cluster, "--limit", "20")
    pages = [api for _, api in cluster.requests if api is ApiKey.DESCRIBE_TOPIC_PARTITIONS]
    assert len(pages) == 3
    assert (document["topics"], document["partitions"]) == (9, 4500)
    assert document["brokers"][0]["leads"] == 4500
    assert document["problem_counts"]["under_replicated"] == 900
    assert (len(document["problems"]), document["problems_omitted"]) == (20, 880)
    assert (len(document["partition_states"]), document["partition_states_omitted"]) == (20, 4480)
    text = cluster_text(document)
    assert "880 partitions not shown (--limit" in text
    assert "4480 partitions not shown (--limit" in text
    assert len(text.splitlines()) < 70


async def test_a_topic_filter_is_part_of_the_request() -> None:
    led = Replicas(leader=1, replicas=(1,), in_sync=(1,))
    cluster = ScriptedCluster(members=three_members(), topics={"a": [led], "b": [led] * 2})
    document = await describe(cluster, "--topic", "b")
    assert (document["topics"], document["partitions"]) == (1, 2)


async def test_a_cursor_that_does_not_advance_is_an_invalid_response() -> None:
    led = Replicas(leader=1, replicas=(1,), in_sync=(1,))
    cluster = ScriptedCluster(
        members=three_members(), topics={"a": [led] * 5}, is_cursor_stuck=True, page_max=2
    )
    with pytest.raises(InvalidResponse, match="does not advance"):
        await describe(cluster)


async def test_older_brokers_are_described_without_their_missing_apis() -> None:
    cluster = ScriptedCluster(
        members=three_members(),
        topics={"t": [Replicas(leader=1, replicas=(1, 2), in_sync=(1,), ends={1: 3, 2: 3})]},
        versions={
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: None,
            ApiKey.DESCRIBE_QUORUM: None,
            ApiKey.DESCRIBE_CLUSTER: 1,
            ApiKey.DESCRIBE_LOG_DIRS: 4,
        },
    )
    document = await describe(cluster)
    assert document["problems"][0]["eligible"] is None
    assert document["brokers"][0]["cordoned"] is None
    assert document["quorum_error"].startswith("UNSUPPORTED_VERSION")
    assert document["controller"] == 1


async def test_watch_continues_with_another_broker_after_a_failure(
    capsys: pytest.CaptureFixture[str], eventually_async: Callable[..., Any]
) -> None:
    cluster = ScriptedCluster(members=three_members())
    async with cluster.serving():
        client = ClusterClient([cluster.members[1].address], ConnectionOptions(timeout_seconds=0.5))
        options = options_of("--watch", "--interval", "0.01", "--json")
        watching = asyncio.create_task(watch(options, client))
        printed: list[str] = []

        def read_printed() -> list[str]:
            printed.extend(capsys.readouterr().out.splitlines())
            return printed

        await eventually_async(read_printed)
        cluster.members[1].is_silent = True
        before = len(read_printed())
        await eventually_async(
            lambda: [it for it in read_printed()[before:] if json.loads(it)["brokers"][0]["error"]]
        )
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await client.close()


@pytest.fixture
def eventually_async() -> Callable[..., Any]:
    async def wait_for(condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + 20
        while not (found := condition()):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        return found

    return wait_for


def test_watch_prints_one_json_document_per_line_when_piped() -> None:
    with Broker({"t": 2}) as broker:
        command = [sys.executable, "-m", "pykbroker", "cluster", "describe", "--watch", "--json"]
        command += ["--interval", "0.05", "--bootstrap", broker.bootstrap]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
            assert watching.stdout is not None
            found = [json.loads(watching.stdout.readline()) for _ in range(3)]
            watching.terminate()
    assert [it["partitions"] for it in found] == [2, 2, 2]


def test_a_screen_is_cut_to_the_size_of_the_terminal() -> None:
    shown = screen([f"line {number} is long" for number in range(10)], rows=4, columns=8)
    assert shown.count("\r\n") == 3
    assert "line 2 i\x1b[K" in shown
    assert "line 3" not in shown
    assert "7 lines" in shown
