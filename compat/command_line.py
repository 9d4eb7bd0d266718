"""The command `pykbroker-compat`: run the suite, compare two brokers, list what there is."""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from compat.probe.allowed import read_allowed
from compat.probe.comparison import compare, difference_lines
from compat.sabotage.detection import FaultTrials
from compat.sabotage.faults import FAULTS
from compat.suite import html_report, junit_report, markdown_report, terminal
from compat.suite.brokers import (
    addresses_in,
    apache_kafka,
    broker_at,
    must_speak_kafka,
    pykbroker,
)
from compat.suite.manifest import stock_clients
from compat.suite.process_pool import ProcessPool
from compat.suite.relay import Relays
from compat.suite.results import Results
from compat.suite.runner import Runner
from compat.suite.scenario import all_scenarios
from compat.suite.stored_results import PAGE, current_matrix, keep, read_stored
from compat.suite.stored_results import page as compatibility_page
from compat.wire import Closed
from pykbroker import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compat.sabotage.faults import Fault
    from compat.suite.brokers import Address, Broker
    from compat.suite.manifest import StockClient
    from compat.suite.results import Cell
    from compat.suite.scenario import Scenario

Named = TypeVar("Named", "Scenario", "Fault")

ALL_TRUE, SOME_FALSE, WRONG_USE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(SOME_FALSE))  # brokers and programs end too
    try:
        return int(options.command(options))
    except UsageError as error:
        print(f"pykbroker-compat: {error}", file=sys.stderr)
        return WRONG_USE
    except BrokenPipeError:  # as in `list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SOME_FALSE


class UsageError(ValueError):
    """The command line asks for what there is not."""


def run(options: argparse.Namespace) -> int:
    if options.disbelieve and options.keep:
        raise UsageError("what is played in disbelief is not kept")
    clients = _chosen_clients(options.clients)
    scenarios = _chosen_scenarios(options.scenarios, quick=options.quick)
    if options.disbelieve:  # nobody else need be installed
        scenarios = [it for it in scenarios if any(it.name in one.not_true for one in clients)]
        clients = [it for it in clients if it.not_true]
    results = _results(options, clients, scenarios)
    print(f"\n{terminal.table(results)}")
    if options.report is not None:
        write_reports(results, options.report)
    if options.keep:
        keep(results, current_matrix())
        write_page(options)
    if options.disbelieve:
        return _disbelieved(results)
    if not results.was_tried():
        print("\npykbroker-compat: nothing was tried", file=sys.stderr)
        return SOME_FALSE
    return SOME_FALSE if results.failures() else ALL_TRUE


def _disbelieved(results: Results) -> int:
    """What a manifest calls not true has to fail, on one broker at least."""
    wrongly = results.true_everywhere()
    for scenario, client in wrongly:
        print(f"true, against the manifest: {scenario} · {client}")
    return SOME_FALSE if wrongly else ALL_TRUE


def _results(
    options: argparse.Namespace, clients: list[StockClient], scenarios: list[Scenario]
) -> Results:
    def played(scenario: Scenario) -> bool:
        return any(scenario.subject in it.plays for it in clients)

    started = time.monotonic()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compat-")))
        brokers = _brokers(options, stack, directory)
        runner = Runner(
            pool=stack.enter_context(ProcessPool(directory / "programs")),
            relays=stack.enter_context(Relays()),
            at_once=options.at_once,
            report=_print_cell,
            tests_not_true=options.disbelieve,
        )
        cells = runner.run(scenarios, clients, brokers)
    return Results(
        day=datetime.now(UTC).date().isoformat(),
        seconds=round(time.monotonic() - started, 1),
        suite=__version__,
        machine=f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        clients=tuple(map(str, clients)),
        brokers=tuple(map(str, brokers)),
        scenarios=tuple((it.name, it.subject, it.sentence) for it in scenarios if played(it)),
        cells=tuple(cells),
    )


def _brokers(options: argparse.Namespace, stack: ExitStack, directory: Path) -> list[Broker]:
    brokers = []
    if options.bootstrap:
        _reached(options.bootstrap)
        brokers.append(broker_at(options.bootstrap))
    elif not options.only_oracle:
        brokers.append(stack.enter_context(pykbroker(directory)))
    if options.oracle or options.only_oracle:
        brokers.append(stack.enter_context(apache_kafka(directory)))
    return brokers


def _reached(bootstrap: str) -> list[Address]:
    """The addresses, if a broker answers at each."""
    try:
        addresses = addresses_in(bootstrap)
        for host, port in addresses:
            must_speak_kafka(host, port)
    except (ValueError, Closed) as error:
        raise UsageError(f"{bootstrap}: {error}") from error
    return addresses


def _print_cell(cell: Cell) -> None:
    print(terminal.progress(cell), flush=True)


def write_reports(results: Results, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    directory.joinpath("report.md").write_text(markdown_report.report(results))
    directory.joinpath("junit.xml").write_text(junit_report.report(results))
    directory.joinpath("report.html").write_text(html_report.report(results))
    results.write(directory / "results.json")
    print(f"\nreports are in {directory}")


def sabotage(options: argparse.Namespace) -> int:
    """Give a broker one fault after the other, and see that the suite finds each."""
    clients, faults = _chosen_clients(options.clients), _chosen_faults(options.faults)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compat-")))
        sabotaged = FaultTrials(
            broker=stack.enter_context(pykbroker(directory)),
            clients=clients,
            pool=stack.enter_context(ProcessPool(directory / "programs")),
            relays=stack.enter_context(Relays()),
        )
        doubtful = sabotaged.failures_without(faults)
        for cell in doubtful:
            print(f"false without any fault: {cell.scenario} with {cell.client}: {cell.reason}")
        missed = 0
        with ThreadPoolExecutor(options.at_once) as threads:  # most faults are found by waiting
            for verdict in threads.map(sabotaged.trial_of, () if doubtful else faults):
                missed += not verdict.is_found
                print("\n".join(verdict.lines()), flush=True)
    if doubtful:
        return SOME_FALSE
    print(f"\n{len(faults)} faults, {missed} not found")
    return SOME_FALSE if missed else ALL_TRUE


def write_page(_: argparse.Namespace) -> int:
    PAGE.write_text(compatibility_page(read_stored(), all_scenarios(), stock_clients()))
    return ALL_TRUE


def diff(options: argparse.Namespace) -> int:
    """Print where two brokers answer differently, but for what is allowed."""
    left, right = (_reached(it)[0] for it in (options.left, options.right))
    apis = options.apis.split(",") if options.apis else ()
    try:
        compared = compare(left, right, apis=apis, thorough=options.thorough, told=_to_stderr)
    except Closed as error:
        raise UsageError(f"a broker is gone, or too old to be asked: {error}") from error
    found = compared.differences_found if options.all else compared.unexpected(read_allowed())
    for line in difference_lines(found):
        print(line)
    print(f"\n{compared.questions} questions to each, {len(found)} differences")
    for side, names in (("left", compared.only_left), ("right", compared.only_right)):
        if names:
            print(f"served on the {side} alone: {', '.join(names)}")
    return SOME_FALSE if found else ALL_TRUE


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)


def list_all(_: argparse.Namespace) -> int:
    for client in stock_clients():
        print(f"{client!s:<24} {client.language}: {client.why}")
    for scenario in all_scenarios():
        print(f"{scenario.name:<40} {scenario.sentence}")
    return ALL_TRUE


def _chosen_clients(wanted: str | None) -> list[StockClient]:
    """By name, or by name and version as `kafka-python=3.0.12`."""
    clients = stock_clients()
    if wanted is None:
        return clients
    patterns = wanted.split(",")
    for pattern in patterns:
        if not any(_is_called(it, pattern) for it in clients):
            raise UsageError(f"there is no client {pattern}")
    return [it for it in clients if any(_is_called(it, pattern) for pattern in patterns)]


def _is_called(client: StockClient, pattern: str) -> bool:
    return pattern in (client.name, f"{client.name}={client.version}")


def _chosen_scenarios(wanted: str | None, *, quick: bool) -> list[Scenario]:
    scenarios = [it for it in all_scenarios() if it.is_core or not quick]
    return _fitting(scenarios, wanted, "scenario")


def _chosen_faults(wanted: str | None) -> list[Fault]:
    return _fitting(FAULTS, wanted, "fault")


def _fitting(all_of_them: Sequence[Named], wanted: str | None, kind: str) -> list[Named]:
    """Those whose names fit a pattern of the list; all of them where none is given."""
    if wanted is None:
        return list(all_of_them)
    patterns = wanted.split(",")
    for pattern in patterns:
        if not any(fnmatchcase(it.name, pattern) for it in all_of_them):
            raise UsageError(f"there is no {kind} {pattern}")
    return [it for it in all_of_them if any(fnmatchcase(it.name, one) for one in patterns)]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pykbroker-compat", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    runs = commands.add_parser("run", help="play the scenarios with the clients")
    runs.set_defaults(command=run)
    runs.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that is running already")
    runs.add_argument("--clients", metavar="NAME[=VERSION],…", help="these alone")
    runs.add_argument("--scenarios", metavar="PATTERN,…", help="these alone, as in `produce*`")
    runs.add_argument("--report", type=Path, metavar="DIR", help="where reports are written")
    runs.add_argument("--oracle", action="store_true", help="Apache Kafka beside it")
    runs.add_argument("--only-oracle", action="store_true", help="Apache Kafka instead of it")
    runs.add_argument("--quick", action="store_true", help="the core scenarios alone")
    runs.add_argument(
        "--at-once", type=_count, default=max(2, os.cpu_count() or 2), metavar="N", help="cells"
    )
    runs.add_argument(
        "--disbelieve", action="store_true", help="what manifests call not true, to see if it is"
    )
    runs.add_argument("--keep", action="store_true", help="keep the results for the documentation")
    faults = commands.add_parser("sabotage", help="see whether the suite finds known faults")
    faults.set_defaults(command=sabotage)
    faults.add_argument("--clients", metavar="NAME[=VERSION],…", default="kafka-python=3.0.12")
    faults.add_argument("--faults", metavar="PATTERN,…", help="these alone, as in `lost-*`")
    faults.add_argument("--at-once", type=_count, default=4, metavar="N", help="faults")
    diffs = commands.add_parser("diff", help="ask two brokers the same and compare")
    diffs.set_defaults(command=diff)
    diffs.add_argument("--left", required=True, metavar="HOST:PORT")
    diffs.add_argument("--right", required=True, metavar="HOST:PORT")
    diffs.add_argument("--apis", metavar="NAME,…", help="these alone, as in `fetch` or `*topics`")
    diffs.add_argument("--thorough", action="store_true", help="boundary values in every version")
    diffs.add_argument("--all", action="store_true", help="differences that are allowed, too")
    pages = commands.add_parser("page", help="write docs/compatibility.md from the results kept")
    pages.set_defaults(command=write_page)
    commands.add_parser("list", help="tell what there is").set_defaults(command=list_all)
    return parser


if __name__ == "__main__":
    sys.exit(main())
