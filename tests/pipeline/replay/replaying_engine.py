"""Replays an archive in small transactions."""

import os
import sys
from pathlib import Path

from pykbroker.pipeline.replay import Replay, replay
from pykbroker.pipeline.topic_target import TopicTarget


def main(bootstrap: str, archive: str) -> None:
    target = TopicTarget(bootstrap=bootstrap, topic="again")
    what = Replay(
        archive=Path(archive), topic="trucks", target=target, name="n", transaction_records=20
    )
    replay(what)


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)
