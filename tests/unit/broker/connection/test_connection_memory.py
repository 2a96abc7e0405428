"""What all connections keep together is bounded, and one of them always goes on."""

from tests.unit.broker.broker_world import HandClock
from tidemill.broker.connection.connection_memory import (
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


def test_at_the_bound_only_the_oldest_arrival_is_received() -> None:
    """
    Small requests pass as long as it is arrivals alone that fill the memory.
    """
    memory = ConnectionMemory(100, HandClock())
    first, second, small = Holder(), Holder(), Holder()

    memory.arriving(first, 60)
    memory.arriving(second, 50)

    assert [True, False, True] == [memory.may_receive(holder) for holder in (first, second, small)]


def test_nobody_is_received_while_the_work_fills_the_memory() -> None:
    """
    The journal makes room by itself.
    """
    memory = ConnectionMemory(100, HandClock())
    first = Holder()
    memory.arriving(first, 1)

    memory.begin_work(100)

    assert not memory.may_receive(first)


def test_who_waits_is_woken_by_each_change_that_may_concern_it() -> None:
    """
    By the end of work, by a frame that is complete, by a client that is gone.
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


def test_an_arrival_that_takes_too_long_goes_when_others_need_the_memory() -> None:
    """
    And stays while they do not.
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


def test_of_clients_that_do_not_read_those_with_most_go() -> None:
    """
    Only at the bound, only who has taken nothing for long, and no more of them than needed.
    """
    clock = HandClock()
    memory = ConnectionMemory(100, clock)
    holders = [Holder() for _ in range(4)]
    for holder, share in zip(holders, (10, 50, 40, 30), strict=True):
        holder.unread_bytes = RESPONSES_BYTES_MAX * share // 100
        memory.unread(holder, holder.unread_bytes)
    clock.now_ms += UNREAD_MS_MAX
    holders[1].unread_bytes -= 1  # the second reads, if slowly

    memory.tick()

    assert [False, False, True, False] == [bool(holder.reason) for holder in holders]


def test_the_room_of_an_answer_shrinks_with_what_is_unread_and_never_ends() -> None:
    """
    A first client may have a quarter of all; the last one still gets something.
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
    A client without unread responses is still served.
    """
    memory = ConnectionMemory(100, HandClock())
    hoarder, other = Holder(), Holder()

    memory.unread(hoarder, RESPONSES_BYTES_MAX)

    assert [False, True] == [memory.may_answer(hoarder), memory.may_answer(other)]
