"""Runs Apache Kafka's console tools by short names."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from compat.apache.installation import LOGGING, install, java

TOOLS = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "connect-distributed": "org.apache.kafka.connect.cli.ConnectDistributed",
    "connect-standalone": "org.apache.kafka.connect.cli.ConnectStandalone",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "consumer-perf": "org.apache.kafka.tools.ConsumerPerformance",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "metadata-shell": "org.apache.kafka.shell.MetadataShell",
    "mirror-maker": "org.apache.kafka.connect.mirror.MirrorMaker",
    "producer-perf": "org.apache.kafka.tools.ProducerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "share-consumer-perf": "org.apache.kafka.tools.ShareConsumerPerformance",
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "storage": "kafka.tools.StorageTool",
    "streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "streams-reset": "org.apache.kafka.tools.StreamsResetter",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
}
TOOL_TIMEOUT_SECONDS = 120.0

# Tools run for a second or two: the optimising compiler and a parallel collector do not pay off.
SHORT_LIVED_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
# For tools that measure performance.
MEASURING_JVM = ("-Xms512m", "-Xmx512m", "-XX:+UseG1GC")

Completed = subprocess.CompletedProcess[str]


def java_command(libraries: Path, jvm: Sequence[str], main: str, *arguments: str) -> list[str]:
    """Returns the command line of a Java program with Apache Kafka's jars."""
    command = [java(), *jvm, "-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true"]
    if not any(option.startswith("-Dlog.level=") for option in jvm):
        command.append("-Dlog.level=ERROR")
    command += [f"-Dlog4j2.configurationFile={LOGGING}", "-cp", f"{libraries}/*"]
    return [*command, main, *arguments]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApacheTools:
    """The tools of one installation."""

    libraries: Path
    jvm: tuple[str, ...] = SHORT_LIVED_JVM

    @classmethod
    def installed(cls, *, jvm: tuple[str, ...] = SHORT_LIVED_JVM) -> Self:
        return cls(libraries=install(), jvm=jvm)

    def tool(
        self,
        name: str,
        *arguments: object,
        input: str | None = None,  # noqa: A002 (named as in subprocess.run, which it feeds)
        timeout_seconds: float = TOOL_TIMEOUT_SECONDS,
    ) -> Completed:
        """Runs a tool to its end. A non-zero exit code does not raise."""
        return subprocess.run(
            self.command(name, *arguments),
            check=False,
            capture_output=True,
            text=True,
            input=input if input is not None else "",
            timeout=timeout_seconds,
        )

    def command(self, name: str, *arguments: object) -> list[str]:
        """Returns the command line of a tool."""
        return java_command(self.libraries, self.jvm, TOOLS[name], *map(str, arguments))

    def dump_log(self, *files: Path, options: Sequence[str] = ()) -> str:
        """Returns the output of DumpLogSegments for log, index and snapshot files."""
        listed = ",".join(str(file) for file in files)
        return _output_of(self.tool("dump-log", "--files", listed, *options))

    def metadata_shell(self, snapshot: Path, *command: str) -> str:
        """Returns the output of MetadataShell for a snapshot or metadata log file."""
        return _output_of(self.tool("metadata-shell", "--snapshot", snapshot, *command))


class ToolFailedError(AssertionError):
    """A tool failed; the message is its output."""


def _output_of(completed: Completed) -> str:
    if completed.returncode != 0:
        raise ToolFailedError(f"{completed.stdout}{completed.stderr}")
    return completed.stdout
