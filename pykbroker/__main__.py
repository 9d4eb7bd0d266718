"""`python -m pykbroker` is the command `pykbroker`."""

import sys

from pykbroker.cli.main import main

sys.exit(main())
