"""Runs a Python module under cProfile: `python -m benchmarks.profiled FILE -m MODULE ARGUMENT...`.

Counts CPU time of the main thread from SIGUSR1 until the end of the process.
"""

import cProfile
import runpy
import signal
import sys
import time


def main() -> None:
    _, file, option, module, *arguments = sys.argv
    if option != "-m":
        raise SystemExit(__doc__)
    profiler = cProfile.Profile(time.thread_time)
    signal.signal(signal.SIGUSR1, lambda *_: profiler.enable())
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        profiler.disable()
        profiler.dump_stats(file)


if __name__ == "__main__":
    main()
