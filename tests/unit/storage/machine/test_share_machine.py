"""The shard state machine of share groups: commands, sections, and data from a newer version."""

from struct import error

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.share.random_sections import PARTITIONS, SECTIONS
from tests.unit.share.runs import run
from tidemill.raft.entry import COMMAND, Entry, log_start
from tidemill.share.record_status import Reason, RecordState
from tidemill.share.share_row import AssignLetters, Letter, OpenShare, SetRuns, encode_row
from tidemill.storage.machine.shard_machine import UnknownCommand
from tidemill.storage.machine.share_machine import ShareMachine, decode_shares, encode_shares

LOG_STARTS = st.builds(lambda partition, offset: log_start(partition, offset, 0), st.integers(0, 1), st.integers(0, 60))
ROWS = st.builds(lambda sections: Entry(COMMAND, encode_row(sections)), st.lists(SECTIONS, min_size=1, max_size=5))
COMMANDS = st.lists(ROWS | LOG_STARTS, max_size=25)


def machine() -> ShareMachine:
    return ShareMachine(dict.fromkeys(range(PARTITIONS)))  # type: ignore[arg-type]  # the files are not used


def applied(commands: list[Entry], to: ShareMachine | None = None) -> ShareMachine:
    one = to or machine()
    for command in commands:
        one.committed(command)
    return one


@given(COMMANDS, COMMANDS)
def test_a_snapshot_and_the_rest_give_what_all_commands_give(before: list[Entry], after: list[Entry]) -> None:
    """
    A replica that loads a section and then applies the later commands has the same state as one that applied all
    commands.
    """
    saved = applied(before).save(0, 0)
    loaded = machine()
    loaded.load({number: decode_shares(data) for number, data in saved.items()})

    whole = applied(before + after)
    resumed = applied(after, loaded)

    assert whole.shares == resumed.shares
    assert whole.save(0, 0) == resumed.save(0, 0)


@given(COMMANDS)
def test_the_start_is_the_first_record_that_is_not_finished(commands: list[Entry]) -> None:
    """
    Every share starts at its first unfinished record, and each dead letter at or after the start is that of a record in
    state ARCHIVING.
    """
    for shares in applied(commands).shares.values():
        for share in shares.by_number.values():
            assert not share.runs.get(share.start).is_finished
            assert all(run.first >= share.start for run in share.runs)
            dead = {offset for offset in share.letters if offset >= share.start}
            assert all(share.runs.get(offset).state == RecordState.ARCHIVING for offset in dead)


def test_a_partition_without_share_groups_has_no_section() -> None:
    """
    If no share group has read from a shard, its checkpoints have no section for shares, so older versions can read
    them.
    """
    one = applied([log_start(0, 5, 0)])
    assert {} == one.save(0, 0)

    applied([Entry(COMMAND, encode_row([OpenShare(1, "g", 1, 0, 5)]))], one)
    assert [1] == list(one.save(0, 0))


def test_a_command_of_a_newer_version_stops_the_replica() -> None:
    """A SHARE command of a newer version stops the replica with an error that names the entry and says what to do."""
    with pytest.raises(UnknownCommand, match=r"entry 9: a SHARE command has version 2.*run the version that wrote it"):
        machine().committed(Entry(COMMAND, b"\x03\x02", index=9))


def filled() -> bytes:
    """Return a machine section with one share, which contains runs and a dead letter."""
    one = applied(
        [
            Entry(COMMAND, encode_row([OpenShare(0, "group", 1, 0, 5), OpenShare(0, "empty", 1, 0, 5)])),
            Entry(COMMAND, encode_row([SetRuns(0, 1, (run(7, 9, RecordState.ARCHIVING, Reason.REJECTED, 2),))])),
            Entry(COMMAND, encode_row([AssignLetters(0, 1, (Letter(7, 1, 2, b"t" * 16, 0),))])),
            Entry(COMMAND, encode_row([SetRuns(0, 1, (run(20, 21, RecordState.AVAILABLE, Reason.NONE, 1, 77),))])),
        ]
    )
    return encode_shares(one.shares[0])


@pytest.mark.parametrize("end", range(len(filled())))
def test_a_section_that_ends_early_is_corrupt(end: int) -> None:
    """A section that ends early is refused as corrupt; no prefix of a section is accepted."""
    with pytest.raises(error):
        decode_shares(filled()[:end])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda data: data + b"x", "1 B follow"),
        (lambda data: b"\x00\x00\x00\x02" + data[4:], "share numbers"),
        (lambda data: data.replace(b"group", b"gr\xffup"), "not UTF-8"),
        (lambda data: data.replace((7).to_bytes(8) + (20).to_bytes(8), (20).to_bytes(8) + (7).to_bytes(8)), "overlap"),
    ],
    ids=["longer", "numbers", "text", "order"],
)
def test_a_corrupt_section_is_refused(change, problem) -> None:  # type: ignore[no-untyped-def]
    """A section that cannot have been written by Tidemill is refused, and the error gives the reason."""
    assert decode_shares(filled())
    with pytest.raises(error, match=problem):
        decode_shares(change(filled()))
