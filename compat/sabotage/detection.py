"""Checks that scenarios detect a fault: they pass without it and fail with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compat.suite.results import Outcome
from compat.suite.runner import Runner
from compat.suite.scenario import all_scenarios

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from compat.sabotage.faults import Fault
    from compat.sabotage.frame_change import FrameChange
    from compat.suite.brokers import Broker
    from compat.suite.manifest import StockClient
    from compat.suite.process_pool import ProcessPool
    from compat.suite.relay import Relays
    from compat.suite.results import Cell

_TRIED = (Outcome.PASSED, Outcome.FAILED)
_REASON_LENGTH_MAX = 160
CELLS_AT_ONCE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultTrial:
    """Results of the cells that must fail with a fault."""

    fault: Fault
    tried: list[Cell]

    @property
    def found_by(self) -> list[Cell]:
        return [it for it in self.tried if it.outcome == Outcome.FAILED]

    @property
    def is_found(self) -> bool:
        return 0 < len(self.tried) == len(self.found_by)

    def lines(self) -> Iterator[str]:
        found = f"{len(self.found_by)}/{len(self.tried)}"
        yield f"{found} {self.fault.name}: {self.fault.sentence}"
        for cell in self.found_by:
            yield f"        {cell.client}: {' '.join(cell.reason.split())[:_REASON_LENGTH_MAX]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultTrials:
    """Runs scenarios against a broker while the relay changes its frames."""

    broker: Broker
    clients: Sequence[StockClient]
    pool: ProcessPool
    relays: Relays

    def trial_of(self, fault: Fault) -> FaultTrial:
        cells = self._played(fault.caught_by, fault.frame_changes)
        return FaultTrial(fault=fault, tried=[it for it in cells if it.outcome in _TRIED])

    def failures_without(self, faults: Iterable[Fault]) -> list[Cell]:
        """Returns cells that fail without a fault; such cells prove nothing."""
        names = dict.fromkeys(name for it in faults for name in it.caught_by)
        return [it for it in self._played(names, ()) if it.outcome == Outcome.FAILED]

    def _played(self, names: Iterable[str], frame_changes: tuple[FrameChange, ...]) -> list[Cell]:
        runner = Runner(
            pool=self.pool,
            relays=self.relays,
            at_once=CELLS_AT_ONCE,
            report=lambda _: None,
            frame_changes=frame_changes,
        )
        scenarios = {it.name: it for it in all_scenarios()}
        return runner.run([scenarios[it] for it in names], self.clients, [self.broker])
