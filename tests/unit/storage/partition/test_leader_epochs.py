"""Leader epochs, compared with a simple list of (offset, epoch)."""

from hypothesis import given
from hypothesis import strategies as st

from tidemill.storage.partition.leader_epochs import LeaderEpochs, meeting_offset

LIVES = st.lists(
    st.one_of(
        st.tuples(st.just("epoch"), st.integers(1, 3)),
        st.tuples(st.just("append"), st.integers(1, 4)),
        st.tuples(st.just("truncate"), st.integers(0, 6)),
        st.tuples(st.just("advance"), st.integers(0, 6)),
    ),
    max_size=25,
)


class Naive:
    """The model: one row per offset."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int]] = []  # (offset, epoch, log index)
        self.log_start = 0

    @property
    def end_offset(self) -> int:
        return self.rows[-1][0] + 1 if self.rows else self.log_start


@given(LIVES)
def test_every_offset_has_the_epoch_that_wrote_it(life: list[tuple[str, int]]) -> None:
    """Each offset keeps its epoch through appends, truncations and moves of the log start."""
    naive, epochs = Naive(), LeaderEpochs()
    epoch, log_index, end = 0, 0, 0
    for what, number in life:
        if what == "epoch":
            epoch += number
            log_index += 1
            epochs.begin(epoch, end, log_index)
        elif what == "append" and epoch:
            for _ in range(number):
                log_index += 1
                naive.rows.append((end, epoch, log_index))
                end += 1
        elif what == "truncate":
            kept = [row for row in naive.rows if row[2] <= log_index - number]
            if any(row[0] < naive.log_start and row[2] > log_index - number for row in naive.rows):
                continue  # trimmed records are committed and cannot be truncated
            log_index = max(log_index - number, 0)
            naive.rows = kept
            end = kept[-1][0] + 1 if kept else naive.log_start
            epochs.truncate(log_index + 1)
            epoch = max(epochs.latest, 0)
        elif what == "advance" and epoch:
            naive.log_start = min(naive.log_start + number, end)
            epochs.advance(naive.log_start)

        starts = epochs.starts
        assert starts == sorted(starts)
        assert len(starts) == len({start.start_offset for start in starts})
        for offset, wrote, _ in naive.rows:
            if offset >= naive.log_start:
                assert wrote == epochs.span_at(offset)[0]


def test_an_end_offset_is_where_the_next_epoch_begins() -> None:
    """The end offset of an epoch is the start of the next one; a reader of an older epoch truncates to it (KIP-101)."""
    epochs = LeaderEpochs()
    for epoch, start, index in ((2, 0, 1), (4, 10, 12), (7, 30, 35)):
        epochs.begin(epoch, start, index)

    answers = [epochs.end_offset(epoch, 50) for epoch in (1, 2, 3, 4, 6, 7, 8, -1)]

    assert [(1, 0), (2, 10), (2, 10), (4, 30), (4, 30), (7, 50), (-1, -1), (-1, -1)] == answers


def test_of_epochs_with_one_start_offset_the_newest_is_kept() -> None:
    """
    If several epochs have the same start offset, only the newest is kept, because the others wrote no records to this
    partition.
    """
    epochs = LeaderEpochs()
    epochs.begin(1, 0, 1)
    epochs.begin(2, 0, 2)
    epochs.begin(3, 0, 3)

    assert [3] == [start.epoch for start in epochs.starts]


def test_the_epoch_that_covers_the_log_start_moves_up_to_it() -> None:
    """The epoch that covers the log start begins there; earlier epochs have no offsets left."""
    epochs = LeaderEpochs()
    epochs.begin(1, 0, 1)
    epochs.begin(2, 10, 12)

    epochs.advance(15)

    assert [(2, 15, 12)] == epochs.starts


def test_a_table_is_never_changed_in_place() -> None:
    """A table is never changed in place, because reader threads use it without a lock."""
    epochs = LeaderEpochs()
    epochs.begin(1, 0, 1)
    held = epochs.starts
    epochs.begin(2, 0, 2)
    epochs.truncate(1)

    assert [(1, 0, 1)] == held


@given(
    st.lists(st.integers(1, 3), max_size=8),
    st.lists(st.integers(0, 1), max_size=4),
    st.lists(st.integers(0, 1), max_size=4),
    st.integers(0, 6),
)
def test_two_logs_meet_where_they_begin_to_differ(
    shared: list[int], ours: list[int], theirs: list[int], log_start: int
) -> None:
    """
    The meeting offset of two logs is the offset from which they differ.  After the part that both share, one log has
    even epochs, and the other has odd ones.
    """
    past = sorted(shared)
    left = past + [10 + 2 * sum(ours[: at + 1]) for at in range(len(ours))]
    right = past + [11 + 2 * sum(theirs[: at + 1]) for at in range(len(theirs))]

    found = meeting_offset(_starts(left, 0), len(left), _starts(right, log_start), len(right))

    assert (len(past) if log_start < len(past) else None) == found


def _starts(log: list[int], log_start: int) -> list[tuple[int, int]]:
    """Return (epoch, start offset) of each epoch with offsets at or above the log start."""
    return [
        (epoch, at) for at, epoch in enumerate(log) if at >= log_start and (at == log_start or log[at - 1] != epoch)
    ]
