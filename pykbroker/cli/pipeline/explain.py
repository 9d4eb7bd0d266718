"""The command that draws a declared pipeline."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pykbroker.cli.failure import CommandFailed
from pykbroker.cli.pipeline.declared import declared_pipeline
from pykbroker.pipeline.picture.page import page_of

if TYPE_CHECKING:
    from argparse import Namespace


def explain(options: Namespace) -> None:
    page = page_of(declared_pipeline(options))
    if options.output is None:
        sys.stdout.write(page)
        return
    try:
        Path(options.output).write_text(page, encoding="utf-8")
    except OSError as failure:
        raise CommandFailed(f"{options.output}: {failure.strerror}") from failure
    print(f"drawn: {options.output}")
