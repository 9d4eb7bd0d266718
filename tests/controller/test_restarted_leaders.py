"""A restarted broker becomes leader of its partitions again."""

import pytest

from pykbroker.controller.brokers import lead_again
from tests.metadata.replaying import apply, image_with_eligible


@pytest.mark.parametrize(
    ("eligible", "last_known", "leads"),
    [((1,), (1,), True), ((), (1,), True), ((2,), (1,), False), ((), (), False)],
)
def test_the_last_in_sync_replica_becomes_leader_again(
    eligible: tuple[int, ...], last_known: tuple[int, ...], *, leads: bool
) -> None:
    image = image_with_eligible(eligible=eligible, last_known=last_known)
    for record in lead_again(image, 1, was_clean=True):
        apply(image, record)
    (partition,) = image.topics["topic"].partitions
    assert (partition.leader, partition.in_sync) == ((1, (1,)) if leads else (-1, ()))
    assert not leads or not partition.eligible
