"""Producer states, compared with a model that keeps every batch of the log."""

from hypothesis import given
from hypothesis import strategies as st

from tidemill.model import errors
from tidemill.storage.partition.producer_states import (
    PRODUCERS_KEPT,
    SEQUENCE_MODULUS,
    WINDOW_BATCHES,
    Duplicate,
    ProducerBatch,
    ProducerStates,
)

DAY = 86_400_000


def batch(first: int, count: int = 1, *, index: int, epoch: int = 0, at: int = 0) -> ProducerBatch:
    last = (first + count - 1) % SEQUENCE_MODULUS
    return ProducerBatch(epoch, first, last, 10 * index, 10 * index + count, index, at)


def check(states: ProducerStates, first: int, count: int = 1, *, epoch: int = 0) -> int | Duplicate:
    return states.check(7, epoch, first, count)


LIVES = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("bump"), st.integers(1, 3)),
        st.tuples(st.just("truncate"), st.integers(1, 6)),
        st.tuples(st.just("commit"), st.integers(0, 8)),
    ),
    max_size=40,
)


@given(LIVES, st.sampled_from([0, SEQUENCE_MODULUS - 4]))
def test_the_window_is_what_the_log_says(life: list[tuple[str, int]], first: int) -> None:
    """After any truncation, the newest batches are known, and retries of the last five batches are recognized."""
    states, log, committed, index, epoch = ProducerStates(), [], 0, 0, 0
    for what, number in life:
        if what in ("append", "bump"):
            if what == "bump":
                epoch += 1
            newest = log[-1] if log else None
            if newest is None:
                start = first
            else:
                start = 0 if newest.epoch != epoch else (newest.last_sequence + 1) % SEQUENCE_MODULUS
            index += 1
            assert errors.NONE == check(states, start, number, epoch=epoch)
            log.append(batch(start, number, index=index, epoch=epoch))
            states.append(7, log[-1], committed)
        elif what == "truncate":
            index = max(index - number, committed)
            log = [it for it in log if it.log_index <= index]
            states.truncate(index + 1)
            epoch = log[-1].epoch if log else epoch
        else:
            committed = min(index, committed + number)

        for it in log[-WINDOW_BATCHES:]:
            if it.epoch == log[-1].epoch:
                count = it.end_offset - it.base_offset
                told = check(states, it.first_sequence, count, epoch=it.epoch)
                assert Duplicate(it.base_offset, it.log_index, 0) == told
        saved = states.saved(committed, log[-1].log_index if log else 0).get(7, ())
        after = sum(it.log_index > committed for it in log)
        assert tuple(log[-(WINDOW_BATCHES + after) :]) == saved


def test_sequences_wrap_around() -> None:
    """Sequence numbers wrap around: 2^31 - 1 is followed by 0, even within a batch."""
    states = ProducerStates()
    states.append(7, batch(SEQUENCE_MODULUS - 2, 4, index=1), 1)

    assert errors.NONE == check(states, 2)
    assert Duplicate(10, 1, 0) == check(states, SEQUENCE_MODULUS - 2, 4)


def test_another_batch_with_the_same_first_sequence_is_no_retry() -> None:
    """
    Another batch with the same first sequence is not a retry; if it were treated as one, its records would be lost.
    """
    states = ProducerStates()
    states.append(7, batch(0, 3, index=1), 1)

    assert errors.OUT_OF_ORDER_SEQUENCE_NUMBER == check(states, 0, 2)


def test_producers_expire_by_append_time() -> None:
    """The expiry of producers depends only on append times, never on a clock."""
    states = ProducerStates()
    states.append(7, batch(0, index=1, at=5), 1)
    for number in range(PRODUCERS_KEPT):
        states.append(100 + number, batch(0, index=2 + number, at=DAY), 1)

    states.expire(committed_index=1 + PRODUCERS_KEPT, before_ms=5)
    assert 7 in states
    assert errors.OUT_OF_ORDER_SEQUENCE_NUMBER == check(states, 17)
    states.expire(committed_index=1 + PRODUCERS_KEPT, before_ms=6)
    assert 7 not in states
    assert errors.NONE == check(states, 17)


def test_the_newest_producers_stay_when_a_clock_jumps() -> None:
    """
    The newest producers are kept when a clock jumps: after a jump of several days, a client may still retry a batch
    that it sent a second earlier.
    """
    states = ProducerStates()
    written = [*range(PRODUCERS_KEPT + 3)]
    for number in reversed(written):
        states.append(number, batch(0, index=1_000 - number), 1)

    states.expire(committed_index=1_000, before_ms=29 * DAY)

    assert sorted(states.newest()) == written[:PRODUCERS_KEPT]


def remembered(states: ProducerStates, committed: int, before_ms: int) -> dict[int, ProducerBatch]:
    silent = states.silent(committed, before_ms)
    return {producer_id: it for producer_id, it in states.newest().items() if producer_id not in silent}


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(0, PRODUCERS_KEPT + 5)),
            st.tuples(st.just("silence"), st.integers(1, DAY)),
            st.tuples(st.just("commit"), st.integers(0, 100)),
            st.tuples(st.just("truncate"), st.integers(1, 100)),
        ),
        max_size=40,
    ),
    st.lists(st.booleans(), min_size=40, max_size=40),
)
def test_replicas_agree_on_expired_producers(life: list[tuple[str, int]], forgets: list[bool]) -> None:
    """No producer expires because of an entry that is later truncated, and an expired producer stays expired."""
    early, late = ProducerStates(), ProducerStates()
    log: list[tuple[int, ProducerBatch]] = []
    committed = 0
    now_ms = DAY

    def append(producer_id: int) -> None:
        it = batch(0, index=len(log) + 1, at=now_ms)
        log.append((producer_id, it))
        for states in (early, late):
            states.append(producer_id, it, committed)

    for producer_id in range(PRODUCERS_KEPT + 5):
        append(producer_id)
    for (what, number), is_forgotten in zip(life, forgets, strict=False):
        if what == "append":
            append(number)
        elif what == "silence":
            now_ms += number
        elif what == "commit":
            committed = min(len(log), committed + number)
        else:
            del log[max(committed, len(log) - number) :]
            now_ms = log[-1][1].append_time if log else now_ms
            for states in (early, late):
                states.truncate(len(log) + 1)
        before_ms = (log[committed - 1][1].append_time if committed else 0) - DAY
        if is_forgotten:
            early.expire(committed, before_ms)

        newest = dict(log)
        fresh = {producer_id: it for producer_id, it in newest.items() if it.append_time >= before_ms}
        assert remembered(early, committed, before_ms) == remembered(late, committed, before_ms)
        assert fresh.items() <= early.newest().items()


def test_saved_states_are_loaded() -> None:
    """A loaded state behaves like the one that was saved."""
    states, again = ProducerStates(), ProducerStates()
    for number in range(8):
        states.append(7, batch(number, index=number + 1), 8)

    again.load(states.saved(8, 8))

    assert states.newest() == again.newest()
    assert errors.NONE == check(again, 8)
    assert isinstance(check(again, 3), Duplicate)
    assert errors.OUT_OF_ORDER_SEQUENCE_NUMBER == check(again, 2)
