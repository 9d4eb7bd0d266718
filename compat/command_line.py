"""Runs stock Kafka clients against a broker, and compares two brokers."""

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

from compat.cluster import Kind
from compat.probe.allowed import read_allowed
from compat.probe.comparison import compare, difference_lines
from compat.sabotage.detection import FaultTrials
from compat.sabotage.faults import FAULTS
from compat.suite import html_report, junit_report, markdown_report, terminal
from compat.suite.brokers import (
    addresses_in,
    apache_kafka,
    broker_at,
    moving_cluster,
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

BROKERS_OF_A_CLUSTER = 3
SUCCESS, FAILURE, USAGE_ERROR = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(FAILURE))  # brokers and programs end too
    try:
        return int(options.command(options))
    except UsageError as error:
        print(f"pykbroker-compat: {error}", file=sys.stderr)
        return USAGE_ERROR
    except BrokenPipeError:  # as in `list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE


CLIENTS_METAVAR = "NAME[=VERSION],…"
CLIENTS_HELP = "Run only these clients"


class UsageError(ValueError):
    """Raised for an invalid command line or an unreachable broker."""


def run(options: argparse.Namespace) -> int:
    if options.disbelieve and options.keep:
        raise UsageError("--disbelieve and --keep are mutually exclusive")
    clients = _chosen_clients(options.clients)
    scenarios = _chosen_scenarios(options.scenarios, quick=options.quick)
    if options.disbelieve:  # other clients need not be installed
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
        return _wrong_manifests(results)
    if not results.has_run():
        print("\npykbroker-compat: no cell was run", file=sys.stderr)
        return FAILURE
    return FAILURE if results.failures() else SUCCESS


def _wrong_manifests(results: Results) -> int:
    """Prints the cells of `not_true` that pass on every broker."""
    wrong = results.passed_everywhere()
    for scenario, client in wrong:
        print(f"listed in not_true of the manifest, but passed: {scenario} · {client}")
    return FAILURE if wrong else SUCCESS


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
    elif options.cluster:
        brokers.append(stack.enter_context(moving_cluster(directory, _kinds(options.cluster))))
    elif not options.only_oracle:
        brokers.append(stack.enter_context(pykbroker(directory)))
    if options.oracle or options.only_oracle:
        brokers.append(stack.enter_context(apache_kafka(directory)))
    return brokers


def _kinds(text: str) -> list[Kind]:
    try:
        return [Kind(it) for it in text.split(",")]
    except ValueError as error:
        raise UsageError(f"--cluster {text}: {error}") from error


def _reached(bootstrap: str) -> list[Address]:
    """Parses the addresses and checks that a broker responds at each."""
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
    print(f"\nreports written to {directory}")


def sabotage(options: argparse.Namespace) -> int:
    """Injects each fault and checks that the suite detects it."""
    clients, faults = _chosen_clients(options.clients), _chosen_faults(options.faults)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compat-")))
        sabotaged = FaultTrials(
            broker=stack.enter_context(pykbroker(directory)),
            clients=clients,
            pool=stack.enter_context(ProcessPool(directory / "programs")),
            relays=stack.enter_context(Relays()),
        )
        unreliable = sabotaged.failures_without(faults)
        for cell in unreliable:
            print(f"failed without a fault: {cell.scenario} with {cell.client}: {cell.reason}")
        missed = 0
        with ThreadPoolExecutor(options.at_once) as threads:  # most faults are detected by timeouts
            for verdict in threads.map(sabotaged.trial_of, () if unreliable else faults):
                missed += not verdict.is_found
                print("\n".join(verdict.lines()), flush=True)
    if unreliable:
        return FAILURE
    print(f"\n{len(faults)} faults, {missed} not detected")
    return FAILURE if missed else SUCCESS


def write_page(_: argparse.Namespace) -> int:
    PAGE.write_text(compatibility_page(read_stored(), all_scenarios(), stock_clients()))
    return SUCCESS


def diff(options: argparse.Namespace) -> int:
    """Prints the differences between two brokers that are not allowed."""
    left, right = (_reached(it)[0] for it in (options.left, options.right))
    apis = options.apis.split(",") if options.apis else ()
    try:
        compared = compare(left, right, apis=apis, thorough=options.thorough, progress=_to_stderr)
    except Closed as error:
        raise UsageError(f"connection closed, or the broker is too old: {error}") from error
    found = compared.differences_found if options.all else compared.unexpected(read_allowed())
    for line in difference_lines(found):
        print(line)
    print(f"\n{compared.requests} requests to each broker, {len(found)} differences")
    for side, names in (("left", compared.only_left), ("right", compared.only_right)):
        if names:
            print(f"advertised only by the {side} broker: {', '.join(names)}")
    return FAILURE if found else SUCCESS


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)


def list_all(_: argparse.Namespace) -> int:
    for client in stock_clients():
        print(f"{client!s:<24} {client.language}: {client.why}")
    for scenario in all_scenarios():
        print(f"{scenario.name:<40} {scenario.sentence}")
    return SUCCESS


def _chosen_clients(selection: str | None) -> list[StockClient]:
    """Selects clients by name, or by name and version (`kafka-python=3.0.12`)."""
    clients = stock_clients()
    if selection is None:
        return clients
    patterns = selection.split(",")
    for pattern in patterns:
        if not any(_is_called(it, pattern) for it in clients):
            raise UsageError(f"unknown client {pattern}")
    return [it for it in clients if any(_is_called(it, pattern) for pattern in patterns)]


def _is_called(client: StockClient, pattern: str) -> bool:
    return pattern in (client.name, f"{client.name}={client.version}")


def _chosen_scenarios(selection: str | None, *, quick: bool) -> list[Scenario]:
    scenarios = [it for it in all_scenarios() if it.is_core or not quick]
    return _matching(scenarios, selection, "scenario")


def _chosen_faults(selection: str | None) -> list[Fault]:
    return _matching(FAULTS, selection, "fault")


def _matching(items: Sequence[Named], selection: str | None, kind: str) -> list[Named]:
    """Returns the items whose names match one of the patterns; all items if None."""
    if selection is None:
        return list(items)
    patterns = selection.split(",")
    for pattern in patterns:
        if not any(fnmatchcase(it.name, pattern) for it in items):
            raise UsageError(f"unknown {kind} {pattern}")
    return [it for it in items if any(fnmatchcase(it.name, one) for one in patterns)]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pykbroker-compat", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    runs = commands.add_parser("run", help="Run the scenarios with the clients")
    runs.set_defaults(command=run)
    runs.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="Test this running broker instead of PyKBroker"
    )
    runs.add_argument(
        "--cluster",
        nargs="?",
        const=",".join([Kind.OWN] * BROKERS_OF_A_CLUSTER),
        metavar="KIND,…",
        help="Test a cluster whose leaders move in every scenario; KIND is own or apache "
        "(default: %(const)s)",
    )
    runs.add_argument("--clients", metavar=CLIENTS_METAVAR, help=CLIENTS_HELP)
    runs.add_argument(
        "--scenarios", metavar="PATTERN,…", help="Run only these scenarios, for example `produce*`"
    )
    runs.add_argument("--report", type=Path, metavar="DIR", help="Write reports to this directory")
    runs.add_argument("--oracle", action="store_true", help="Also test Apache Kafka")
    runs.add_argument("--only-oracle", action="store_true", help="Test Apache Kafka only")
    runs.add_argument("--quick", action="store_true", help="Run only the core scenarios")
    runs.add_argument(
        "--at-once",
        type=_count,
        default=max(2, os.cpu_count() or 2),
        metavar="N",
        help="Number of concurrent cells (default: %(default)s)",
    )
    runs.add_argument(
        "--disbelieve",
        action="store_true",
        help="Run only the cells that manifests list in not_true; fail if one passes",
    )
    runs.add_argument(
        "--keep", action="store_true", help="Store the results for docs/compatibility.md"
    )
    faults = commands.add_parser("sabotage", help="Check that the suite detects injected faults")
    faults.set_defaults(command=sabotage)
    faults.add_argument(
        "--clients",
        metavar=CLIENTS_METAVAR,
        default="kafka-python=3.0.12",
        help=f"{CLIENTS_HELP} (default: %(default)s)",
    )
    faults.add_argument(
        "--faults", metavar="PATTERN,…", help="Inject only these faults, for example `lost-*`"
    )
    faults.add_argument(
        "--at-once",
        type=_count,
        default=4,
        metavar="N",
        help="Number of concurrent faults (default: %(default)s)",
    )
    diffs = commands.add_parser("diff", help="Compare the responses of two brokers")
    diffs.set_defaults(command=diff)
    diffs.add_argument("--left", required=True, metavar="HOST:PORT", help="First broker")
    diffs.add_argument("--right", required=True, metavar="HOST:PORT", help="Second broker")
    diffs.add_argument(
        "--apis", metavar="NAME,…", help="Compare only these APIs, for example `fetch` or `*topics`"
    )
    diffs.add_argument(
        "--thorough", action="store_true", help="Send boundary values in every version"
    )
    diffs.add_argument("--all", action="store_true", help="Also print allowed differences")
    pages = commands.add_parser("page", help="Write docs/compatibility.md from stored results")
    pages.set_defaults(command=write_page)
    lists = commands.add_parser("list", help="List clients and scenarios")
    lists.set_defaults(command=list_all)
    return parser


if __name__ == "__main__":
    sys.exit(main())
