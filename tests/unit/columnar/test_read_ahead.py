"""The bounded queue between threads that read and the caller."""

from collections.abc import Callable, Iterator
from threading import Condition, Event, Thread

import pyarrow as pa
import pytest

from tidemill.columnar import read_ahead
from tidemill.columnar.read_ahead import ReadAhead

ROWS = pa.record_batch({"offset": pa.array([1, 2], pa.int64())})


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Return an event that is set when a thread other than the main thread waits."""
    event = Event()

    class Watched(Condition):
        def wait(self, timeout: float | None = None) -> bool:
            event.set()
            return super().wait(timeout)

    monkeypatch.setattr(read_ahead, "Condition", Watched)
    return event


@pytest.fixture
def run() -> Iterator[Callable[[Callable[[], object]], Thread]]:
    """`run(function)` calls a function on a thread, which must have ended when the test ends."""
    threads = []

    def start(function: Callable[[], object]) -> Thread:
        threads.append(Thread(target=function, daemon=True))
        threads[-1].start()
        return threads[-1]

    yield start
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_a_thread_waits_while_there_is_no_room(blocked: Event, run: Callable[[Callable[[], object]], Thread]) -> None:
    """
    With room for one record batch, a thread waits before it adds the second one, until the first one is taken.
    """
    ahead = ReadAhead(ROWS.nbytes, producers=1)
    run(lambda: [ahead.put(ROWS), ahead.put(ROWS), ahead.producer_done()])

    assert blocked.wait(10)
    assert ROWS.nbytes == ahead.bytes
    assert [ROWS, ROWS, None] == [ahead.take(), ahead.take(), ahead.take()]


def test_a_record_batch_that_is_larger_than_the_bound_is_taken_alone() -> None:
    """
    A single record batch is accepted whatever its size, so that no read can stall.
    """
    ahead = ReadAhead(1, producers=1)

    assert ahead.put(ROWS)
    assert ROWS == ahead.take()


def test_closing_lets_a_waiting_thread_end(blocked: Event, run: Callable[[Callable[[], object]], Thread]) -> None:
    """
    When the queue is closed, a thread that waits for room continues without adding its rows, and the queued rows are
    dropped.
    """
    ahead = ReadAhead(1, producers=1)
    wanted = []
    thread = run(lambda: wanted.extend([ahead.put(ROWS), ahead.put(ROWS)]))
    assert blocked.wait(10)

    ahead.close()
    thread.join(10)

    assert ([True, False], 0, None) == (wanted, ahead.bytes, ahead.take())


def test_the_end_comes_when_every_thread_is_done() -> None:
    """
    `take` returns None only after every thread has reported that it will add no more rows.
    """
    ahead = ReadAhead(100, producers=2)
    ahead.producer_done()
    ahead.put(ROWS)
    ahead.producer_done()

    assert [ROWS, None] == [ahead.take(), ahead.take()]


def test_the_first_failure_is_raised_before_further_rows() -> None:
    """
    After a thread has reported a failure, `take` raises it immediately, even if rows are waiting.
    """
    ahead = ReadAhead(100, producers=2)
    ahead.put(ROWS)
    ahead.producer_done(LookupError("first"))
    ahead.producer_done(LookupError("second"))

    with pytest.raises(LookupError, match="first"):
        ahead.take()
