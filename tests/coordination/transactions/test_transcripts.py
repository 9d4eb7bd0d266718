"""Transcripts of transactions; `RETELL=1` writes them again for review.

Apache Kafka reproduces those in `as_apache` word by word.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from compat.apache import ApacheKafka
from pykbroker.coordination.transactions.settings import TransactionSettings
from tests.coordination.transactions.transcript import rerun, responses_of
from tests.coordination.transactions.transcript_runners import Apache, OurCoordinator

TRANSCRIPTS = Path(__file__).parent / "transcripts"
AS_APACHE = sorted(TRANSCRIPTS.glob("as_apache/*.txt"))
TOPICS = ("orders", "bills")


@pytest.mark.parametrize("path", sorted(TRANSCRIPTS.glob("*/*.txt")), ids=lambda it: it.stem)
def test_the_transcript_is_reproduced(path: Path) -> None:
    written = path.read_text()
    rewritten = rerun(written, OurCoordinator(TransactionSettings()))
    if os.environ.get("RETELL"):
        path.write_text(rewritten)
    assert rewritten == written


@pytest.fixture
def oracle(apache: ApacheKafka) -> Iterator[Apache]:
    runner = Apache(apache.port, TOPICS, prefix=f"{uuid4().hex}-")
    yield runner
    runner.close()


@pytest.mark.parametrize("path", AS_APACHE, ids=lambda it: it.stem)
def test_apache_kafka_reproduces_the_transcript(path: Path, oracle: Apache) -> None:
    written = path.read_text()
    rewritten = rerun(written, oracle, oracle.prefix)
    assert responses_of(rewritten) == responses_of(written)
