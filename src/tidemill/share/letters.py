"""Decides which dead letters of a share are assigned and sent next, and what the answers mean.

    dead record ─▶ assigned ─▶ committed ─▶ in flight ─▶ written ─▶ finished, when LETTERED has committed
                      ▲  LETTER     ▲           │
                      │             └───────────┤ refused, or the outcome is unknown: sent again later
                      └─────────────────────────┘ it can never be written as assigned: another producer id

A letter is one record in one batch, with the producer id and the sequence of its LETTER row.  So if it is sent again,
by this leader or the next one, its target recognizes the duplicate (KIP-98).  The letters with one producer id for one
target partition form a *lane*.  At most `UNMARKED_MAX` letters of a lane are assigned and not finished: the target
remembers the producer's last five batches, and the letter that is sent again must be one of them.  While it is not
known that the target knows the producer, one letter is in flight: a target accepts any first sequence, so a later
letter that overtakes the first one would make the target refuse the first one for ever.

None of this state survives a loss of leadership: the next leader builds it from the share's letters, and uses a
producer id of its own for further ones.  The rules are in `docs/share-groups.md`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tidemill.model import errors
from tidemill.model.topic import TopicId
from tidemill.share.record_status import RecordState, RecordStatus
from tidemill.share.share import Share
from tidemill.share.share_row import Letter

UNMARKED_MAX: Final = 4
TRIES_MAX: Final = 5  # after which a letter is given up, if the group's dead letters may be dropped
BACK_OFF_MS: Final = 1_000  # after a failure; doubles with each further one
BACK_OFF_MS_MAX: Final = 30_000
SEQUENCE_MAX: Final = (1 << 31) - 1
UNANSWERED: Final = errors.UNKNOWN_SERVER_ERROR  # the answer to a letter whose outcome is unknown
_OFFSET_MAX: Final = (1 << 63) - 1


class Target(NamedTuple):
    """The partition to which a dead letter is written."""

    topic_id: TopicId
    partition: int


class LaneKey(NamedTuple):
    producer_id: int
    target: Target


@dataclass(slots=True)
class _Lane:
    """The letters with one producer id for one target partition."""

    letters: dict[int, Letter] = field(default_factory=dict)  # by ascending sequence: committed, and not written
    unfinished: int = 0  # letters that are assigned, including those whose LETTER or LETTERED is not committed
    in_flight: set[int] = field(default_factory=set)  # sequences
    is_draining: bool = False  # whether a letter was refused, so no other is sent until all in flight are answered
    has_head_failed: bool = False  # whether the first letter was refused since then
    is_known: bool = False  # whether the target has the producer's last batch, for all that is known
    tries: int = 0  # failures of the first letter
    retry_at: int = 0  # monotonic time in ms before which nothing is sent

    @property
    def head(self) -> int | None:
        return next(iter(self.letters), None)


class Letters:
    """The dead letters of one share, on the leader of the share's partition."""

    def __init__(self, share: Share, *, may_omit_payload: bool = True) -> None:
        """`may_omit_payload`: whether a letter that is too large is sent without the content of its record."""
        self._share = share
        self._may_omit_payload = may_omit_payload
        self._lanes: dict[LaneKey, _Lane] = {}
        self._busy: dict[int, Letter] = {}  # by offset: the LETTER or LETTERED of the letter is not committed yet
        self._again: set[int] = set()  # letters that can never be written with their producer ids
        self._held: set[int] = set()  # dead records whose target is not known now
        self._archiving: set[int] = set()  # dead records that get no letter: their LETTERED is not committed yet
        self._without_payload: set[int] = set()  # letters that were too large with the record's content
        self._unassigned_from: int | None = share.start  # no dead record below this lacks a letter; None: none does
        self._next_sequences: dict[Target, int] = {}  # of the own producer id
        self.producer_id: int | None = None  # of the letters that this leader assigns
        for letter in sorted(share.letters.values(), key=lambda it: it.sequence):
            self._add(letter)

    # Which letters are assigned.

    @property
    def may_lack_letters(self) -> bool:
        """Whether a dead record may have no letter yet."""
        return bool(self._again) or self._unassigned_from is not None

    @property
    def is_idle(self) -> bool:
        """Whether no dead record is known, so nothing has to be done."""
        is_busy = any(lane.unfinished for lane in self._lanes.values()) or self._archiving
        return not (is_busy or self._held or self.may_lack_letters)

    def died(self, first: int) -> None:
        """Note that a record at or above `first` may have died."""
        self._unassigned_from = first if self._unassigned_from is None else min(first, self._unassigned_from)

    def dead(self) -> Iterator[int]:
        """Yield the offsets of dead records without a letter, unless they are held."""
        yield from sorted(self._again - self._held - self._archiving)
        if self._unassigned_from is None:
            return
        first: int | None = None
        share = self._share
        for run in share.runs.within(max(self._unassigned_from, share.start), _OFFSET_MAX):
            if run.value.state != RecordState.ARCHIVING:
                continue
            for offset in range(run.first, run.end):
                if offset in share.letters or offset in self._busy:
                    continue
                if offset in self._held or offset in self._archiving:
                    continue
                if first is None:
                    self._unassigned_from = first = offset
                yield offset
        if first is None:
            self._unassigned_from = None

    @property
    def held(self) -> list[int]:
        """The dead records that are held."""
        return sorted(self._held)

    def hold(self, offset: int) -> None:
        """Skip a dead record whose target is not known, until `release_held`."""
        self._held.add(offset)

    def release_held(self) -> None:
        if self._held:
            self.died(min(self._held))
            self._held.clear()

    def archive(self, offsets: Iterable[int]) -> None:
        """Give dead records no letter.  The caller proposes LETTERED, and calls `archived` when it has committed."""
        self._archiving.update(offsets)
        self._held -= self._archiving
        self._again -= self._archiving

    def archived(self, offsets: Iterable[int]) -> None:
        self._archiving.difference_update(offsets)

    def room(self, target: Target) -> int:
        """Return how many further letters may be assigned to a target.  This leader needs a producer id first."""
        assert self.producer_id is not None, "letters are assigned to a producer id"
        lane = self._lanes.get(LaneKey(self.producer_id, target))
        return UNMARKED_MAX - (0 if lane is None else lane.unfinished)

    def assign(self, offset: int, target: Target) -> Letter:
        """Return the letter of a dead record.  The caller proposes it, and calls `assigned` when it has committed."""
        assert self.producer_id is not None and self.room(target) > 0, "the caller has checked it"
        sequence = self._next_sequences.get(target, 0)
        letter = Letter(offset, self.producer_id, sequence, target.topic_id, target.partition)
        self._again.discard(offset)
        self._busy[offset] = letter
        self._lanes.setdefault(lane_of(letter), _Lane()).unfinished += 1
        self._next_sequences[target] = sequence + 1
        if sequence == SEQUENCE_MAX:
            self._retire()
        return letter

    def assigned(self, letters: Iterable[Letter]) -> None:
        """Note that LETTER has been applied.  A letter is not in the share if retention has removed its record."""
        for letter in letters:
            del self._busy[letter.offset]
            lane = self._lanes[lane_of(letter)]
            if self._share.letters.get(letter.offset) == letter:
                lane.letters[letter.sequence] = letter
            else:
                self._unassign(letter)

    # Which letters are sent.

    def to_send(self, now: int, letters_max: int) -> list[Letter]:
        """Return the letters to send now, in this order.  They are in flight until `answered` is called for each."""
        found: list[Letter] = []
        for lane in self._lanes.values():
            if now < lane.retry_at or lane.is_draining:
                continue
            if not lane.is_known and lane.in_flight:
                continue
            due = [letter for sequence, letter in lane.letters.items() if sequence not in lane.in_flight]
            for letter in due[: None if lane.is_known else 1]:
                if len(found) == letters_max:
                    return found
                lane.in_flight.add(letter.sequence)
                found.append(letter)
        return found

    def has_payload(self, letter: Letter) -> bool:
        """Return whether the letter has the content of its record, if the group's configuration allows it."""
        return letter.offset not in self._without_payload

    def status(self, letter: Letter) -> RecordStatus | None:
        """Return the status of the letter's record; None if retention has removed it."""
        return self._share.runs.get(letter.offset) if letter.offset >= self._share.start else None

    def answered(self, letter: Letter, error_code: int, now: int) -> bool:
        """
        Note the answer of the letter's target, `UNANSWERED` if there is none.  Return True if the letter is written:
        the caller proposes LETTERED, and calls `finished` when it has committed.
        """
        lane = self._lanes[lane_of(letter)]
        is_alone = not lane.is_known
        lane.in_flight.remove(letter.sequence)
        if not error_code:
            del lane.letters[letter.sequence]
            lane.is_known, lane.tries = True, 0
            self._without_payload.discard(letter.offset)
            self._busy[letter.offset] = letter
        elif error_code == errors.MESSAGE_TOO_LARGE and self._may_omit_payload and self.has_payload(letter):
            self._without_payload.add(letter.offset)
        elif error_code == errors.OUT_OF_ORDER_SEQUENCE_NUMBER and is_alone:
            self._target_lost(lane_of(letter))
            return False
        else:
            lane.is_draining = True
            lane.has_head_failed |= letter.sequence == lane.head
        if lane.is_draining and not lane.in_flight:
            _drained(lane, now)
        return not error_code

    def finished(self, letters: Iterable[Letter]) -> None:
        """Note that LETTERED has been applied."""
        for letter in letters:
            del self._busy[letter.offset]
            self._unassign(letter)

    @property
    def tries(self) -> int:
        """How often the first letter of a lane has failed, for the lane that has failed most often."""
        return max((lane.tries for lane in self._lanes.values() if lane.letters), default=0)

    # Letters that cannot be written.

    def targets(self) -> list[Target]:
        """Return the targets of the letters that are assigned and not written."""
        return [key.target for key, lane in self._lanes.items() if lane.letters]

    def target_deleted(self, topic_id: TopicId) -> None:
        """Assign the letters to a deleted topic again.  If one was written, it was deleted with the topic."""
        for key in [key for key in self._lanes if key.target.topic_id == topic_id]:
            if not self._lanes[key].in_flight:
                self._assign_again(key)

    def give_up(self) -> list[Letter]:
        """
        Return the letters that have failed too often.  The caller proposes LETTERED for them, as if they were written.

        The other letters of a lane are given up, too: the target refuses them without the first one.
        """
        given_up: list[Letter] = []
        for key, lane in [*self._lanes.items()]:
            if lane.tries >= TRIES_MAX and not lane.in_flight:
                given_up += lane.letters.values()
                self._busy.update((letter.offset, letter) for letter in lane.letters.values())
                lane.letters.clear()
                lane.tries = lane.retry_at = 0
                self._retire_lane(key)
        return given_up

    # Methods that the methods above share.

    def _add(self, letter: Letter) -> None:
        lane = self._lanes.setdefault(lane_of(letter), _Lane())
        lane.letters[letter.sequence] = letter
        lane.unfinished += 1

    def _unassign(self, letter: Letter) -> None:
        key = lane_of(letter)
        lane = self._lanes[key]
        lane.unfinished -= 1
        if not lane.unfinished and key.producer_id != self.producer_id:
            del self._lanes[key]  # the own lanes stay, because their targets know the producer

    def _target_lost(self, key: LaneKey) -> None:
        """
        Assign the letters of a lane again, because the target lacks the letter before them.  It has lost that letter,
        and it does not have these: it would recognize a duplicate.
        """
        self._assign_again(key)

    def _assign_again(self, key: LaneKey) -> None:
        lane = self._lanes[key]
        for letter in lane.letters.values():
            self._again.add(letter.offset)
            lane.unfinished -= 1
        lane.letters.clear()
        self._retire_lane(key)
        if not lane.unfinished:
            self._lanes.pop(key, None)

    def _retire_lane(self, key: LaneKey) -> None:
        if key.producer_id == self.producer_id:
            self._retire()

    def _retire(self) -> None:
        """Assign further letters to another producer id."""
        self.producer_id = None
        self._next_sequences.clear()
        for key in [key for key, lane in self._lanes.items() if not lane.unfinished]:
            del self._lanes[key]


def _drained(lane: _Lane, now: int) -> None:
    """Wait if the first letter was refused.  Later ones may have been refused only because it was missing."""
    if lane.has_head_failed:
        lane.retry_at = now + min(BACK_OFF_MS << min(lane.tries, 10), BACK_OFF_MS_MAX)
        lane.tries += 1
        lane.is_known = False
    lane.is_draining = lane.has_head_failed = False


def lane_of(letter: Letter) -> LaneKey:
    """Return the lane to which a letter is assigned."""
    return LaneKey(letter.producer_id, Target(TopicId(letter.topic_id), letter.partition))
