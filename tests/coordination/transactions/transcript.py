"""Runs a transcript: lines with steps of producers, and below each the responses and records.

anna starts till 60s                      InitProducerId, with her transaction timeout
  anna is P1 in epoch 0
anna adds orders-0 orders-1               AddPartitionsToTxn, `in v1` for an older version
  anna hears NONE
a broker adds orders-0 for anna           version 5: a leader adds it for a producer of version 2
anna commits, aborts                      EndTxn of version 5; `in v4` ends as version 1 knows it
  the log says shop: PrepareCommit of P1 in epoch 1, with orders-0
anna recovers                             InitProducerId, with her producer id and epoch
anna commits unheard                      the answer is lost on its way
zoe believes to be anna                   a second process with the id and epoch of the first

All use the transactional id `shop`, unless they say `for`.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pykbroker.coordination.outcome import Write
from pykbroker.coordination.transactions.outcome import TransactionOutcome
from pykbroker.coordination.transactions.records import transaction_of, write_of
from pykbroker.coordination.transactions.transaction import LAST_EPOCH, NO_PRODUCER_ID
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.internal_topics.transactions import TransactionLogKey, TransactionLogValue
from pykbroker_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pykbroker_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pykbroker_protocol.messages.describe_transactions import DescribeTransactionsRequest
from pykbroker_protocol.messages.end_txn import EndTxnRequest
from pykbroker_protocol.messages.init_producer_id import InitProducerIdRequest
from pykbroker_protocol.messages.list_transactions import ListTransactionsRequest
from tests.coordination.transactions.transcript_runners import OurCoordinator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.coordination.transactions.outcome import Markers
    from tests.coordination.transactions.transcript_runners import TranscriptRunner

UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000, "days": 86_400_000}
NAMES = {code.value: code.name for code in ErrorCode}
NOBODY = (-1, -1)


class Options(NamedTuple):
    """The arguments of a step."""

    words: list[str]
    transactional_id: str
    version: int | None
    timeout_ms: int

    def version_or(self, usual: int) -> int:
        return usual if self.version is None else self.version


def rerun(text: str, runner: TranscriptRunner, prefix: str = "") -> str:
    """The transcript as it runs now: steps and comments are kept, responses are replaced."""
    transcript = Transcript(runner, prefix)
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("  "):
            continue
        lines.append(line)
        if line and not line.startswith("#"):
            lines += [f"  {it}" for it in transcript.step(line)]
    return "\n".join(lines) + "\n"


def responses_of(text: str) -> list[str]:
    """Returns steps and responses, without lines about log and markers."""
    return [it for it in text.splitlines() if it and not it.startswith(("#", "  the "))]


class Transcript:
    def __init__(self, runner: TranscriptRunner, prefix: str = "") -> None:
        self.runner = runner
        self.prefix = prefix
        """Prefix of transactional ids, because other transcripts share the broker."""
        self.producers: dict[str, tuple[int, int]] = {}
        """The producer id and epoch that each producer uses."""
        self.names: dict[int, str] = {NO_PRODUCER_ID: "nobody"}

    def step(self, line: str) -> list[str]:
        if not isinstance(self.runner, OurCoordinator):
            return self.act(line)
        world = self.runner.world
        world.happened.clear()
        said = self.act(line)
        return said + [
            f"the log says {self.write_text(it)}"
            if isinstance(it, Write)
            else f"the markers {self.tell_markers(it)}"
            for it in world.happened
        ]

    def act(self, line: str) -> list[str]:
        if match := re.fullmatch(r"(\d+) (ms|s|min|days) pass", line):
            self.ours.world.pass_time(int(match[1]) * UNITS_MS[match[2]])
            return []
        if line.startswith("the "):
            self.happens(line)
            return []
        who, verb, *words = shlex.split(line)
        if who == "operator":
            return self.operate(verb, words)
        if (who, verb) == ("a", "broker"):
            return self.act_as_broker(*words)
        if words[-1:] == ["unheard"]:
            return self.unheard(who, verb, words[:-1])
        said: list[str] = getattr(self, verb)(who, options(words, self.prefix))
        return said

    def happens(self, line: str) -> None:
        world = self.ours.world
        match line:
            case "the coordinator restarts":
                world.restart()
            case "the markers are held back":
                world.markers_are_held_back = True
            case "the markers are written":
                world.markers_are_held_back = False
                world.write_markers()
            case "the disk is full" | "the disk has room":
                world.disk_is_full = line.endswith("full")
            case "the epochs are used up":
                self.use_up_epochs()
            case _:
                raise AssertionError(line)

    def use_up_epochs(self) -> None:
        """Raises the epoch of shop by thirty thousand; its owner knows the new epoch."""
        world = self.ours.world
        before = world.transactions.transactions[f"{self.prefix}shop"]
        after = replace(before, producer_epoch=LAST_EPOCH)
        world.carry_out(TransactionOutcome(writes=(write_of(after, 2),)))
        for who, owner in self.producers.items():
            if owner == before.owner:
                self.producers[who] = after.owner

    @property
    def ours(self) -> OurCoordinator:
        assert isinstance(self.runner, OurCoordinator), "the oracle cannot do this"
        return self.runner

    # --- steps of producers

    def believes(self, who: str, option: Options) -> list[str]:
        to, be, whom = option.words
        assert (to, be) == ("to", "be")
        self.producers[who] = self.producers[whom]
        return []

    def starts(self, who: str, option: Options) -> list[str]:
        self.producers.pop(who, None)
        return self.init(who, option)

    def recovers(self, who: str, option: Options) -> list[str]:
        return self.init(who, option)

    def init(self, who: str, option: Options) -> list[str]:
        producer_id, epoch = self.producers.get(who, NOBODY)
        request = InitProducerIdRequest(
            transactional_id=option.transactional_id,
            transaction_timeout_ms=option.timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        return self.hear_owner(who, self.runner.ask(request, option.version_or(4)))

    def adds(self, who: str, option: Options) -> list[str]:
        producer_id, epoch = self.producers[who]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=option.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics_of(option.words),
        )
        response = self.runner.ask(request, option.version_or(3))
        return partition_lines(who, response.results_by_topic_v3_and_below)

    def reads(self, who: str, option: Options) -> list[str]:
        """Adds the offsets of a group to the transaction."""
        producer_id, epoch = self.producers[who]
        request = AddOffsetsToTxnRequest(
            transactional_id=option.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            group_id=option.words[0],
        )
        response = self.runner.ask(request, option.version_or(3))
        return [f"{who} hears {NAMES[response.error_code]}"]

    def commits(self, who: str, option: Options) -> list[str]:
        return self.end(who, option, committed=True)

    def aborts(self, who: str, option: Options) -> list[str]:
        return self.end(who, option, committed=False)

    def end(self, who: str, option: Options, *, committed: bool) -> list[str]:
        producer_id, epoch = self.producers[who]
        request = EndTxnRequest(
            transactional_id=option.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=committed,
        )
        version = option.version_or(5)
        response = self.runner.ask(request, version)
        if response.error_code == ErrorCode.NONE and version < 5:
            return [f"{who} hears NONE"]
        return self.hear_owner(who, response)

    def hear_owner(self, who: str, response: Any) -> list[str]:
        if response.error_code:
            return [f"{who} hears {NAMES[response.error_code]}"]
        self.producers[who] = response.producer_id, response.producer_epoch
        return [f"{who} is {self.name(response.producer_id)} in epoch {response.producer_epoch}"]

    def unheard(self, who: str, verb: str, words: list[str]) -> list[str]:
        """Loses the response."""
        before = self.producers.get(who, NOBODY)
        said: list[str] = getattr(self, verb)(who, options(words, self.prefix))
        self.producers[who] = before
        return [f"unheard: {it}" for it in said]

    def act_as_broker(self, verb: str, *words: str) -> list[str]:
        *places, for_, who = words
        assert for_ == "for"
        producer_id, epoch = self.producers[who]
        asked = AddPartitionsToTxnTransaction(
            transactional_id=f"{self.prefix}shop",
            producer_id=producer_id,
            producer_epoch=epoch,
            verify_only=verb == "verifies",
            topics=topics_of(places),
        )
        response = self.runner.ask(AddPartitionsToTxnRequest(transactions=[asked]), 5)
        (result,) = response.results_by_transaction
        return partition_lines("the broker", result.topic_results)

    # --- steps of operators

    def operate(self, verb: str, words: list[str]) -> list[str]:
        if verb == "describes":
            return self.describe(words[0])
        assert verb == "lists"
        option = dict(zip(words[::2], words[1::2], strict=True))
        request = ListTransactionsRequest(
            state_filters=option["in"].split(",") if "in" in option else (),
            producer_id_filters=[self.id_of(option["of"])] if "of" in option else (),
            duration_filter=in_ms(option["over"]) if "over" in option else -1,
            transactional_id_pattern=option.get("named"),
        )
        response = self.runner.ask(request, 2)
        if response.error_code:
            return [f"operator hears {NAMES[response.error_code]}"]
        said = [f"{it} is no state" for it in response.unknown_state_filters]
        found = sorted(
            f"{it.transactional_id.removeprefix(self.prefix)}: {it.transaction_state}"
            f" of {self.name(it.producer_id)}"
            for it in response.transaction_states
            if it.transactional_id.startswith(self.prefix)
            and not it.transactional_id.endswith("probe")
        )
        return said + (found or ["operator finds nothing"])

    def describe(self, transactional_id: str) -> list[str]:
        asked = self.prefix + transactional_id if transactional_id else ""
        request = DescribeTransactionsRequest(transactional_ids=[asked])
        (found,) = self.runner.ask(request, 0).transaction_states
        if found.error_code:
            return [f"operator hears {NAMES[found.error_code]}"]
        places = sorted(f"{it.topic}-{at}" for it in found.topics for at in it.partitions)
        return [
            f"{transactional_id}: {found.transaction_state}"
            f" of {self.name(found.producer_id)} in epoch {found.producer_epoch},"
            f" till {found.transaction_timeout_ms} ms,"
            f" {'begun' if found.transaction_start_time_ms >= 0 else 'not begun'}"
            + (f", with {' '.join(places)}" if places else "")
        ]

    # --- responses

    def name(self, producer_id: int) -> str:
        """Numbers producer ids in order of appearance."""
        return self.names.setdefault(producer_id, f"P{len(self.names)}")

    def id_of(self, name: str) -> int:
        return next(it for it, known in self.names.items() if known == name)

    def write_text(self, write: Write) -> str:
        assert isinstance(write.key, TransactionLogKey)
        if write.value is None:
            return f"{write.key.transactional_id} is gone"
        assert isinstance(write.value, TransactionLogValue)
        it = transaction_of(write.key, write.value)
        text = f"{it.state.value} of {self.name(it.producer_id)} in epoch {it.producer_epoch}"
        if it.previous_producer_id != it.producer_id:
            text += f", {self.name(it.previous_producer_id)} before"
        if it.next_producer_id != NO_PRODUCER_ID:
            text += f", {self.name(it.next_producer_id)} next"
        if it.partitions:
            text += f", with {partitions_text(it.partitions)}"
        return f"{it.transactional_id}: {text}"

    def tell_markers(self, markers: Markers) -> str:
        what = "commit" if markers.committed else "abort"
        whose = f"{self.name(markers.producer_id)} in epoch {markers.producer_epoch}"
        return f"{what} {whose} in {partitions_text(markers.partitions)}"


def options(words: list[str], prefix: str) -> Options:
    rest, found = [], {"for": "shop", "till": "60s", "in": ""}
    remaining = iter(words)
    for word in remaining:
        if word in found:
            found[word] = next(remaining)
        else:
            rest.append(word)
    return Options(
        words=rest,
        transactional_id=prefix + found["for"] if found["for"] else "",
        version=int(found["in"][1:]) if found["in"] else None,
        timeout_ms=in_ms(found["till"]),
    )


def in_ms(text: str) -> int:
    match = re.fullmatch(r"(-?\d+)(ms|s|min|days)", text)
    assert match, text
    return int(match[1]) * UNITS_MS[match[2]]


def topics_of(places: Iterable[str]) -> list[AddPartitionsToTxnTopic]:
    pairs = [it.rsplit("-", 1) for it in places]
    return [AddPartitionsToTxnTopic(name=name, partitions=[int(at)]) for name, at in pairs]


def partition_lines(who: str, topics: Any) -> list[str]:
    codes = {
        f"{topic.name}-{it.partition_index}": NAMES[it.partition_error_code]
        for topic in topics
        for it in topic.results_by_partition
    }
    if len(set(codes.values())) == 1:
        return [f"{who} hears {next(iter(codes.values()))}"]
    return [f"{who} hears {codes[it]} for {it}" for it in sorted(codes)]


def partitions_text(places: Iterable[tuple[str, int]]) -> str:
    return " ".join(f"{topic}-{partition}" for topic, partition in sorted(places))
