"""Rebalance of a large group: from the last join until all members are stable."""

from collections.abc import Iterator

from benchmarks.client_process import run_client
from benchmarks.groups import NotServedError, serves
from benchmarks.measurement import Sample
from benchmarks.rivals import Broker
from benchmarks.topics import ensure
from benchmarks.workloads.kinds import Scale, ServingWorkload, cost_of
from pykbroker_protocol.api_keys import ApiKey

TOPIC = "group-rebalance"
PROTOCOLS = {"classic": ApiKey.JOIN_GROUP, "consumer": ApiKey.CONSUMER_GROUP_HEARTBEAT}


def run(broker: Broker, scale: Scale) -> Iterator[Sample]:
    ensure(broker, TOPIC, partitions=scale.group_partitions)
    for protocol, api_key in PROTOCOLS.items():
        if not serves(broker.port, api_key):
            raise NotServedError(f"the {protocol} protocol is not served")
        yield from _measure(broker, protocol, scale)


def _measure(broker: Broker, protocol: str, scale: Scale) -> Iterator[Sample]:
    amount = (scale.group_partitions, scale.group_members)
    with cost_of(broker) as cost:
        client = run_client("group_members", protocol, broker.port, TOPIC, *amount)
    group = f"{protocol}, {scale.group_partitions} partitions"
    for case, metric, unit, value in (
        (
            f"{group}, {scale.group_members - 1} members at once",
            "last join to stable",
            "s",
            client["together_seconds"],
        ),
        (
            f"{group}, one joins as the {scale.group_members}th",
            "last join to stable",
            "s",
            client["one_more_seconds"],
        ),
        (group, "broker CPU for both", "s", cost.cpu_seconds),
        (group, "client busy", "cores", client["client_cpu_seconds"] / client["seconds"]),
    ):
        yield Sample(case=case, metric=metric, unit=unit, value=value)


WORKLOAD = ServingWorkload(name="group-rebalance", run=run)
