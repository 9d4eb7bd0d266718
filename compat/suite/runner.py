"""Runs every scenario with every client against every broker, several cells at a time."""

from __future__ import annotations

import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from compat.missing_tool import MissingToolError
from compat.suite.actor import CannotError
from compat.suite.assertions import ScenarioFailedError, must_equal
from compat.suite.installation import installed
from compat.suite.line_process import ClientError, ProgramFailedError
from compat.suite.recording import Frame, malformed
from compat.suite.results import Cell, Outcome, ShownFrame
from compat.suite.scenario import Need, Scenario
from compat.suite.scenario_context import NotServedError, ScenarioContext, open_context
from compat.suite.shared_restart import SharedRestart
from compat.wire import Closed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from compat.sabotage.frame_change import FrameChange
    from compat.suite.brokers import Broker
    from compat.suite.manifest import StockClient
    from compat.suite.process_pool import ProcessPool
    from compat.suite.relay import Relays

RESTARTED_AT_ONCE_MAX = 6
"""Cells that share a restart; each has one or two client processes."""
FIRST_SHOWN, LAST_SHOWN = 60, 80
"""Reports contain the first and the last commands and frames of a failed cell."""
_EXPECTED = (ScenarioFailedError, ClientError, ProgramFailedError, Closed)
"""Failures reported without a traceback."""


class PlannedCell(NamedTuple):
    """A cell of the matrix before it runs."""

    scenario: Scenario
    client: StockClient
    broker: Broker


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    pool: ProcessPool
    relays: Relays
    at_once: int
    report: Callable[[Cell], None]
    """Called with each finished cell."""
    frame_changes: tuple[FrameChange, ...] = ()
    """Injected faults, which the scenarios must detect."""
    tests_not_true: bool = False
    """Runs only the scenarios that manifests list in `not_true`."""

    def run(
        self,
        scenarios: Sequence[Scenario],
        clients: Sequence[StockClient],
        brokers: Sequence[Broker],
    ) -> list[Cell]:
        """Runs all cells: first those that read files, last those that restart the broker.

        MetadataShell responds before it has loaded a large metadata log, so it runs early.
        """
        unavailable = self._install(clients)
        planned_cells = [
            PlannedCell(scenario, client, broker)
            for scenario in scenarios
            for client in clients
            if scenario.subject in client.plays
            and (scenario.name in client.not_true or not self.tests_not_true)
            for broker in brokers
        ]
        cells = [
            self._report(_cell(it, Outcome.NOT_TRIED, reason=unavailable[str(it.client)]))
            for it in planned_cells
            if str(it.client) in unavailable and not self._known_not_true(it)
        ]
        to_play = []
        for it in planned_cells:
            if reason := self._known_not_true(it):
                cells.append(self._report(_cell(it, Outcome.CANNOT, reason=reason)))
            elif str(it.client) not in unavailable:
                to_play.append(it)
        shared = sorted(
            (it for it in to_play if Need.RESTART not in it.scenario.needs),
            key=lambda it: Need.FILES not in it.scenario.needs,
        )
        alone = sorted(
            (it for it in to_play if Need.RESTART in it.scenario.needs),
            key=lambda it: (it.scenario.name, str(it.broker)),
        )
        with ThreadPoolExecutor(self.at_once) as threads:
            cells += threads.map(self._play_and_report, shared)
        for together in _together(alone):
            cells += self._play_with_one_restart(together)
        return cells

    def _known_not_true(self, planned: PlannedCell) -> str | None:
        """Returns the manifest's reason for skipping this cell, or None."""
        return None if self.tests_not_true else planned.client.not_true.get(planned.scenario.name)

    def _play_with_one_restart(self, planned_cells: Sequence[PlannedCell]) -> Iterable[Cell]:
        """Runs cells of one scenario and broker concurrently; they share one restart."""
        restart = planned_cells[0].broker.restart
        shared = None if restart is None else SharedRestart(restart, len(planned_cells))
        with ThreadPoolExecutor(len(planned_cells)) as threads:
            return threads.map(lambda it: self._report(self._played(it, shared)), planned_cells)

    def _install(self, clients: Sequence[StockClient]) -> dict[str, str]:
        """Installs the clients; returns those that are not available, with the reason."""
        unavailable: dict[str, str] = {}

        def install(client: StockClient) -> None:
            try:
                installed(client)
            except MissingToolError as error:
                unavailable[str(client)] = str(error)

        with ThreadPoolExecutor(self.at_once) as threads:
            list(threads.map(install, clients))
        return unavailable

    def _play_and_report(self, planned: PlannedCell) -> Cell:
        return self._report(self._played(planned))

    def _report(self, cell: Cell) -> Cell:
        self.report(cell)
        return cell

    def _played(self, planned: PlannedCell, restart: SharedRestart | None = None) -> Cell:
        scenario, client, broker = planned
        if Need.RESTART in scenario.needs and restart is None:
            return _cell(planned, Outcome.NOT_TRIED, reason="the suite did not start this broker")
        if Need.FILES in scenario.needs and broker.data_dir is None:
            reason = "the suite cannot access the broker's files"
            return _cell(planned, Outcome.NOT_TRIED, reason=reason)
        started = time.monotonic()
        with open_context(
            client,
            broker,
            self.pool,
            self.relays,
            scenario.timeout_seconds,
            restart,
            self.frame_changes,
        ) as context:
            outcome, reason = _verdict(scenario, context)
            diagnostics = _diagnostics(context) if outcome == Outcome.FAILED else {}
        seconds = round(time.monotonic() - started, 3)
        return _cell(planned, outcome, reason=reason, seconds=seconds, **diagnostics)


def _together(planned_cells: Sequence[PlannedCell]) -> Iterator[list[PlannedCell]]:
    """Yields the cells of one scenario and broker in groups that share a restart."""
    for _, same in groupby(planned_cells, key=lambda it: (it.scenario.name, str(it.broker))):
        yield from map(list, batched(same, RESTARTED_AT_ONCE_MAX))


def batched(planned_cells: Iterable[PlannedCell], count: int) -> Iterator[tuple[PlannedCell, ...]]:
    remaining = iter(planned_cells)
    while some := tuple(islice(remaining, count)):
        yield some


def _verdict(scenario: Scenario, context: ScenarioContext) -> tuple[Outcome, str]:
    try:
        scenario.play(context)
        must_equal(malformed(context.relay.recording.frames)[:3], [], "malformed frames")
    except CannotError as reason:
        return Outcome.CANNOT, str(reason)
    except NotServedError as reason:
        return Outcome.NOT_SERVED, str(reason)
    except _EXPECTED as error:
        return Outcome.FAILED, f"{_line_of(error)}{error}"
    except Exception:  # noqa: BLE001 (any error in a scenario fails its cell)
        return Outcome.FAILED, traceback.format_exc(limit=-6)
    return Outcome.PASSED, ""


def _line_of(error: BaseException) -> str:
    """Returns file and line in the scenario where the error was raised."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if "/scenarios/" in frame.filename.replace("\\", "/"):
            return f"{frame.filename.rpartition('/')[2]}:{frame.lineno}: "
    return ""


def _diagnostics(context: ScenarioContext) -> dict[str, Any]:
    """Returns commands, frames and the program's standard error for the report."""
    errors = "\n".join(it.process.errors() for it in context.actors).strip()
    return {
        "steps": tuple(map(tuple, _ends(context.steps, lambda count: ("", "…", f"{count} more")))),
        "frames": tuple(map(_shown, _ends(context.relay.recording.all(), lambda count: count))),
        "errors": errors,
    }


def _shown(frame: Frame | int) -> ShownFrame:
    if isinstance(frame, int):
        return ShownFrame(headline=f"… {frame} more frames", lines=())
    return ShownFrame(headline=frame.headline(), lines=frame.explanation())


def _ends(found: Sequence[Any], omitted: Callable[[int], Any]) -> list[Any]:
    """Returns the first and last elements, with a placeholder for the omitted ones."""
    count = len(found) - FIRST_SHOWN - LAST_SHOWN
    if count <= 0:
        return list(found)
    return [*found[:FIRST_SHOWN], omitted(count), *found[-LAST_SHOWN:]]


def _cell(planned: PlannedCell, outcome: Outcome, **more: Any) -> Cell:
    return Cell(
        client=str(planned.client),
        scenario=planned.scenario.name,
        broker=str(planned.broker),
        outcome=outcome,
        **more,
    )
