"""Plants bugs in the part of share groups that only a leader executes; a test of this folder must find each of them."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from tests.unit.share import (
    test_acquisition,
    test_leases,
    test_limits,
    test_partition_shares,
    test_redelivery,
    test_share,
    test_share_session,
    test_share_waiters,
)
from tidemill.batches.batch import BatchHeader
from tidemill.share import acquisition, leases
from tidemill.share.acknowledgement import AcknowledgedRange, Acknowledgement
from tidemill.share.availability import Availability
from tidemill.share.claim import Claim, Decided, Held
from tidemill.share.leases import Leases
from tidemill.share.partition_shares import PartitionShares
from tidemill.share.record_status import RecordState, RecordStatus, Run
from tidemill.share.share_row import OpenShare
from tidemill.share.share_session import ShareSession, ShareSessions
from tidemill.share.share_settings import ShareSettings
from tidemill.share.share_waiters import ShareWaiters


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    planted: Callable[[], AbstractContextManager[object]]
    check: Callable[[], object]  # a test that finds the bug


def gap_archives_data() -> AbstractContextManager[object]:
    correct = leases.after_acknowledgement

    def archive(kind: int, delivery_count: int, settings: ShareSettings, **release: int) -> RecordStatus:
        if kind == Acknowledgement.GAP:
            return RecordStatus(RecordState.ARCHIVED, delivery_count)
        return correct(kind, delivery_count, settings, **release)

    return patch.object(leases, "after_acknowledgement", archive)


def room_by(used: Callable[[Any], int]) -> AbstractContextManager[object]:
    """Patch the limit on locks so that `used` computes how much of it is used up."""
    return patch.object(Leases, "lock_room", property(lambda self: self.settings.locks_max - used(self)))


def window_counts_as_lock() -> AbstractContextManager[object]:
    return room_by(lambda self: self._window_end - self._share.start)


def delayed_counts_as_lock() -> AbstractContextManager[object]:
    return room_by(
        lambda self: self.held_count + sum(run.end - run.first for run in self._share.runs if run.value.release_at)
    )


def acknowledges_what_others_hold() -> AbstractContextManager[object]:
    acknowledge = Leases.acknowledge

    def lax(self: Leases, member: str, ranges: Any, **times: int) -> list[Run]:
        return [
            run
            for first, end, held, kind in [*self._claims.meet(ranges)]
            if isinstance(held, Held)
            for run in acknowledge(self, held.member, [AcknowledgedRange(first, end, kind)], **times)
        ]

    return patch.object(Leases, "acknowledge", lax)


def acknowledges_range_by_range() -> AbstractContextManager[object]:
    whole = Leases.acknowledge

    def partly(self: Leases, member: str, ranges: Any, **times: int) -> list[Run]:
        return [run for one in ranges for run in whole(self, member, [one], **times)]

    return patch.object(Leases, "acknowledge", partly)


def expires_at_the_deadline_before_the_renewal() -> AbstractContextManager[object]:
    renew = Leases._hold

    def keep_deadline(self: Any, member: str, acquired: Any, now: int, lock_ms: int | None) -> None:
        for one in acquired:
            held = self._claims.get(one.first)
            is_renewed = isinstance(held, Held) and held.member == member
            renew(self, member, [one], held.deadline - self.settings.lock_ms if is_renewed else now)

    return patch.object(Leases, "_hold", keep_deadline)


def undo_counts() -> AbstractContextManager[object]:
    def count(self: Any, acquired: Any) -> None:
        for first, end, _ in acquired:
            for held in list(self._claims.within(first, end)):
                self._return(held, held.value, 0)

    return patch.object(Leases, "undo", count)


def end_of_session_lowers_the_count() -> AbstractContextManager[object]:
    """Kafka before 4.2 had this bug (KAFKA-19972)."""

    def lower(self: Any, member: str) -> list[Run]:
        held = [one for one in self._claims if isinstance(one.value, Held) and one.value.member == member]
        self.undo([(one.first, one.end, one.value.delivery_count) for one in held])
        return []

    return patch.object(Leases, "leave", lower)


def commit_is_recognized_by_the_count_alone() -> AbstractContextManager[object]:
    def is_replaced(claim: Claim | None, status: RecordStatus) -> bool:
        return isinstance(claim, Decided) and claim.status.delivery_count == status.delivery_count

    return patch.object(leases, "is_replaced_by", is_replaced)


def nothing_is_throttled() -> AbstractContextManager[object]:
    return patch.object(ShareSettings, "records_at_once", lambda self, delivery_count, batch_size: None)


def acquires_beyond_the_bytes() -> AbstractContextManager[object]:
    within = Leases.acquire

    def beyond(self: Leases, member: str, batches: Any, **options: Any) -> Any:
        batches = list(batches)
        return within(self, member, [*batches, (batches[-1][1], batches[-1][1] + 5)], **options)

    return patch.object(Leases, "acquire", beyond)


def control_batches_are_data() -> AbstractContextManager[object]:
    return patch.object(BatchHeader, "is_control", False)


def aborted_batches_are_data() -> AbstractContextManager[object]:
    return patch.object(acquisition, "_is_aborted", lambda header, aborted: False)


def empty_batches_are_sent() -> AbstractContextManager[object]:
    return patch.object(acquisition, "_with_records_of", lambda batches, acquired: batches)


def old_connection_closes_a_newer_session() -> AbstractContextManager[object]:
    return patch.object(ShareSessions, "_unbind", lambda self, session: None)


def partitions_rotate_by_the_epoch() -> AbstractContextManager[object]:
    """
    Begin each fetch at the partition with the number of the epoch, as Kafka does.  `ShareSession.rotated` explains what
    is wrong with this.
    """

    def rotated(self: ShareSession) -> list[Any]:
        at = self.epoch % len(self.wanted) if self.wanted else 0
        return list(self.wanted)[at:] + list(self.wanted)[:at]

    return patch.object(ShareSession, "rotated", rotated)


def replaced_session_is_forgotten() -> AbstractContextManager[object]:
    begin = ShareSessions._open

    def forget(self: Any, session: ShareSession, wanted: Any) -> ShareSession:
        opened = begin(self, session, wanted)
        opened.used = dict(opened.wanted)
        return opened

    return patch.object(ShareSessions, "_open", forget)


@contextmanager
def wake_is_lost_with_its_fetch() -> Iterator[None]:
    def leave(self: Any, name: str) -> list[str]:
        fetch = self._fetches[name]
        if fetch.is_evaluated:
            self._end_evaluation(fetch, ())
        self._remove(fetch)
        return self._next()  # type: ignore[no-any-return]

    with patch.object(ShareWaiters, "leave", leave):
        yield


@contextmanager
def shares_of_a_gone_fetch_stay_taken() -> Iterator[None]:
    def leave(self: Any, name: str) -> list[str]:
        self._remove(self._fetches[name])
        return self._next()  # type: ignore[no-any-return]

    with patch.object(ShareWaiters, "leave", leave):
        yield


@contextmanager
def wake_during_a_read_is_lost() -> Iterator[None]:
    wake = ShareWaiters.wake

    def deaf(self: Any, share: str) -> list[str]:
        return [] if share in self._taken else wake(self, share)

    with patch.object(ShareWaiters, "wake", deaf):
        yield


def random_waiters() -> None:
    for seed in range(50):
        test_share_waiters.check_waiters(seed)


def start_passes_dead_records() -> AbstractContextManager[object]:
    finished = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVING, RecordState.ARCHIVED)
    return patch.object(RecordStatus, "is_finished", property(lambda self: self.state in finished))


def delay_by_the_clock_of_the_moment() -> AbstractContextManager[object]:
    def back_off(self: Any, held: Held, wall: int) -> int:
        return int(wall + self.settings.back_off.delay_ms(held.delivery_count, self._random))

    return patch.object(Leases, "_back_off", back_off)


def tracks_without_a_limit() -> AbstractContextManager[object]:
    return patch.object(Availability, "is_tracking_full", False)


def older_incarnation_replaces() -> AbstractContextManager[object]:
    opened = PartitionShares._open

    def replace(self: Any, section: OpenShare) -> None:
        if (old := self.of_group(section.group)) is not None:
            self._remove(old)
        opened(self, section)

    return patch.object(PartitionShares, "_open", replace)


def share_number_is_reused() -> AbstractContextManager[object]:
    """Give a new share the lowest number that no share has."""
    opened = PartitionShares._open

    def reuse(self: Any, section: OpenShare) -> None:
        number, old = self.next_number, self.of_group(section.group)
        opened(self, section)
        new = self.of_group(section.group)
        if new is not old:
            del self.by_number[new.number]
            new.number = next(it for it in range(1, number + 1) if it not in self.by_number)
            self.by_number[new.number] = new

    return patch.object(PartitionShares, "_open", reuse)


def a_clock_set_back() -> None:
    test_redelivery.test_a_step_of_the_clock_shortens_no_delay_and_no_lock(-3_600_000)


LEASES, SESSIONS, ACQUISITION = test_leases, test_share_session, test_acquisition
MUTANTS = [
    Mutant("GAP archives data", gap_archives_data, LEASES.test_a_gap_does_not_destroy_a_record),
    Mutant("cap by window", window_counts_as_lock, LEASES.test_the_limit_of_locks_divides_a_batch),
    Mutant("delayed run counts as lock", delayed_counts_as_lock, LEASES.test_a_delayed_record_lets_others_pass),
    Mutant(
        "another member's acknowledgement is accepted",
        acknowledges_what_others_hold,
        LEASES.test_acknowledgements_are_refused_as_a_whole,
    ),
    Mutant(
        "acknowledgements are applied in part",
        acknowledges_range_by_range,
        LEASES.test_acknowledgements_of_several_batches_are_refused_as_a_whole,
    ),
    Mutant(
        "expire at the deadline before the renewal",
        expires_at_the_deadline_before_the_renewal,
        LEASES.test_a_renewed_lock_expires_later,
    ),
    Mutant("undo counts", undo_counts, LEASES.test_a_delivery_that_never_left_is_not_counted),
    Mutant(
        "end of session lowers the count",
        end_of_session_lowers_the_count,
        LEASES.test_sessions_that_end_reach_the_delivery_limit,
    ),
    Mutant(
        "commit recognized by the count",
        commit_is_recognized_by_the_count_alone,
        LEASES.test_an_archived_offset_is_not_freed_by_an_earlier_decision,
    ),
    Mutant(
        "start passes ARCHIVING",
        start_passes_dead_records,
        test_share.test_a_record_whose_letter_is_not_written_holds_the_start,
    ),
    Mutant(
        "older incarnation replaces",
        older_incarnation_replaces,
        test_partition_shares.test_a_newer_incarnation_replaces_the_share,
    ),
    Mutant(
        "share number reused",
        share_number_is_reused,
        test_partition_shares.test_a_row_for_a_replaced_share_is_ignored,
    ),
    Mutant("release time by the clock of the moment", delay_by_the_clock_of_the_moment, a_clock_set_back),
    Mutant(
        "no limit on runs",
        tracks_without_a_limit,
        test_limits.test_nothing_behind_the_last_run_is_acquired_at_the_limit_of_runs,
    ),
    Mutant("no throttle", nothing_is_throttled, LEASES.test_a_record_that_kills_its_consumers_ends_alone),
    Mutant("acquires beyond the bytes", acquires_beyond_the_bytes, ACQUISITION.test_only_records_in_hand_are_acquired),
    Mutant(
        "control batches are data",
        control_batches_are_data,
        lambda: ACQUISITION.test_offsets_without_data_are_archived_and_never_listed("control"),
    ),
    Mutant(
        "aborted batches are data",
        aborted_batches_are_data,
        lambda: ACQUISITION.test_offsets_without_data_are_archived_and_never_listed("aborted"),
    ),
    Mutant(
        "useless batches are sent",
        empty_batches_are_sent,
        ACQUISITION.test_batches_without_acquired_records_are_cut_out,
    ),
    Mutant(
        "old disconnect closes the new session",
        old_connection_closes_a_newer_session,
        SESSIONS.test_an_old_connection_does_not_close_a_newer_session,
    ),
    Mutant(
        "replaced session is forgotten",
        replaced_session_is_forgotten,
        SESSIONS.test_an_old_connection_does_not_close_a_newer_session,
    ),
    Mutant("rotation by epoch", partitions_rotate_by_the_epoch, SESSIONS.test_each_fetch_begins_at_another_partition),
    Mutant("wake lost with its fetch", wake_is_lost_with_its_fetch, random_waiters),
    Mutant("taken shares are never free again", shares_of_a_gone_fetch_stay_taken, random_waiters),
    Mutant("wake during a read is lost", wake_during_a_read_is_lost, random_waiters),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    """The test that is listed for a bug passes without the bug, and fails with it."""
    mutant.check()

    with mutant.planted(), pytest.raises((AssertionError, pytest.fail.Exception)):
        mutant.check()
