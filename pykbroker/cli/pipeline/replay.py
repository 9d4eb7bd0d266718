"""The command that brings archived records back into a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from pykbroker.cli.failure import CommandFailed
from pykbroker.cli.output import Progress, counted, print_json
from pykbroker.cli.pipeline.mounted import mounted_directory
from pykbroker.pipeline.archive.archived_files import CannotReadArchive
from pykbroker.pipeline.replay import CannotReplay, Replay
from pykbroker.pipeline.replay import replay as replay_archive
from pykbroker.pipeline.topic_target import CannotPublish, TopicTarget

if TYPE_CHECKING:
    from argparse import Namespace


def replay(options: Namespace) -> int:
    what = Replay(
        archive=mounted_directory(options.archive),
        topic=options.topic,
        target=TopicTarget(
            bootstrap=options.bootstrap, topic=options.to, settings=dict(options.properties)
        ),
        name=options.name or options.topic,
        since_ms=options.since,
        until_ms=options.until,
        has_place_headers=options.has_place_headers,
    )
    progress = Progress("record")
    try:
        count = replay_archive(what, progress=progress.show)
    except (CannotReadArchive, CannotReplay, CannotPublish) as failure:
        raise CommandFailed(str(failure)) from failure
    except OSError as failure:
        raise CommandFailed(f"{failure.filename}: {failure.strerror}") from failure
    except KafkaException as failure:
        raise CommandFailed(failure.args[0].str()) from failure
    finally:
        progress.clear()
    if options.json:
        print_json({"topic": options.to, "name": what.name, "replayed": count})
    elif count:
        print(f"{counted(count, 'record')} replayed into {options.to}")
    else:
        print(f"nothing to replay: {what.name} is in {options.to} already (--name begins anew)")
    return 0
