"""Runs the command `pykbroker` as `python -m pykbroker`."""

import sys

from pykbroker.cli.main import main

sys.exit(main())
