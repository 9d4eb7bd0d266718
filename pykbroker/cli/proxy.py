"""The command `proxy`: records the traffic between clients and a cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from pykbroker.cli.cluster_command import bootstrap_addresses
from pykbroker.cli.failure import CannotBegin
from pykbroker.cli.output import counted
from pykbroker.cli.process import StopSignals, exit_on_sigterm
from pykbroker.event_loop import new_event_loop
from pykbroker.testing.recording.proxy import Recorder

if TYPE_CHECKING:
    from argparse import Namespace


def record(options: Namespace) -> int:
    exit_on_sigterm()  # until the event loop handles signals
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(record_until_stopped(options))
    return 0


async def record_until_stopped(options: Namespace) -> None:
    signals = StopSignals()
    signals.listen()
    upstream = [(it.host, it.port) for it in bootstrap_addresses(options.upstream, "--upstream")]
    recorder = Recorder(Path(options.record), upstream, *options.listen)
    try:
        await recorder.open()
        print(f"pykbroker proxy ready bootstrap={recorder.bootstrap}", flush=True)
        await signals.stop_requested()
    except OSError as reason:
        raise CannotBegin(str(reason)) from reason
    finally:
        await recorder.close()
    print(f"recorded {counted(recorder.frames_count, 'frame')} to {options.record}")
