"""Dead letters on simulated brokers: one for each dead record, whatever fails.

`tests/unit/share/test_letters_model.py` has the planted bugs that need a target with exact memory.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any
from unittest.mock import patch

import pytest

from tests.simulation.cluster.letter_run import eventful_letter_run, interrupted_run, letter_run, refuse_lost_letters
from tests.simulation.cluster.share_run import with_share_settings
from tests.simulation.cluster.share_seeds import EVENTFUL_LETTER, INTERRUPTED_LETTER, LETTER, LOTS
from tests.simulation.planted_bugs import find_planted_bug
from tidemill.batches.builder import build_batch
from tidemill.broker.shares import letter_reader
from tidemill.broker.shares.letter_writer import LetterWriter
from tidemill.model import dead_letters as names
from tidemill.model import errors
from tidemill.share import dead_letter, letters
from tidemill.share.letters import Letters
from tidemill.share.record_status import Reason, RecordState
from tidemill.share.share import Share
from tidemill.share.share_row import AssignLetters

MUTANT_SEEDS = range(40)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("lot", range(LOTS))
def test_each_dead_record_has_one_letter(lot: int, explored: list[str], met: Counter[str]) -> None:
    """
    A record that was rejected, or was delivered too often, has one letter in the right partition, which gives the
    cause, and no other record has one.  No target refuses a letter for ever.
    """
    seeds, eventful_seeds, interrupted_seeds = (it[lot::LOTS] for it in (LETTER, EVENTFUL_LETTER, INTERRUPTED_LETTER))
    count = 0
    causes: Counter[str] = Counter()

    with with_share_settings(), refuse_lost_letters():
        for run in chain(
            map(letter_run, seeds),
            map(eventful_letter_run, eventful_seeds),
            map(interrupted_run, interrupted_seeds),
        ):
            run.run()
            count += run.letter_count
            causes += run.causes

    assert count > len(seeds)
    met.update(causes)
    met["lots of dead letters"] += 1
    explored.append(
        f"Dead letters, lot {lot}: {len(seeds)}, {len(eventful_seeds)} and {len(interrupted_seeds)} seeds, "
        f"{count} letters, {dict(causes)}"
    )


def test_a_letter_is_written_although_clocks_differ() -> None:
    """With seed 83, the clock of a leader was so far ahead that the target refused the timestamps of its letters."""
    with with_share_settings(), refuse_lost_letters():
        letter_run(83).run()


def test_a_letter_whose_record_was_removed_leaves_a_gap() -> None:
    """
    With seed 172, records are removed before their letters are assigned, so two sequences are never sent.  The target
    refuses the letters behind them, which get another producer id.
    """
    with with_share_settings(), refuse_lost_letters():
        letter_run(172).run()


@contextmanager
def sends_before_the_assignment_commits() -> Iterator[None]:
    def eager(self: Any, it: Any, assigned: Any) -> None:
        proposals = self._proposals(it.led.partition)
        if not assigned or proposals is None:
            return
        proposals.add(
            AssignLetters(it.led.partition.number, it.led.share.number, tuple(assigned)), lambda is_committed: None
        )
        for letter in assigned:
            it.letters._lanes[letters.lane_of(letter)].letters[letter.sequence] = letter
        self._schedule(it)

    with patch.object(LetterWriter, "_propose", eager):
        yield


@contextmanager
def sends_without_a_sequence() -> Iterator[None]:
    with patch.object(letter_reader, "letter_batch", lambda record, letter: build_batch([record])):
        yield


@contextmanager
def the_start_passes_dead_records() -> Iterator[None]:
    def advance(self: Any) -> None:
        for run in self.runs:
            if run.first != self.start or not (run.value.is_finished or run.value.state == RecordState.ARCHIVING):
                break
            self.start = run.end
        self.runs.drop_below(self.start)

    with patch.object(Share, "_advance", advance):
        yield


@contextmanager
def marks_letters_without_an_answer() -> Iterator[None]:
    """Treat a letter whose outcome is unknown as written."""
    answered = Letters.answered

    def lax(self: Any, letter: Any, error_code: int, now: int) -> bool:
        code = errors.NONE if error_code in (letters.UNANSWERED, errors.REQUEST_TIMED_OUT) else error_code
        return answered(self, letter, code, now)

    with patch.object(Letters, "answered", lax):
        yield


@contextmanager
def the_next_leader_assigns_all_letters_again() -> Iterator[None]:
    begin = Letters.__init__

    def forgetful(self: Any, share: Any, **options: Any) -> None:
        begin(self, share, **options)
        for key in [*self._lanes]:
            self._assign_again(key)

    with patch.object(Letters, "__init__", forgetful):
        yield


@contextmanager
def letters_give_the_wrong_cause() -> Iterator[None]:
    """Give the cause of rejected records in the letters of records that were delivered too often."""
    with patch.dict(dead_letter._MESSAGES, {Reason.DELIVERY_LIMIT: names.REJECTED}):  # type: ignore[arg-type]
        yield


@pytest.mark.parametrize(
    ("planted", "first_seed"),
    [
        (letters_give_the_wrong_cause, 0),
        (sends_before_the_assignment_commits, 5),
        (sends_without_a_sequence, 1),
        (the_start_passes_dead_records, 0),
        (marks_letters_without_an_answer, 7),
        (the_next_leader_assigns_all_letters_again, 1),
    ],
)
def test_a_planted_bug_is_found(planted: Any, first_seed: int, explored: list[str]) -> None:
    """
    The simulation detects each planted bug with one of the first seeds.  `first_seed` is tried first, to save time: it
    has found the bug before.
    """

    def run(seed: int) -> None:
        with with_share_settings(), refuse_lost_letters():
            interrupted_run(seed).run()

    name = f"Dead letters, {planted.__name__}"
    explored.append(find_planted_bug(name, planted, run, (first_seed, *MUTANT_SEEDS)))
