"""Transactions are repaired after a power loss only by a broker that is alone in its cluster."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from pykbroker_storage.filesystem import VolatileDisk
from tests.apis.one_broker import broker_on

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("is_alone", [False, True])
async def test_a_broker_repairs_losses_only_if_it_is_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_alone: bool
) -> None:
    async with broker_on(VolatileDisk(), tmp_path / "data") as broker:
        await broker.create_topics([("__transaction_state", 1, 1)])
        brokers = broker.node.image.brokers
        if not is_alone:
            brokers[2] = dataclasses.replace(brokers[1], id=2, fenced=True)
        repairs: list[None] = []
        monkeypatch.setattr(broker.transactions, "repair_losses", lambda: repairs.append(None))
        monkeypatch.setattr(broker.directory, "was_clean", False)
        broker.applier.load_coordinators()
        assert bool(repairs) == is_alone
