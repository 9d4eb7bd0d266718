"""Plays every scenario with every client against every broker, some cells at a time."""

from __future__ import annotations

import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from compat.missing_tool import MissingToolError
from compat.suite.actor import CannotError
from compat.suite.installation import installed
from compat.suite.judging import NotTrueError, must_equal
from compat.suite.line_process import ClientError, ProgramFailedError
from compat.suite.recording import Frame, malformed
from compat.suite.restarting import SharedRestart
from compat.suite.results import Cell, Outcome, Told
from compat.suite.scenario import Need, Scenario
from compat.suite.stage import NotServedError, Stage, open_stage
from compat.wire import Closed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from compat.sabotage.tampering import Tampering
    from compat.suite.brokers import Broker
    from compat.suite.manifest import StockClient
    from compat.suite.pool import Pool
    from compat.suite.relay import Relays

RESTARTED_AT_ONCE_MAX = 6
"""Clients that see the same restart; each has a process or two."""
FIRST_TOLD, LAST_TOLD = 60, 80
"""Of many commands and frames the beginning and the end are told."""
_EXPECTED = (NotTrueError, ClientError, ProgramFailedError, Closed)
"""Failures that say all there is to say; of others the traceback is told."""


class Place(NamedTuple):
    """Where in the matrix a cell is."""

    scenario: Scenario
    client: StockClient
    broker: Broker


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    pool: Pool
    relays: Relays
    at_once: int
    told: Callable[[Cell], None]
    """Is given each cell when it is done."""
    tamperings: tuple[Tampering, ...] = ()
    """Faults that the brokers are given, to see whether the scenarios find them."""
    disbelieving: bool = False
    """Plays what a manifest calls not true on any broker, and nothing else."""

    def run(
        self,
        scenarios: Sequence[Scenario],
        clients: Sequence[StockClient],
        brokers: Sequence[Broker],
    ) -> list[Cell]:
        """Those that look into its files come first, those that need it for themselves last.

        MetadataShell tells of a small log only: of a large one it answers before it has read it.
        """
        unavailable = self._install(clients)
        places = [
            Place(scenario, client, broker)
            for scenario in scenarios
            for client in clients
            if scenario.subject in client.plays
            and (scenario.name in client.not_true or not self.disbelieving)
            for broker in brokers
        ]
        cells = [
            self._tell(_cell(it, Outcome.NOT_TRIED, reason=unavailable[str(it.client)]))
            for it in places
            if str(it.client) in unavailable and not self._known_not_true(it)
        ]
        to_play = []
        for it in places:
            if reason := self._known_not_true(it):
                cells.append(self._tell(_cell(it, Outcome.CANNOT, reason=reason)))
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
            cells += threads.map(self._play_and_tell, shared)
        for together in _together(alone):
            cells += self._play_with_one_restart(together)
        return cells

    def _known_not_true(self, place: Place) -> str | None:
        """Why a scenario need not be played with this client, if its manifest is believed."""
        return None if self.disbelieving else place.client.not_true.get(place.scenario.name)

    def _play_with_one_restart(self, places: Sequence[Place]) -> Iterable[Cell]:
        """Cells of one scenario and broker, side by side, since they share the restart."""
        restart = places[0].broker.restart
        shared = None if restart is None else SharedRestart(restart, len(places))
        with ThreadPoolExecutor(len(places)) as threads:
            return threads.map(lambda it: self._tell(self._played(it, shared)), places)

    def _install(self, clients: Sequence[StockClient]) -> dict[str, str]:
        """The clients that this machine cannot have, and why."""
        unavailable: dict[str, str] = {}

        def install(client: StockClient) -> None:
            try:
                installed(client)
            except MissingToolError as error:
                unavailable[str(client)] = str(error)

        with ThreadPoolExecutor(self.at_once) as threads:
            list(threads.map(install, clients))
        return unavailable

    def _play_and_tell(self, place: Place) -> Cell:
        return self._tell(self._played(place))

    def _tell(self, cell: Cell) -> Cell:
        self.told(cell)
        return cell

    def _played(self, place: Place, restart: SharedRestart | None = None) -> Cell:
        scenario, client, broker = place
        if Need.RESTART in scenario.needs and restart is None:
            return _cell(place, Outcome.NOT_TRIED, reason="the suite cannot restart this broker")
        if Need.FILES in scenario.needs and broker.data_dir is None:
            return _cell(place, Outcome.NOT_TRIED, reason="the broker's files are elsewhere")
        started = time.monotonic()
        with open_stage(
            client,
            broker,
            self.pool,
            self.relays,
            scenario.timeout_seconds,
            restart,
            self.tamperings,
        ) as stage:
            outcome, reason = _verdict(scenario, stage)
            told = _story(stage) if outcome == Outcome.FALSE else {}
        seconds = round(time.monotonic() - started, 3)
        return _cell(place, outcome, reason=reason, seconds=seconds, **told)


def _together(places: Sequence[Place]) -> Iterator[list[Place]]:
    """Those of one scenario and broker, some at a time."""
    for _, same in groupby(places, key=lambda it: (it.scenario.name, str(it.broker))):
        yield from map(list, batched(same, RESTARTED_AT_ONCE_MAX))


def batched(places: Iterable[Place], count: int) -> Iterator[tuple[Place, ...]]:
    remaining = iter(places)
    while some := tuple(islice(remaining, count)):
        yield some


def _verdict(scenario: Scenario, stage: Stage) -> tuple[Outcome, str]:
    try:
        scenario.play(stage)
        must_equal(malformed(stage.relay.recording.frames)[:3], [], "malformed frames")
    except CannotError as reason:
        return Outcome.CANNOT, str(reason)
    except NotServedError as reason:
        return Outcome.NOT_SERVED, str(reason)
    except _EXPECTED as error:
        return Outcome.FALSE, f"{_line_of(error)}{error}"
    except Exception:  # noqa: BLE001 (a scenario that breaks is a cell that failed)
        return Outcome.FALSE, traceback.format_exc(limit=-6)
    return Outcome.TRUE, ""


def _line_of(error: BaseException) -> str:
    """Which line of the scenario it was."""
    for place in reversed(traceback.extract_tb(error.__traceback__)):
        if "/scenarios/" in place.filename.replace("\\", "/"):
            return f"{place.filename.rpartition('/')[2]}:{place.lineno}: "
    return ""


def _story(stage: Stage) -> dict[str, Any]:
    """What led to a failure: the commands, the frames, what the program itself said."""
    errors = "\n".join(it.process.errors() for it in stage.actors).strip()
    return {
        "steps": tuple(map(tuple, _ends(stage.steps, lambda count: ("", "…", f"{count} more")))),
        "frames": tuple(map(_told, _ends(stage.relay.recording.all(), lambda count: count))),
        "errors": errors,
    }


def _told(frame: Frame | int) -> Told:
    if isinstance(frame, int):
        return Told(headline=f"… {frame} more frames", lines=())
    return Told(headline=frame.headline(), lines=frame.explanation())


def _ends(found: Sequence[Any], left_out: Callable[[int], Any]) -> list[Any]:
    """The beginning and the end, with a word about what lies between."""
    between = len(found) - FIRST_TOLD - LAST_TOLD
    if between <= 0:
        return list(found)
    return [*found[:FIRST_TOLD], left_out(between), *found[-LAST_TOLD:]]


def _cell(place: Place, outcome: Outcome, **more: Any) -> Cell:
    return Cell(
        client=str(place.client),
        scenario=place.scenario.name,
        broker=str(place.broker),
        outcome=outcome,
        **more,
    )
