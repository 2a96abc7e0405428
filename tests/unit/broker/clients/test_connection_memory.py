"""The memory of all connections together is bounded, and at least one connection can always make progress."""

from tests.unit.broker.broker_world import HandClock
from tidemill.broker.clients.connection_memory import (
    ARRIVAL_MS_MAX,
    RESPONSE_BYTES_MIN,
    RESPONSES_BYTES_MAX,
    UNREAD_MS_MAX,
    ConnectionMemory,
)


class Holder:
    def __init__(self) -> None:
        self.unread_bytes = 0
        self.woken = 0
        self.reason = ""

    def room_again(self) -> None:
        self.woken += 1

    def give_up(self, reason: str) -> None:
        self.reason = reason


def test_at_the_bound_only_the_oldest_arriving_frame_is_received() -> None:
    """
    When incomplete frames fill the memory, only the oldest of them is received further.  Small requests of other
    connections are still received.
    """
    memory = ConnectionMemory(100, HandClock())
    first, second, small = Holder(), Holder(), Holder()

    memory.arriving(first, 60)
    memory.arriving(second, 50)

    assert [True, False, True] == [memory.may_receive(holder) for holder in (first, second, small)]


def test_no_connection_is_read_from_while_appends_fill_the_memory() -> None:
    """
    While appends fill the memory, no connection is read from.  The memory is freed when the appends complete, which
    requires no further reads.
    """
    memory = ConnectionMemory(100, HandClock())
    first = Holder()
    memory.arriving(first, 1)

    memory.begin_work(100)

    assert not memory.may_receive(first)


def test_a_waiting_connection_is_woken_by_each_relevant_change() -> None:
    """
    A waiting connection is woken when an append completes, when a frame is complete, and when a connection is lost.
    """
    memory = ConnectionMemory(100, HandClock())
    first, second = Holder(), Holder()
    changes = (
        lambda: memory.end_work(100),
        lambda: memory.arriving(first, 0),
        lambda: memory.lost(first),
    )
    woken = []
    for change in changes:
        memory.arriving(first, 60)
        memory.arriving(second, 60)
        memory.begin_work(100)
        memory.wait(second)
        change()
        woken.append(second.woken)
        memory.lost(first)
        memory.lost(second)
        memory.end_work(memory.working_bytes)

    assert [1, 2, 3] == woken


def test_a_frame_that_arrives_too_slowly_is_dropped_when_others_need_the_memory() -> None:
    """
    A connection whose frame arrives too slowly is closed when another connection needs the memory, but not earlier.
    """
    clock = HandClock()
    memory = ConnectionMemory(100, clock)
    slow, fast = Holder(), Holder()
    memory.arriving(slow, 60)
    clock.now_ms += ARRIVAL_MS_MAX
    memory.tick()
    alone = slow.reason

    memory.arriving(fast, 50)
    memory.tick()

    assert ("", True, "", 50) == (alone, bool(slow.reason), fast.reason, memory.request_bytes)


def test_clients_that_do_not_read_are_closed_largest_first() -> None:
    """
    Clients are closed only when the bound is reached, only if they have read nothing for UNREAD_MS_MAX, and no more of
    them than necessary.
    """
    clock = HandClock()
    memory = ConnectionMemory(100, clock)
    holders = [Holder() for _ in range(4)]
    for holder, share in zip(holders, (10, 50, 40, 30), strict=True):
        holder.unread_bytes = RESPONSES_BYTES_MAX * share // 100
        memory.unread(holder, holder.unread_bytes)
    clock.now_ms += UNREAD_MS_MAX
    holders[1].unread_bytes -= 1  # the second client reads, slowly

    memory.tick()

    assert [False, False, True, False] == [bool(holder.reason) for holder in holders]


def test_the_size_of_a_response_shrinks_with_unread_bytes_and_never_reaches_zero() -> None:
    """
    The first response may take up to a quarter of the memory; at the bound, a response may still take
    RESPONSE_BYTES_MIN.
    """
    memory = ConnectionMemory(100, HandClock())
    holder = Holder()
    empty = memory.response_room()
    memory.begin_read(RESPONSES_BYTES_MAX // 2)
    half = memory.response_room()

    memory.unread(holder, RESPONSES_BYTES_MAX)

    assert [RESPONSES_BYTES_MAX // 4, RESPONSES_BYTES_MAX // 8, RESPONSE_BYTES_MIN] == [
        empty,
        half,
        memory.response_room(),
    ]


def test_at_the_bound_only_clients_that_have_taken_their_responses_get_another() -> None:
    """
    When unread responses fill the memory, clients that have read all their responses are still served, and the others
    are not.
    """
    memory = ConnectionMemory(100, HandClock())
    hoarder, other = Holder(), Holder()

    memory.unread(hoarder, RESPONSES_BYTES_MAX)

    assert [False, True] == [memory.may_answer(hoarder), memory.may_answer(other)]
