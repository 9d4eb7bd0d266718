"""Feature updates: supported levels, the requested direction, all or none."""

from typing import Any

import pytest

from pykbroker.controller.feature_updates import update_features
from pykbroker.controller_access import FeatureUpdate, UpgradeType
from pykbroker.metadata.features import FEATURES_OF_A_NEW_CLUSTER
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.metadata.cluster import FeatureLevelRecord

UP, DOWN, RISKY_DOWN = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE
NAME = "transaction.version"


def update(level: int, upgrade_type: UpgradeType, name: str = NAME) -> FeatureUpdate:
    return FeatureUpdate(name=name, level=level, upgrade_type=upgrade_type)


@pytest.mark.parametrize(
    ("current", "level", "upgrade_type", "is_taken"),
    [
        (2, 1, DOWN, True),
        (2, 0, RISKY_DOWN, True),
        (0, 2, UP, True),
        (1, 1, UP, True),
        (1, 1, DOWN, True),
        (2, 1, UP, False),
        (1, 2, DOWN, False),
        (2, 3, UP, False),
        (2, -1, DOWN, False),
        (2, 1, UpgradeType.UNKNOWN, False),
    ],
)
def test_a_level_changes_only_in_the_requested_direction(
    current: int, level: int, upgrade_type: UpgradeType, *, is_taken: bool
) -> None:
    records, refusal = update_features({NAME: current}, [update(level, upgrade_type)])
    assert (refusal is None) is is_taken
    changes = is_taken and level != current
    assert list(records) == (
        [FeatureLevelRecord(name=NAME, feature_level=level)] if changes else []
    )


@pytest.mark.parametrize("name", ["no.such.feature", "", "metadata.version"])
def test_one_refused_update_refuses_all(name: str) -> None:
    requested = [update(1, DOWN), update(1, DOWN, name)]
    records, refusal = update_features(FEATURES_OF_A_NEW_CLUSTER, requested)
    assert not records
    assert refusal is not None
    assert refusal.code is ErrorCode.INVALID_UPDATE_VERSION


async def test_a_level_is_kept_after_a_restart(node: Any) -> None:
    controller = await node.start()
    assert controller.image.features[NAME] == 2
    assert await controller.update_features([update(1, DOWN)], validate_only=True) is None
    assert controller.image.features[NAME] == 2
    for level in (1, 0):
        assert await controller.update_features([update(level, DOWN)]) is None
        await node.stop(controller)
        controller = await node.start()
        assert controller.image.features.get(NAME, 0) == level
