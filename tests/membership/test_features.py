"""The features that a broker of a cluster claims, and the clusters that it refuses."""

import pytest

from pykbroker.membership.features import SERVED_BY_A_MEMBER, claimed_features, refuse_cluster

SERVED = {"metadata.version": 30, "group.version": 1, "transaction.version": 2}
COMMAND = "run kafka-features.sh --bootstrap-controller 10.0.0.1:9093"


@pytest.mark.parametrize(
    "finalized",
    [
        SERVED,
        {"metadata.version": 19},
        {**SERVED, "eligible.leader.replicas.version": 1, "kraft.version": 1},
        {**SERVED, "share.version": 0},
    ],
)
def test_a_cluster_with_served_features_is_joined(finalized: dict[str, int]) -> None:
    assert refuse_cluster(finalized, ["10.0.0.1:9093"]) is None


@pytest.mark.parametrize(
    ("finalized", "refusal"),
    [
        (
            {**SERVED, "share.version": 1},
            (
                "the cluster has finalized share.version 1, which this broker does not serve; "
                f"{COMMAND} downgrade --feature share.version=0"
            ),
        ),
        (
            {**SERVED, "metadata.version": 31},
            (
                "the cluster has finalized metadata.version 31, which this broker does not serve; "
                f"{COMMAND} downgrade --feature metadata.version=30"
            ),
        ),
        (
            {"metadata.version": 14},
            (
                "the cluster has finalized metadata.version 14, which this broker does not serve; "
                f"{COMMAND} upgrade --feature metadata.version=19"
            ),
        ),
    ],
)
def test_another_cluster_is_refused_with_the_command_that_changes_it(
    finalized: dict[str, int], refusal: str
) -> None:
    assert refuse_cluster(finalized, ["10.0.0.1:9093"]) == refusal


def test_the_claimed_features_are_those_that_are_served() -> None:
    claimed = {
        it.name: (it.min_supported_version, it.max_supported_version)
        for it in claimed_features(SERVED)
    }
    assert claimed == SERVED_BY_A_MEMBER


def test_controllers_of_older_releases_get_no_range_that_begins_with_zero() -> None:
    claimed = claimed_features({"metadata.version": 20})
    assert min(it.min_supported_version for it in claimed) == 1
