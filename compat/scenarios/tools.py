"""Scenarios of the console tools of Apache Kafka's distribution, one for each tool.

Tools that do not connect to a broker are omitted: `connect-plugin-path` reads folders, `kafka-jmx`
a Java process, `trogdor` controls its own agents, `kafka-server-*` and `kafka-run-class` start
programs. Connect and MirrorMaker have their own modules.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from compat.suite.actor import until
from compat.suite.assertions import must_equal
from compat.suite.scenario import Need, scenario
from compat.suite.tool_fixture import RECORDS, Line, ToolFixture
from pykbroker_protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from compat.suite.scenario_context import ScenarioContext

TOOL_SECONDS = 180.0
SOON_SECONDS = 20.0
FILES = frozenset({Need.FILES})
SEGMENT = "00000000000000000000.log"

CORE = frozenset({"topics", "consumer-groups", "api-versions"})
LINES: dict[str, tuple[str, tuple[Line, ...]]] = {
    "topics": (
        "Topics are created, described, extended and deleted.",
        (
            Line("--create --topic {new} --partitions 2", "Created topic {new}"),
            Line("--create --topic {new}", "already exists", exit_code=1),
            Line("--alter --topic {new} --partitions 3"),
            Line("--describe --topic {new}", r"PartitionCount: 3\s"),
            Line("--list", "^{new}$"),
            Line("--delete --topic {new}"),
            Line("--describe --topic {new}", "does not exist", exit_code=1),
        ),
    ),
    "configs": (
        "Topic properties are set, described and unset.",
        (
            Line("--alter --topic {topic} --add-config retention.ms=9000000", "Completed updating"),
            Line("--describe --topic {topic}", "retention.ms=9000000 "),
            Line("--alter --topic {topic} --add-config retention.ms=soon", "retention.ms", 1),
            Line("--alter --topic {topic} --delete-config retention.ms", "Completed updating"),
            Line("--describe --topic {topic} --all", r"retention\.ms=(?!9000000 )-?\d+ "),
            Line("--describe --broker-defaults", "Default configs for brokers"),
        ),
    ),
    "consumer-groups": (
        "Group offsets are set, described and deleted.",
        (
            Line("--reset-offsets --group {group} --topic {topic} --to-latest --execute"),
            Line("--describe --group {group}", r"^{group}\s+{topic}\s+0\s+3\s+3\s+0"),
            Line("--describe --group {group} --state", "Empty"),
            Line("--list", "^{group}$"),
            Line("--delete-offsets --group {group} --topic {topic}:0", "Successful"),
            Line("--delete --group {group}", "was successful"),
            Line("--describe --group {group}", "GroupIdNotFoundException"),
        ),
    ),
    "groups": (
        "Groups of all kinds are listed.",
        (
            Line(
                "--reset-offsets --group {group} --topic {topic} --to-latest --execute",
                tool="consumer-groups",
            ),
            Line("--list", r"^{group}\s+(Consumer|Classic|Simple)"),
        ),
    ),
    "get-offsets": (
        "Start and end offsets, and offsets by timestamp, are listed.",
        (
            Line("--topic {topic}", "{topic}:0:3\n{topic}:1:3\n"),
            Line("--topic {topic} --time earliest", "{topic}:0:0\n{topic}:1:0\n"),
            Line("--topic {topic} --time 1700000000002", "{topic}:0:1\n{topic}:1:1\n"),
            Line("--topic {topic} --time max-timestamp", "{topic}:0:2\n{topic}:1:2\n"),
        ),
    ),
    "delete-records": (
        "Records before an offset are deleted.",
        (
            Line("--offset-json-file file:delete", r"{topic}-0\s+low_watermark: 2"),
            Line("--topic {topic} --time earliest", "{topic}:0:2\n", tool="get-offsets"),
        ),
    ),
    "log-dirs": (
        "Directories and sizes of replicas are described.",
        (Line("--describe --topic-list {topic}", r'"partition":\s*"{topic}-1"'),),
    ),
    "leader-election": (
        "Preferred leaders are elected.",
        (
            Line(
                "--election-type preferred --topic {topic} --partition 0",
                "Valid replica already elected",
            ),
        ),
    ),
    "reassign-partitions": (
        "A reassignment is planned, executed and verified.",
        (
            Line("--generate --topics-to-move-json-file file:move --broker-list {node}", "{topic}"),
            Line("--execute --reassignment-json-file file:stay", "Successfully started"),
            Line("--verify --reassignment-json-file file:stay", "{topic}-0 is completed"),
            Line("--list", "No partition reassignments found"),
        ),
    ),
    "cluster": (
        "Cluster id and brokers are described.",
        (
            Line("cluster-id --bootstrap-server {bootstrap}", r"Cluster ID: \S{22}"),
            Line("list-endpoints --bootstrap-server {bootstrap}", r"^{node}\s+127\.0\.0\.1"),
        ),
    ),
    "features": (
        "Features of the cluster and of releases are described.",
        (
            Line("describe", "Feature: metadata.version"),
            Line("version-mapping --release-version 4.3", "metadata.version=30"),
        ),
    ),
    "metadata-quorum": (
        "Leader and voters of the metadata quorum are described.",
        (
            Line("describe --status", r"LeaderId:\s+{node}\s"),
            Line("describe --replication", r"^{node}\s.*Leader"),
        ),
    ),
    "api-versions": (
        "APIs and their versions are listed.",
        (Line("", r"Produce\(0\): \d+ to \d+ \[usable: \d+\]"),),
    ),
    "acls": (
        "ACL commands report that there is no authorizer.",
        (Line("--list", "SecurityDisabledException", exit_code=1),),
    ),
    "delegation-tokens": (
        "Delegation token commands are rejected on a PLAINTEXT listener.",
        (
            Line(
                "--describe --command-config file:client",
                "UnsupportedByAuthenticationException",
                exit_code=1,
            ),
        ),
    ),
    "client-metrics": (
        "Client metrics subscriptions are listed.",
        (Line("--list"),),
    ),
    "transactions": (
        "Transactions and producers are described.",
        (
            Line("list", "^TransactionalId"),
            Line("describe-producers --topic {topic} --partition 0", "^ProducerId"),
            Line("find-hanging --broker-id {node}", "^Topic"),
        ),
    ),
    "streams-reset": (
        "The offsets of an application are reset.",
        (
            Line(
                "--application-id {group} --input-topics {topic} --to-offset 2",
                "{topic}",
            ),
        ),
    ),
    "console-producer": (
        "Lines of standard input are produced.",
        (
            Line(
                "--topic {single} --sync --compression-codec zstd"
                " --reader-property parse.key=true --reader-property key.separator=:",
                input="a:one\nb:two\n",
            ),
            Line(
                "--topic {single} --from-beginning --max-messages 2 --timeout-ms 30000"
                " --formatter-property print.key=true",
                "^a\tone\nb\ttwo\n",
                tool="console-consumer",
            ),
        ),
    ),
    "console-consumer": (
        "Records are printed, by partition and in a group.",
        (
            Line(
                "--topic {topic} --partition 0 --offset earliest --max-messages 3"
                " --formatter-property print.offset=true --timeout-ms 30000",
                "^Offset:0\t0\nOffset:1\t2\nOffset:2\t4\n",
            ),
            Line(
                "--topic {topic} --group {group} --from-beginning --max-messages 6"
                " --timeout-ms 30000 --isolation-level read_committed",
                r"^(\d\n){6}",
            ),
        ),
    ),
    "producer-perf": (
        "Produce performance is measured, also in transactions.",
        (
            Line(
                "--topic {single} --num-records 200 --record-size 100 --throughput -1"
                " --transaction-duration-ms 100 --transactional-id {group}"
                " --producer-props bootstrap.servers={bootstrap}",
                "^200 records sent",
            ),
        ),
    ),
    "consumer-perf": (
        "Consume performance is measured.",
        (Line("--topic {topic} --messages 6 --timeout 30000", r"start\.time(.*\n)+.*, 6, "),),
    ),
    "verifiable-producer": (
        "Each produced record is reported.",
        (
            Line(
                "--topic {single} --max-messages 50 --acks -1",
                r'"name":"tool_data","sent":50,"acked":50',
            ),
        ),
    ),
    "verifiable-consumer": (
        "Each commit is reported.",
        (
            Line(
                "--topic {topic} --group-id {group} --max-messages 6 --reset-policy earliest",
                r'"name":"offsets_committed","offsets":\[\{"topic":"{topic}"',
            ),
        ),
    ),
    "e2e-latency": (
        "End-to-end latency is measured.",
        (
            Line(
                "--topic {single} --num-records 20 --producer-acks all --record-size 50",
                r"Percentiles: 50th = \d+",
            ),
        ),
    ),
}
"""Commands of tools that need only a bootstrap address."""

FILE_LINES: dict[str, tuple[str, tuple[Line, ...]]] = {
    "dump-log": (
        "The records of a segment are printed.",
        (
            Line(
                "--files {data}/{topic}-0/" + SEGMENT + " --print-data-log",
                r"(?s)isvalid: true.*payload: 0\s.*payload: 2\s.*payload: 4\s",
            ),
        ),
    ),
    "storage": (
        "The data directory is described.",
        (Line("info --config file:server", r"node\.id={node}, version=1"),),
    ),
    "metadata-shell": (
        "The metadata is shown as a file tree.",
        (
            Line(
                "--snapshot copy:{data}/__cluster_metadata-0/"
                + SEGMENT
                + " ls /image/topics/byName",
                "{topic}",
                seconds=SOON_SECONDS,
            ),
        ),
    ),
}
"""Commands of tools that read the broker's files."""

NEW_GROUP = Line(
    "--alter --group {group} --add-config share.auto.offset.reset=earliest",
    tool="configs",
)
SHARE_LINES: dict[str, tuple[str, ApiKey, tuple[Line, ...]]] = {
    "console-share-consumer": (
        "Records of a share group are printed.",
        ApiKey.SHARE_FETCH,
        (
            NEW_GROUP,
            Line(
                "--topic {topic} --group {group} --max-messages 6 --timeout-ms 30000",
                r"^(\d\n){6}",
            ),
        ),
    ),
    "share-consumer-perf": (
        "Consume performance of a share group is measured.",
        ApiKey.SHARE_FETCH,
        (
            NEW_GROUP,
            Line(
                "--topic {topic} --group {group} --messages 6 --timeout 30000",
                r"start\.time(.*\n)+.*, 6, ",
            ),
        ),
    ),
    "verifiable-share-consumer": (
        "Each acknowledgement is reported.",
        ApiKey.SHARE_FETCH,
        (
            Line(
                "--topic {topic} --group-id {group} --max-messages 6"
                " --offset-reset-strategy earliest",
                '"name":"offsets_acknowledged"',
            ),
        ),
    ),
    "share-groups": (
        "A share group is listed and described.",
        ApiKey.SHARE_GROUP_DESCRIBE,
        (
            NEW_GROUP,
            Line(
                "--topic {topic} --group {group} --max-messages 6 --timeout-ms 30000",
                tool="console-share-consumer",
            ),
            Line("--list", "{group}", seconds=SOON_SECONDS),
            Line("--describe --group {group}", "{topic}"),
        ),
    ),
    "streams-groups": (
        "Streams groups are listed and described.",
        ApiKey.STREAMS_GROUP_DESCRIBE,
        (
            Line("--list"),
            Line("--describe --group {group}", "{group}.*(does not exist|not found)", 1),
        ),
    ),
}
"""Commands of tools for share and streams groups, and the API they require."""


def play(
    tool: str, lines: tuple[Line, ...], context: ScenarioContext, *, api: ApiKey | None = None
) -> None:
    if api is not None:
        context.must_serve(api)
    fixture = ToolFixture(context)
    for line in lines:
        fixture.run(tool, line)


for _tool, (_sentence, _lines) in LINES.items():
    scenario(f"tool-{_tool}", _sentence, timeout_seconds=TOOL_SECONDS, core=_tool in CORE)(
        partial(play, _tool, _lines)
    )


@scenario(
    "tool-replica-verification",
    "Replicas are compared repeatedly.",
    timeout_seconds=TOOL_SECONDS,
)
def replica_verification(context: ScenarioContext) -> None:
    """The tool runs until it is stopped; the scenario waits for one report."""
    fixture = ToolFixture(context)
    command = (
        "--broker-list {bootstrap} --topics-include {topic} --time -2 --report-interval-ms 200"
    )
    arguments = fixture.arguments("replica-verification", command)
    fixture.actor.do("start_tool", "worker", tool="replica-verification", arguments=arguments)

    def has_reported() -> bool:
        result = fixture.actor.do("heard", "worker")
        must_equal(result["exit_code"], None, f"the exit code: {result['output'][-800:]}")
        return f"max lag is 0 for partition {fixture.names['topic']}-" in result["output"]

    until(has_reported, "a report of the tool", seconds=60)
    fixture.actor.close("worker")
    must_equal(
        len(context.reference.records(fixture.names["topic"], 0)), RECORDS // 2, "records left"
    )


for _tool, (_sentence, _lines) in FILE_LINES.items():
    scenario(f"tool-{_tool}", _sentence, timeout_seconds=TOOL_SECONDS, needs=FILES)(
        partial(play, _tool, _lines)
    )

for _tool, (_sentence, _api, _lines) in SHARE_LINES.items():
    scenario(f"tool-{_tool}", _sentence, timeout_seconds=TOOL_SECONDS)(
        partial(play, _tool, _lines, api=_api)
    )
