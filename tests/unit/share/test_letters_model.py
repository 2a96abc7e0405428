"""`Letters` against a model of its target: whatever is lost, late or failing, each dead record gets one letter.

The model's target remembers exactly five batches of a producer, and accepts any first sequence of an unknown one.
Letters travel in order on the connection of one leader; those of a former leader may still arrive.
"""

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from tests.unit.share.runs import run
from tidemill.model import errors
from tidemill.model.topic import TopicId
from tidemill.share import letters as module
from tidemill.share.letters import UNANSWERED, Letters, Target
from tidemill.share.record_status import Reason, RecordState
from tidemill.share.share import Share
from tidemill.share.share_row import Letter

TARGET = Target(TopicId(bytes(16)), 0)
WINDOW = 5
RECORDS = 24
STEPS = 400
SEEDS = range(300)


class ModelTarget:
    """The partition to which letters are written."""

    def __init__(self) -> None:
        self.written: list[int] = []  # the offsets of the dead records, in the order of the letters
        self._sequences: dict[int, deque[int]] = {}  # by producer id: those of the newest batches
        self.is_refusing = False

    def receive(self, letter: Letter) -> int:
        if self.is_refusing:
            return errors.KAFKA_STORAGE_ERROR
        window = self._sequences.get(letter.producer_id)
        if window is not None and letter.sequence != window[-1] + 1:
            return errors.NONE if letter.sequence in window else errors.OUT_OF_ORDER_SEQUENCE_NUMBER
        self._sequences.setdefault(letter.producer_id, deque(maxlen=WINDOW)).append(letter.sequence)
        self.written.append(letter.offset)
        return errors.NONE


class Leader:
    """A leader of the dead records: its core, its connection to the target, and its proposals."""

    def __init__(self, share: Share, producer_id: int) -> None:
        self.letters = Letters(share)
        self.letters.producer_id = producer_id
        self.sent: deque[Letter] = deque()
        self.answers: list[tuple[Letter, int]] = []
        self.assignments: deque[list[Letter]] = deque()  # LETTER rows that are not committed
        self.written: deque[Letter] = deque()  # LETTERED rows that are not committed


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.share = Share(number=1, group="g", incarnation=1, state_epoch=0, start=0)
        self.share.set_runs([run(0, RECORDS, RecordState.ARCHIVING, Reason.REJECTED, 1)])
        self.target = ModelTarget()
        self.producer_ids = 0
        self.now = 0
        self.former: list[Leader] = []
        self.leader = self._new_leader()

    def _new_leader(self) -> Leader:
        self.producer_ids += 1
        return Leader(self.share, self.producer_ids)

    def run(self) -> None:
        for _ in range(STEPS):
            self.step(may_fail=True)
        self.target.is_refusing = False
        for _ in range(20 * STEPS):
            if self.share.start == RECORDS and not self.share.letters:
                break
            self.step(may_fail=False)
        assert [1] * RECORDS == [Counter(self.target.written)[offset] for offset in range(RECORDS)]
        assert self.share.start == RECORDS, "the records are finished"

    def step(self, *, may_fail: bool) -> None:
        drawn = self.random.random()
        if may_fail and drawn < 0.02:
            self.former.append(self.leader)
            self.leader = self._new_leader()
        elif may_fail and drawn < 0.04:
            self.target.is_refusing = not self.target.is_refusing
        elif may_fail and drawn < 0.06:
            self.lose_connection()
        else:
            self.random.choice((self.assign, self.commit, self.send, self.arrive, self.answer, self.wait))()

    def assign(self) -> None:
        letters = self.leader.letters
        if letters.producer_id is None:
            self.producer_ids += 1
            letters.producer_id = self.producer_ids
        dead = [*letters.dead()][: self.random.randrange(1 + letters.room(TARGET))]
        if dead:
            self.leader.assignments.append([letters.assign(offset, TARGET) for offset in dead])

    def commit(self) -> None:
        leader = self.leader
        if leader.assignments and (not leader.written or self.random.random() < 0.5):
            assigned = leader.assignments.popleft()
            self.share.assign_letters(assigned)
            leader.letters.assigned(assigned)
        elif leader.written:
            letter = leader.written.popleft()
            self.share.letters_written([letter.offset])
            leader.letters.finished([letter])

    def send(self) -> None:
        self.leader.sent.extend(self.leader.letters.to_send(self.now, 10))

    def arrive(self) -> None:
        """Let the target receive the next letter of a leader, which may have failed since."""
        leader = self.random.choice([self.leader, *self.former[-2:]])
        if leader.sent:
            letter = leader.sent.popleft()
            leader.answers.append((letter, self.target.receive(letter)))

    def answer(self) -> None:
        if self.leader.answers:
            self.answered(*self.leader.answers.pop(0))

    def answered(self, letter: Letter, code: int) -> None:
        if self.leader.letters.answered(letter, code, self.now):
            self.leader.written.append(letter)

    def lose_connection(self) -> None:
        """Lose letters and answers on their way.  What the target has received is known to it."""
        lost = [letter for letter, _ in self.leader.answers] + [*self.leader.sent]
        self.leader.answers.clear()
        self.leader.sent.clear()
        for letter in lost:
            self.answered(letter, UNANSWERED)

    def wait(self) -> None:
        self.now += 10_000


def explore() -> None:
    for seed in SEEDS:
        try:
            World(seed).run()
        except AssertionError as found:
            raise AssertionError(f"seed {seed}: {found}") from found


def lost(self: Letters, key: object) -> None:
    raise AssertionError(f"the target refuses {key} for ever, although it has lost nothing")


def test_each_dead_record_gets_one_letter() -> None:
    """
    Whatever fails.  And no letter ever has to be assigned again, because no letter overtakes the one before it.
    """
    with patch.object(Letters, "_target_lost", lost):
        explore()


@contextmanager
def six_letters_in_flight() -> Iterator[None]:
    with patch.object(module, "UNMARKED_MAX", 6):
        yield


@contextmanager
def two_first_letters() -> Iterator[None]:
    """Send later letters of a producer id before the first one is answered."""
    to_send = Letters.to_send

    def eager(self: Any, now: int, letters_max: int) -> list[Letter]:
        for lane in self._lanes.values():
            lane.is_known = True
        return to_send(self, now, letters_max)

    with patch.object(Letters, "to_send", eager):
        yield


@contextmanager
def sends_before_the_assignment_commits() -> Iterator[None]:
    assign = Letters.assign

    def eager(self: Any, offset: int, target: Target) -> Letter:
        letter = assign(self, offset, target)
        self._lanes[module.lane_of(letter)].letters[letter.sequence] = letter
        return letter

    def assigned(self: Any, letters: list[Letter]) -> None:
        pass

    with patch.object(Letters, "assign", eager), patch.object(Letters, "assigned", assigned):
        yield


@contextmanager
def marks_letters_without_an_answer() -> Iterator[None]:
    answered = Letters.answered

    def lax(self: Any, letter: Letter, code: int, now: int) -> bool:
        return answered(self, letter, errors.NONE if code == UNANSWERED else code, now)

    with patch.object(Letters, "answered", lax):
        yield


@contextmanager
def the_next_leader_assigns_all_letters_again() -> Iterator[None]:
    begin = Letters.__init__

    def forgetful(self: Any, share: Share) -> None:
        begin(self, share)
        for key in [*self._lanes]:
            self._assign_again(key)

    with patch.object(Letters, "__init__", forgetful):
        yield


@contextmanager
def forgets_that_letters_are_being_assigned() -> Iterator[None]:
    assign = Letters.assign

    def forgetful(self: Any, offset: int, target: Target) -> Letter:
        letter = assign(self, offset, target)
        if not offset % 4:
            self._next_sequences[target] = letter.sequence  # the next letter has the same one
        return letter

    with patch.object(Letters, "assign", forgetful):
        yield


@pytest.mark.parametrize(
    "planted",
    [
        six_letters_in_flight,
        two_first_letters,
        sends_before_the_assignment_commits,
        marks_letters_without_an_answer,
        the_next_leader_assigns_all_letters_again,
        forgets_that_letters_are_being_assigned,
    ],
)
def test_the_model_finds_planted_bugs(planted: Any) -> None:
    bug: AbstractContextManager[None] = planted()
    with bug, patch.object(Letters, "_target_lost", lost), pytest.raises(AssertionError):
        explore()
