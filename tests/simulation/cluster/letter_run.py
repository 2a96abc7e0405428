"""A simulated share group with a dead-letter topic: each dead record has one letter, and no other record has one."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.cluster.share_run import GROUP, LAST_COUNT, LOWEST_LIMIT, ShareRun
from tidemill.batches.batch import spans
from tidemill.batches.records import Record, read_records
from tidemill.broker.shares.share_openings import shares_of
from tidemill.model.letter_origin import Cause, Origin, origin_of
from tidemill.shard.partition import Partition
from tidemill.share.letters import UNMARKED_MAX, LaneKey, Letters, lane_of
from tidemill.share.record_status import Reason, RecordState
from tidemill.share.share_row import Letter
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.cluster.cluster import TOPIC
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.simulation.invariant_violation import InvariantViolation

DEAD: Final = "dlq.flights"
ENABLE: Final = "errors.deadletterqueue.group.enable"
READ_BYTES: Final = 1 << 20
CAUSES: Final = {Reason.REJECTED: Cause.REJECTED, Reason.DELIVERY_LIMIT: Cause.LIMIT, Reason.EXPIRED: Cause.EXPIRED}
STRIKES: Final = 0.1  # the probability of a fault when as many letters as possible are assigned


class LetterRun(ShareRun):
    """Rejects many records, and compares the dead-letter topic with the records that have died."""

    reject_share = 0.4
    settings: Mapping[str, str] = {"share.delivery.count.limit": str(LOWEST_LIMIT)}
    created_after_s = 0.0  # when the topic for dead letters is created

    def __init__(self, seed: int, knobs: ClusterKnobs) -> None:
        # (partition, offset) → reason: a replica has applied the record's death.
        self._dead: dict[tuple[int, int], Reason] = {}
        self.letter_count = 0
        self.causes: Counter[str] = Counter()  # of the letters
        super().__init__(seed, knobs)
        self.shared.last_count = LAST_COUNT

    async def _prepare(self) -> None:
        await super()._prepare()
        assert self._client is not None
        await asyncio.sleep(self.created_after_s)
        await self._client.create_topic(DEAD, self._dead_partitions, min(self.knobs.brokers, 3), {ENABLE: "true"})

    async def _configure(self, client: Any, settings: Any) -> None:
        await super()._configure(client, {**settings, "errors.deadletterqueue.topic.name": DEAD})

    @property
    def _dead_partitions(self) -> int:
        return 1 + self.seed % 2

    def _after_turn(self, machine: BrokerMachine) -> None:
        super()._after_turn(machine)
        if machine.broker is None:
            return
        for number, partition in machine.broker.shard_table.topics.get(TOPIC, {}).items():
            share = shares_of(partition).of_group(GROUP)
            for run in () if share is None else share.runs:
                if run.value.state == RecordState.ARCHIVING:
                    dead = ((number, offset) for offset in range(run.first, run.end))
                    self._dead.update(dict.fromkeys(dead, run.value.reason))

    def _agree(self, agree: Any) -> bool:
        if not super()._agree(agree):
            return False
        for number in range(self.knobs.partitions):
            for partition in self._replicas(number):
                share = shares_of(partition).of_group(GROUP)
                if share is not None and share.letters:
                    return False
        self._check_letters()
        return True

    def _check_letters(self) -> None:
        found: Counter[tuple[int, int]] = Counter()
        for number in range(self._dead_partitions):
            for record in self._letters(number):
                key, origin = _origin(record)
                found[key] += 1
                self._check_cause(key, origin)
                if key[0] % self._dead_partitions != number:
                    raise InvariantViolation(f"the letter of record {key} is in partition {number}")
        self.letter_count = len(found)
        for key, count in found.items():
            if count > 1:
                raise InvariantViolation(f"record {key} has {count} letters")
        kept = {
            (number, offset)
            for number in range(self.knobs.partitions)
            for offset in range(
                self.history.partition(TOPIC, number).delete_asked, self._replicas(number)[0].high_watermark
            )
        }
        # The group has finished every record, and records that no member has tried to accept can only have died.
        dead = kept & (self._dead.keys() | (kept - self.shared.accepting))
        if missing := dead - found.keys():
            raise InvariantViolation(f"records {sorted(missing)[:5]} died, and have no letter")
        if unknown := found.keys() - self._dead.keys():
            raise InvariantViolation(f"records {sorted(unknown)[:5]} have letters, and did not die")

    def _check_cause(self, key: tuple[int, int], origin: Origin) -> None:
        """Check that a letter gives the cause of the record's death, unless retention has removed the record."""
        self.causes["not known" if origin.cause is None else origin.cause.value] += 1
        number, offset = key
        if origin.message is None and offset < self.history.partition(TOPIC, number).delete_asked:
            return
        reason = self._dead.get(key)
        if reason is not None and origin.cause != CAUSES[reason]:
            raise InvariantViolation(f"the letter of record {key} gives {origin}, and the reason is {reason.name}")

    def _letters(self, number: int) -> list[Record]:
        partition = self._replicas(number, DEAD)[0]
        offset, records = partition.log_start, []
        while offset < partition.high_watermark:
            read = partition.log.read(offset, READ_BYTES, partition.high_watermark, may_wait=True)
            assert read is not None
            for part in read[0]:
                for span in spans(part):
                    records += read_records(part, span.position)
                    offset = span.header.end_offset
        return records


class InterruptedRun(LetterRun):
    """
    Strikes while letters are on their way: the leader of the dead records is killed, or the other replicas cannot reach
    it although the leader of the letters can.  Many letters are due then, because their topic is created late.
    """

    reject_share = 0.6
    created_after_s = 1.5

    def __init__(self, seed: int, knobs: ClusterKnobs) -> None:
        self._strikes = Random(seed)
        self._unmarked: dict[BrokerMachine, int] = {}
        super().__init__(seed, knobs)

    def _after_turn(self, machine: BrokerMachine) -> None:
        super()._after_turn(machine)
        partition = None if machine.broker is None else machine.broker.shard_table.partition(TOPIC, 0)
        if partition is None or not partition.shard.is_serving or self.faults.is_over:
            return
        share = shares_of(partition).of_group(GROUP)
        unmarked = 0 if share is None else len(share.letters)
        if unmarked >= UNMARKED_MAX > self._unmarked.get(machine, 0) and self._strikes.random() < STRIKES:
            self._strike_soon(machine, partition)
        self._unmarked[machine] = unmarked

    def _strike_soon(self, machine: BrokerMachine, partition: Partition) -> None:
        voters = {f"broker-{voter.broker_id}" for voter in partition.shard.replica.voters}
        letters = next((it.name for it in self.machines if self._leads_letters(it)), None)
        starts = machine.starts
        # About the time from the commit of LETTER to that of LETTERED.
        delay_us = self._strikes.randrange(self.knobs.delay_us, 8 * self.knobs.delay_us + 3 * self.knobs.sync_us)

        def strike() -> None:
            if self.faults.is_over or machine.starts != starts or machine.loop is None:
                return
            if letters in voters or self._strikes.random() < 0.5:
                machine.kill()
                return
            for name in voters - {machine.name}:
                self.network.blocked |= {(machine.name, name), (name, machine.name)}

        self.timeline.after(delay_us, strike)

    def _leads_letters(self, machine: BrokerMachine) -> bool:
        partition = None if machine.broker is None else machine.broker.shard_table.partition(DEAD, 0)
        return partition is not None and partition.shard.is_serving


def _origin(record: Record) -> tuple[tuple[int, int], Origin]:
    origin = origin_of(record.headers)
    assert origin.partition is not None and origin.offset is not None, "a letter says where its record is"
    return (origin.partition, origin.offset), origin


def letter_run(seed: int) -> LetterRun:
    return LetterRun(seed, replace(ClusterKnobs.draw(Random(seed)), wipe=0.0))


def eventful_letter_run(seed: int) -> LetterRun:
    """Return a short run of three brokers whose leaders change often, and whose processes end."""
    drawn = ClusterKnobs.draw(Random(seed), 3).without_faults()
    faults = replace(
        drawn, kill=0.3, pause=0.1, partition=0.2, lost_link=0.5, leader_isolation=1.0, transfer_leadership=0.5
    )
    return LetterRun(seed, replace(faults, duration_s=4, partitions=1, producers=1, pause_s=0.02))


def interrupted_run(seed: int) -> InterruptedRun:
    knobs = ClusterKnobs.draw(Random(seed), 5).without_faults()
    return InterruptedRun(seed, replace(knobs, duration_s=4, partitions=1, producers=1, pause_s=0.02))


@contextmanager
def refuse_lost_letters() -> Iterator[None]:
    """Report a target that refuses a letter for ever, although it has answered the one before as written."""
    written: set[tuple[LaneKey, int]] = set()
    answered, target_lost = Letters.answered, Letters._target_lost

    def noted(self: Letters, letter: Letter, error_code: int, now: int) -> bool:
        is_written = answered(self, letter, error_code, now)
        if is_written:
            written.add((lane_of(letter), letter.sequence))
        return is_written

    def lost(self: Letters, key: LaneKey) -> None:
        head = self._lanes[key].head
        # The letter before has never been sent if retention removed its record before the letter was assigned.
        if head is not None and (key, head - 1) in written:
            raise InvariantViolation(f"the target {key} refuses a letter for ever")
        target_lost(self, key)

    with patch.object(Letters, "answered", noted), patch.object(Letters, "_target_lost", lost):
        yield
