"""Runs drawn scenarios of a leader: commands above `----`, the expected state below.

    leader      replicas=1,2,3 in-sync=1,2 epoch=5 partition-epoch=7 end=10 hw=4 min=1 now=0
    brokers     2=20 3=30-stopping 4=fenced
    append      end=12
    fetch       broker=2 offset=10 epoch=20 start=0 now=1
    shrink      now=40
    confirmed   in-sync=1,2,3 partition-epoch=8
    refused     INELIGIBLE_REPLICA
    metadata    replicas=… in-sync=… epoch=… partition-epoch=…

The leader is broker 1, and `replica.lag.time.max.ms` is 30 seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pykbroker.partitions.followers import Followers
from pykbroker.partitions.in_sync import InSyncChange, InSyncProposal
from pykbroker.partitions.leadership import Leadership
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from pathlib import Path

LEADER, OWN_EPOCH, LAG_SECONDS_MAX = 1, 10, 30.0


def ids(text: str) -> tuple[int, ...]:
    return tuple(int(it) for it in text.split(",") if it)


def listed(replicas: tuple[int, ...]) -> str:
    return ",".join(map(str, replicas))


class Epochs:
    """The epochs and states of other brokers."""

    own_epoch = OWN_EPOCH

    def __init__(self) -> None:
        self.states: dict[int, str] = {}

    def live(self, broker_id: int) -> int | None:
        epoch = self.states.get(broker_id, "fenced").removesuffix("-stopping")
        return None if epoch == "fenced" else int(epoch)

    def joining(self, broker_id: int) -> int | None:
        is_stopping = self.states.get(broker_id, "").endswith("-stopping")
        return None if is_stopping else self.live(broker_id)


@dataclass
class ScriptedLeader:
    """A leader whose commands are lines of text."""

    epochs: Epochs = field(default_factory=Epochs)
    followers: Followers = field(init=False)
    proposal: InSyncProposal | None = None
    end: int = 0
    high_watermark: int = 0
    min_in_sync: int = 1
    now: float = 0
    answer: str = ""

    def run(self, line: str) -> None:
        command, *words = line.split()
        given = dict(word.split("=") for word in words if "=" in word)
        self.now = float(given.pop("now", self.now))
        self.answer = ""
        match command:
            case "leader":
                self.lead(given)
            case "brokers":
                self.epochs.states |= {int(it): state for it, state in given.items()}
                return
            case "append":
                self.end = int(given["end"])
            case "fetch":
                self.fetch(given)
            case "shrink":
                self.propose(
                    self.followers.propose_to_remove(
                        leader_end_offset=self.end, now=self.now, lag_seconds_max=LAG_SECONDS_MAX
                    )
                )
            case "confirmed":
                self.settle(
                    InSyncChange(
                        leader=LEADER,
                        leader_epoch=int(
                            given.get("epoch", self.followers.leadership.leader_epoch)
                        ),
                        in_sync=ids(given["in-sync"]),
                        partition_epoch=int(given["partition-epoch"]),
                    )
                )
            case "refused":
                self.settle(ErrorCode[words[0]])
            case "metadata":
                self.followers.apply(
                    self.leadership(given), leader_end_offset=self.end, now=self.now
                )
            case _:
                raise AssertionError(line)
        self.advance()

    def leadership(self, given: dict[str, str]) -> Leadership:
        return Leadership(
            leader=LEADER,
            leader_epoch=int(given["epoch"]),
            partition_epoch=int(given["partition-epoch"]),
            replicas=ids(given["replicas"]),
            in_sync=ids(given["in-sync"]),
        )

    def lead(self, given: dict[str, str]) -> None:
        self.end, self.high_watermark = int(given["end"]), int(given["hw"])
        self.min_in_sync = int(given.get("min", 1))
        self.followers = Followers(
            self.leadership(given), self.epochs, epoch_start_offset=self.end, now=self.now
        )

    def fetch(self, given: dict[str, str]) -> None:
        broker = int(given["broker"])
        epoch = int(given.get("epoch") or self.epochs.live(broker) or -1)
        refusal = self.followers.refusal_of_fetch(broker, epoch, names_leader_epoch=True)
        if refusal is not None:
            self.answer = f"; fetch refused: {refusal.name}"
            return
        self.followers.note_fetch(
            broker,
            fetch_offset=int(given["offset"]),
            log_start_offset=int(given.get("start", 0)),
            broker_epoch=epoch,
            leader_end_offset=self.end,
            now=self.now,
        )
        self.propose(self.followers.propose_to_add(broker, high_watermark=self.high_watermark))

    def propose(self, proposal: InSyncProposal | None) -> None:
        if proposal is not None:
            self.proposal = proposal
            pairs = " ".join(f"{broker}@{epoch}" for broker, epoch in proposal.in_sync)
            self.answer = f"; sent {pairs} for partition epoch {proposal.partition_epoch}"

    def settle(self, outcome: InSyncChange | ErrorCode) -> None:
        assert self.proposal is not None
        effect = self.followers.settle(self.proposal, outcome)
        if effect is not None:
            self.answer = f"; {effect.name}"

    def advance(self) -> None:
        self.high_watermark = self.followers.advanced_high_watermark(
            self.high_watermark,
            leader_end_offset=self.end,
            min_in_sync=self.min_in_sync,
            now=self.now,
            lag_seconds_max=LAG_SECONDS_MAX,
        )

    def state(self) -> str:
        followers = self.followers
        pending = followers.proposal
        proposed = "" if pending is None else f", proposed {listed(pending.replicas)}"
        in_sync = listed(followers.leadership.in_sync)
        return f"hw {self.high_watermark}, in sync {in_sync}{proposed}{self.answer}"


def replay(path: Path) -> str:
    """Returns the text of a scenario with the states that the leader has reached."""
    leader, written, skips = ScriptedLeader(), [], False
    for line in path.read_text().splitlines():
        if line == "----":
            written += [line, leader.state()]
            skips = True
        elif not line or line.startswith("#"):
            skips = False
            written.append(line)
        elif not skips:
            written.append(line)
            leader.run(line)
    return "\n".join(written) + "\n"
