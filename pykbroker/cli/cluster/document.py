"""The JSON document of `cluster describe`; docs/cli.md lists its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker.cli.cluster.health import Problem, last_fetch_age_ms, missing_replicas

if TYPE_CHECKING:
    from pykbroker.cli.cluster.health import Census, Unhealthy
    from pykbroker.cli.cluster.partition_reading import Lags
    from pykbroker.cli.cluster.state import (
        BrokerState,
        LogDirectory,
        Members,
        PartitionState,
        QuorumReplica,
        QuorumState,
    )


def cluster_document(members: Members, census: Census, lags: Lags) -> dict[str, Any]:
    unhealthy = census.unhealthy
    return {
        "cluster_id": members.cluster_id,
        "controller": members.controller_id,
        "topics": census.topics,
        "partitions": census.partitions,
        "features": dict(members.features),
        "quorum": None if members.quorum is None else quorum_document(members.quorum),
        "quorum_error": members.quorum_error,
        "brokers": [broker_document(it, members, census) for it in members.brokers.values()],
        "problem_counts": {
            problem.value.replace("-", "_"): census.problems[problem] for problem in Problem
        },
        "problems": [problem_document(it, members, lags) for it in unhealthy],
        "problems_omitted": census.problems.total() - len(unhealthy),
        "partition_states": [partition_document(it) for it in census.shown],
        "partition_states_omitted": census.partitions - len(census.shown),
    }


def quorum_document(quorum: QuorumState) -> dict[str, Any]:
    return {
        "leader": quorum.leader,
        "epoch": quorum.epoch,
        "high_watermark": quorum.high_watermark,
        "voters": [replica_document(it) for it in quorum.voters],
        "observers": [replica_document(it) for it in quorum.observers],
    }


def replica_document(replica: QuorumReplica) -> dict[str, Any]:
    return {
        "id": replica.replica_id,
        "address": replica.address,
        "log_end_offset": replica.log_end_offset,
        "lag": replica.lag,
        "last_fetch_age_ms": replica.last_fetch_age_ms,
        "last_caught_up_age_ms": replica.last_caught_up_age_ms,
    }


def broker_document(broker: BrokerState, members: Members, census: Census) -> dict[str, Any]:
    observer = members.quorum.replica(broker.broker_id) if members.quorum is not None else None
    return {
        "id": broker.broker_id,
        "host": broker.address.host,
        "port": broker.address.port,
        "rack": broker.rack,
        "state": "fenced" if broker.is_fenced else "unfenced",
        "fenced": broker.is_fenced,
        "cordoned": broker.is_cordoned,
        "error": broker.error,
        "metadata_lag": observer.lag if observer is not None else None,
        "last_fetch_age_ms": last_fetch_age_ms(members, broker.broker_id),
        "leads": census.leaders[broker.broker_id],
        "replicas": census.replicas[broker.broker_id],
        "log_dirs": [log_directory_document(it) for it in broker.log_directories],
    }


def log_directory_document(directory: LogDirectory) -> dict[str, Any]:
    return {
        "path": directory.path,
        "bytes": directory.size,
        "usable_bytes": directory.usable_bytes,
        "cordoned": directory.is_cordoned,
        "error": directory.error,
    }


def partition_document(partition: PartitionState) -> dict[str, Any]:
    eligible, last_known = partition.eligible, partition.last_known_eligible
    return {
        "topic": partition.topic,
        "partition": partition.index,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "in_sync": list(partition.in_sync),
        "eligible": None if eligible is None else list(eligible),
        "last_known_eligible": None if last_known is None else list(last_known),
    }


def problem_document(unhealthy: Unhealthy, members: Members, lags: Lags) -> dict[str, Any]:
    return {
        **partition_document(unhealthy.partition),
        "problem": unhealthy.problem.value,
        "min_in_sync": unhealthy.min_in_sync,
        "missing": [
            {
                "replica": it.replica,
                "reason": it.reason.value,
                "lag": it.lag,
                "last_fetch_age_ms": it.last_fetch_age_ms,
                "text": it.text,
            }
            for it in missing_replicas(unhealthy, members, lags)
        ],
    }
