"""Writes the dead letters of the shares of partitions that this broker leads, each once.

    dead record ─▶ target ─▶ LETTER row ─▶ committed ─▶ read, off the event loop ─▶ ShareLetter to the target's leader
                                                                    LETTERED row ◀─ committed there ◀─┘

`share/letters.py` decides, and this file acts.  The rules are in `docs/share-groups.md`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, Protocol

from tidemill.broker.controller.controller_client import ControllerClient
from tidemill.broker.controller.metadata_freshness import MetadataFreshness
from tidemill.broker.controller.producer_id_source import ProducerIdSource
from tidemill.broker.controller.topic_creation import TopicCreation
from tidemill.broker.coordinators.share_group_configs import ShareGroupConfigs
from tidemill.broker.machine import Machine
from tidemill.broker.peers.unanswered import Unanswered
from tidemill.broker.shares.led_share import LedShare, ShareKey
from tidemill.broker.shares.letter_events import LetterEvents
from tidemill.broker.shares.letter_reader import LetterToBuild, NoRecord, build_letter, read_to_send_back
from tidemill.broker.shares.letter_targets import Cycle, LetterTargets, NoTarget
from tidemill.broker.shares.shard_proposals import ShardProposals
from tidemill.broker.shares.share_leaders import Outcome, ShareLeaders
from tidemill.broker.shares.share_openings import shares_of
from tidemill.metadata.image import ClusterImage
from tidemill.metadata.topic_configs import TopicConfigs
from tidemill.model import errors
from tidemill.model.config_resolution import BrokerLayers
from tidemill.model.dead_letters import is_redrive, redrive_topic
from tidemill.model.share_group_config import DEAD_LETTER_FAILURE
from tidemill.model.topic import TopicId
from tidemill.peer import share_letter
from tidemill.shard.partition import Partition
from tidemill.shard.pending import Pending
from tidemill.share.dead_letter import Origin, ToSendBack
from tidemill.share.letters import BACK_OFF_MS, BACK_OFF_MS_MAX, TRIES_MAX, UNANSWERED, Letters, Target
from tidemill.share.record_status import RecordState, Run
from tidemill.share.share import Removed, Share
from tidemill.share.share_row import AssignLetters, Letter, LettersWritten
from tidemill.storage.partition.segment import SegmentDamaged
from tidemill.telemetry.metrics import Metrics

IN_FLIGHT_MAX: Final = 32  # letters of this broker that are read or sent at a time: each holds a record in memory
ORIGINS_MAX: Final = 64  # dead letters of a redrive whose origins are read at a time
ARCHIVED_AT_ONCE_MAX: Final = 1_000  # records that one row archives without a letter
SHOWN_AFTER_TRIES: Final = 2  # a failure that is repeated is shown as a problem: leaders often move

_Read = Any  # a tuple of results of `letter_reader`, in the order of the request


class WritingBroker(Protocol):
    """The part of the broker that the writer uses."""

    machine: Machine
    configs: TopicConfigs
    metrics: Metrics
    producer_ids: ProducerIdSource
    topic_creation: TopicCreation
    controller_client: ControllerClient

    @property
    def image(self) -> ClusterImage: ...

    @property
    def layers(self) -> BrokerLayers: ...

    def read_failed(self, partition: Partition, error: Exception) -> int: ...


class _ShareLetters:
    """The writer's state of one share."""

    __slots__ = (
        "is_reading",
        "is_scheduled",
        "is_waiting_for_id",
        "led",
        "letters",
        "retry_at",
        "to_send_back",
        "tries",
    )

    def __init__(self, led: LedShare) -> None:
        self.led = led
        self.letters = Letters(led.share, may_omit_payload=not is_redrive(led.key.group))
        self.is_scheduled = False
        self.is_reading = False  # one read at a time, so that letters are sent in the order of their sequences
        self.is_waiting_for_id = False
        self.to_send_back: dict[int, ToSendBack] = {}  # what has been read, if the group sends dead letters back
        self.tries = 0  # failures to find a target
        self.retry_at = 0  # when the next such failure counts


class LetterWriter:
    def __init__(
        self,
        broker: WritingBroker,
        leaders: ShareLeaders,
        group_configs: ShareGroupConfigs,
        proposals: Callable[[Partition], ShardProposals | None],
        wake: Callable[[ShareKey], None],
    ) -> None:
        """`wake` is called when letters of a share are written: its start may have moved."""
        self._broker = broker
        self._machine = broker.machine
        self._leaders = leaders
        self._group_configs = group_configs
        self._proposals = proposals
        self._wake = wake
        self._targets = LetterTargets(
            lambda: broker.image,
            lambda: broker.layers,
            broker.configs,
            group_configs,
            broker.topic_creation,
            broker.machine.clock,
        )
        self._events = LetterEvents(broker.machine.events, broker.metrics)
        self._freshness = MetadataFreshness(broker.machine, lambda: broker.image, broker.controller_client)
        # Handles a letter for a partition that this broker leads.  Assigned before the first one.
        self.write_here: Callable[[share_letter.Request], Pending[share_letter.Response]] = _not_wired
        self._shares: dict[LedShare, _ShareLetters] = {}  # those that have had dead records in this term
        self._in_flight = 0
        self._starved: dict[_ShareLetters, None] = {}  # shares whose letters wait because `IN_FLIGHT_MAX` are in flight
        self._is_confirming: set[TopicId] = set()  # targets of which it is asked whether they are deleted

    # Events.

    def lead(self, led: LedShare) -> None:
        """Continue with the letters of a share that this broker has begun to lead."""
        if has_dead_records(led.share):
            self._begin(led)

    def died(self, led: LedShare, runs: Sequence[Run]) -> None:
        """Note decisions that have committed."""
        dead = [run.first for run in runs if run.value.state == RecordState.ARCHIVING]
        if dead:
            self._begin(led).letters.died(min(dead))

    def records_removed(self, lost: Removed) -> None:
        """Count the dead records that retention has removed before they had a letter."""
        self._broker.metrics.letters_lost += lost.letters

    def forget(self, led: LedShare) -> None:
        """Drop the state of a share that this broker no longer leads."""
        self._shares.pop(led, None)

    def tick(self) -> None:
        """Send letters again after failures, and look for missing targets."""
        for it in [*self._shares.values()]:
            if not self._is_current(it):
                del self._shares[it.led]
                continue
            if it.letters.is_idle:
                self._events.solved(it.led)
                continue
            self._check_targets(it)
            self._schedule(it)

    def _begin(self, led: LedShare) -> _ShareLetters:
        it = self._shares.get(led)
        if it is None:
            it = self._shares[led] = _ShareLetters(led)
        self._schedule(it)
        return it

    def _schedule(self, it: _ShareLetters) -> None:
        if not it.is_scheduled:
            it.is_scheduled = True
            self._machine.turns.call_soon(partial(self._advance, it))

    def _advance(self, it: _ShareLetters) -> None:
        it.is_scheduled = False
        if not self._is_led(it):
            return
        now = self._machine.clock.monotonic_ms()
        if now >= it.retry_at:
            it.letters.release_held()
        if it.letters.may_lack_letters:
            self._assign(it)
        if self._drops(it):
            self._give_up(it)
        self._send(it, now)

    def _is_current(self, it: _ShareLetters) -> bool:
        """Return whether the group has not been deleted, and no other incarnation has replaced its share."""
        share = it.led.share
        return shares_of(it.led.partition).by_number.get(share.number) is share

    def _is_led(self, it: _ShareLetters) -> bool:
        return self._shares.get(it.led) is it and it.led.partition.shard.is_serving

    def _drops(self, it: _ShareLetters) -> bool:
        return self._group_configs.of(it.led.key.group).drops_dead_letters

    # LETTER rows.

    def _assign(self, it: _ShareLetters) -> None:
        letters, key = it.letters, it.led.key
        if next(letters.dead(), None) is None:
            return
        if is_redrive(key.group):
            self._assign_redrive(it)
            return
        target = self._targets.of(key)
        if isinstance(target, NoTarget):
            self._no_target(it, target.problem)
            return
        it.tries = it.retry_at = 0
        if isinstance(target, Cycle):
            self._archive(it, [*islice(letters.dead(), ARCHIVED_AT_ONCE_MAX)], "the target is the topic itself")
        elif self._has_producer_id(it):
            room = letters.room(target)
            self._propose(it, [letters.assign(offset, target) for offset in islice(letters.dead(), room)])

    def _assign_redrive(self, it: _ShareLetters) -> None:
        """Assign letters that are sent back.  Their records are read first: their headers say where they came from."""
        letters, key = it.letters, it.led.key
        offsets = [*islice(letters.dead(), ORIGINS_MAX)]
        if unread := [offset for offset in offsets if offset not in it.to_send_back]:
            self._read_to_send_back(it, unread)
            return
        if not self._has_producer_id(it):
            return
        assigned: list[Letter] = []
        for offset in offsets:
            target = self._redrive_target(key, offset, it.to_send_back[offset])
            if isinstance(target, NoTarget):
                letters.hold(offset)
                del it.to_send_back[offset]
                self._no_target(it, target.problem)
            elif isinstance(target, Cycle):
                del it.to_send_back[offset]
                self._archive(it, [offset], "the record would be sent to its own topic")
            elif letters.room(target) > 0:
                del it.to_send_back[offset]
                assigned.append(letters.assign(offset, target))
        if not letters.held:
            it.tries = it.retry_at = 0
        self._propose(it, assigned)

    def _redrive_target(self, key: ShareKey, offset: int, letter: ToSendBack) -> Target | NoTarget | Cycle:
        if not letter.has_content:
            return NoTarget(
                f"letter {offset} does not have the content of its record, so it cannot be sent back: set "
                f"{DEAD_LETTER_FAILURE}=drop on group {key.group} to finish it"
            )
        if letter.sent_from is None and redrive_topic(key.group) is None:
            return NoTarget(
                f"record {offset} has no header that names its topic: choose one, tidemill dlq redrive --to TOPIC"
            )
        return self._targets.of(key, letter.sent_from)

    def _read_to_send_back(self, it: _ShareLetters, offsets: Sequence[int]) -> None:
        if it.is_reading:
            return
        it.is_reading = True
        partition = it.led.partition
        end = partition.high_watermark

        def read() -> _Read:
            return [read_to_send_back(partition, offset, end) for offset in offsets]

        def done(found: _Read) -> None:
            it.is_reading = False
            if not self._is_led(it):
                return
            for offset, letter in zip(offsets, found, strict=True):
                if isinstance(letter, SegmentDamaged):
                    self._broker.read_failed(partition, letter)
                    it.letters.hold(offset)
                    self._no_target(it, str(letter))
                elif isinstance(letter, NoRecord):
                    self._archive(it, [offset], f"the record is {letter.why}")
                else:
                    it.to_send_back[offset] = letter
            self._schedule(it)

        self._machine.opening_jobs.submit(read, done, self._machine.failed)

    def _has_producer_id(self, it: _ShareLetters) -> bool:
        """Return whether the share has a producer id for its letters; if not, ask for one."""
        if it.letters.producer_id is not None:
            return True

        def taken(outcome: int | Unanswered) -> None:
            it.is_waiting_for_id = False
            if not isinstance(outcome, Unanswered):  # otherwise, the next tick asks again
                it.letters.producer_id = outcome
                self._schedule(it)

        if not it.is_waiting_for_id:
            it.is_waiting_for_id = True
            self._broker.producer_ids.take(taken)
        return False

    def _propose(self, it: _ShareLetters, letters: Sequence[Letter]) -> None:
        proposals = self._proposals(it.led.partition)
        if not letters or proposals is None:
            return

        def committed(is_committed: bool) -> None:
            if is_committed and self._is_led(it):
                it.letters.assigned(letters)
                self._schedule(it)

        proposals.add(AssignLetters(it.led.partition.number, it.led.share.number, tuple(letters)), committed)

    # Letters that are sent.

    def _send(self, it: _ShareLetters, now: int) -> None:
        """Read the records of letters that are due, and send the letters."""
        room = IN_FLIGHT_MAX - self._in_flight
        if it.is_reading:
            return
        if room <= 0:
            self._starved[it] = None
            return
        letters = it.letters.to_send(now, room)
        if not letters:
            self._feed_next()
            return
        self._in_flight += len(letters)
        it.is_reading = True
        partition = it.led.partition
        end = partition.high_watermark
        wanted = [self._letter_to_build(it, letter) for letter in letters]

        def read() -> _Read:
            return [build_letter(partition, one, end) for one in wanted]

        def done(batches: _Read) -> None:
            it.is_reading = False
            for letter, batch in zip(letters, batches, strict=True):
                self._send_batch(it, letter, batch)
            self._schedule(it)

        self._machine.opening_jobs.submit(read, done, self._machine.failed)

    def _letter_to_build(self, it: _ShareLetters, letter: Letter) -> LetterToBuild:
        key, image = it.led.key, self._broker.image
        fits = it.letters.has_payload(letter)
        topic = image.topic_by_id(TopicId(letter.topic_id))
        return LetterToBuild(
            letter,
            Origin(it.led.partition.topic, key.partition, letter.offset, key.group, it.letters.status(letter)),
            has_payload=fits and self._group_configs.of(key.group).copies_dead_records,
            is_payload_too_large=not fits,
            batch_bytes_max=0 if topic is None else self._broker.configs.of(image, topic.name).max_message_bytes,
        )

    def _send_batch(self, it: _ShareLetters, letter: Letter, batch: bytearray | NoRecord | SegmentDamaged) -> None:
        answered = partial(self._answered, it, letter)
        if not self._is_led(it):
            answered(UNANSWERED, "")
        elif isinstance(batch, SegmentDamaged):
            answered(self._broker.read_failed(it.led.partition, batch), str(batch))
        elif isinstance(batch, NoRecord):
            answered(errors.NONE, None, is_written=False)
        else:
            target = (TopicId(letter.topic_id), letter.partition)

            def received(outcomes: list[Outcome]) -> None:
                response = outcomes[0].response
                if response is None:
                    answered(UNANSWERED, "the leader of the partition is not known, or does not answer")
                else:
                    answered(response.error_code, response.error_message)

            request = share_letter.Request(topic_id=target[0], partition=target[1], records=memoryview(batch))
            self._leaders.ask(share_letter.API, [target], lambda _: request, self.write_here).then(received)

    def _answered(
        self, it: _ShareLetters, letter: Letter, error_code: int, message: str | None, *, is_written: bool = True
    ) -> None:
        """Note the answer to a letter.  `is_written` is False if there is nothing to write any more."""
        self._in_flight -= 1
        self._feed_next()
        if not self._is_led(it):
            return
        self._schedule(it)
        if it.letters.answered(letter, error_code, self._machine.clock.monotonic_ms()):
            self._events.solved(it.led)
            if not is_written:
                self._events.lost(it.led, 1)
            self._finish(it, [letter], is_written=is_written)
        elif it.letters.tries >= SHOWN_AFTER_TRIES:
            topic = self._broker.image.topic_by_id(TopicId(letter.topic_id))
            name = TopicId(letter.topic_id).hex() if topic is None else topic.name
            self._events.waits(it.led, f"{name}-{letter.partition}: {errors.name(error_code)}: {message}")

    def _feed_next(self) -> None:
        """Let the next share send letters: there is room again, or another share has not used it."""
        if self._starved and self._in_flight < IN_FLIGHT_MAX:
            first = next(iter(self._starved))
            del self._starved[first]
            self._schedule(first)

    # LETTERED rows.

    def _finish(self, it: _ShareLetters, letters: Sequence[Letter], *, is_written: bool) -> None:
        """Archive the records of letters that are written, dropped or lost."""

        def finished() -> None:
            it.letters.finished(letters)
            if is_written:
                self._broker.metrics.letters_written += len(letters)

        self._propose_finished(it, [letter.offset for letter in letters], finished)

    def _archive(self, it: _ShareLetters, offsets: Sequence[int], why: str) -> None:
        """Archive dead records without a letter."""

        def finished() -> None:
            it.letters.archived(offsets)

        it.letters.archive(offsets)
        self._events.dropped(it.led, len(offsets), why)
        self._propose_finished(it, offsets, finished)

    def _propose_finished(self, it: _ShareLetters, offsets: Sequence[int], finished: Callable[[], None]) -> None:
        proposals = self._proposals(it.led.partition)
        if not offsets or proposals is None:
            return

        def committed(is_committed: bool) -> None:
            if is_committed and self._is_led(it):
                finished()
                it.led.leases.start_moved()
                self._wake(it.led.key)
                self._schedule(it)

        proposals.add(LettersWritten(it.led.partition.number, it.led.share.number, tuple(offsets)), committed)

    # Letters that cannot be written.

    def _no_target(self, it: _ShareLetters, problem: str) -> None:
        """Show why a record has no target.  The caller looks again later."""
        self._events.waits(it.led, problem)
        now = self._machine.clock.monotonic_ms()
        if now >= it.retry_at:
            it.retry_at = now + min(BACK_OFF_MS << min(it.tries, 10), BACK_OFF_MS_MAX)
            it.tries += 1

    def _give_up(self, it: _ShareLetters) -> None:
        """Archive what has failed too often, for a group whose dead letters may be dropped."""
        if it.tries >= TRIES_MAX:
            it.tries = 0
            dead = it.letters.held or [*islice(it.letters.dead(), ARCHIVED_AT_ONCE_MAX)]
            self._archive(it, dead, it.led.letter_problem or "there is no target")
        if letters := it.letters.give_up():
            self._events.dropped(it.led, len(letters), it.led.letter_problem or "the target refuses them")
            self._finish(it, letters, is_written=False)

    def _check_targets(self, it: _ShareLetters) -> None:
        """Assign letters to deleted topics again.  A topic that is not in the image may be too new for it."""
        image = self._broker.image
        for topic_id in dict.fromkeys(target.topic_id for target in it.letters.targets()):
            if topic_id not in self._is_confirming and image.topic_by_id(topic_id) is None:
                self._is_confirming.add(topic_id)
                self._freshness.ask(partial(self._confirmed, topic_id))

    def _confirmed(self, topic_id: TopicId, is_fresh: bool) -> None:
        self._is_confirming.discard(topic_id)
        if is_fresh and self._broker.image.topic_by_id(topic_id) is None:
            for it in self._shares.values():
                it.letters.target_deleted(topic_id)
                self._schedule(it)


def has_dead_records(share: Share) -> bool:
    """Return whether a letter of the share is not written."""
    return bool(share.letters) or any(run.value.state == RecordState.ARCHIVING for run in share.runs)


def _not_wired(request: share_letter.Request) -> Pending[share_letter.Response]:
    raise AssertionError(f"write_here is not assigned ({request})")
