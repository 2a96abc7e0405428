"""Random sections of SHARE commands, for so few shares and offsets that the sections often affect the same ones."""

from hypothesis import strategies as st

from tests.unit.share.runs import run
from tidemill.share.record_status import Reason, RecordState
from tidemill.share.share_row import AssignLetters, CloseShare, Letter, LettersWritten, OpenShare, SetRuns

PARTITIONS = 2
_partition = st.integers(0, PARTITIONS - 1)
_share = st.integers(1, 4)
_offset = st.integers(0, 60)
_run = st.builds(
    lambda first, length, state, reason, count, release_at: run(
        first, first + length, state, reason, count, release_at
    ),
    _offset,
    st.integers(1, 20),
    st.sampled_from(RecordState),
    st.sampled_from(Reason),
    st.integers(0, 3),
    st.sampled_from([0, 0, 1_000]),
)
_letter = st.builds(Letter, _offset, st.integers(0, 3), st.integers(0, 9), st.just(b"t" * 16), st.integers(0, 2))
CHANGES = st.one_of(  # of the shares that are open
    st.builds(SetRuns, _partition, _share, st.lists(_run, max_size=4).map(tuple)),
    st.builds(AssignLetters, _partition, _share, st.lists(_letter, max_size=4).map(tuple)),
    st.builds(LettersWritten, _partition, _share, st.lists(_offset, max_size=4).map(tuple)),
)
SECTIONS = st.one_of(
    st.builds(
        OpenShare, _partition, st.sampled_from(["a", "b", "größe"]), st.integers(1, 5), st.integers(0, 2), _offset
    ),
    st.builds(CloseShare, _partition, _share, st.integers(1, 5)),
    CHANGES,
)
