"""Requests expire at their deadlines."""

from tests.unit.broker.broker_world import HandClock
from tidemill.broker.clients.deadlines import Deadlines


class Waiting:
    def __init__(self, name: str, expired: list[str]) -> None:
        self.name = name
        self.expired = expired

    def expire(self) -> None:
        self.expired.append(self.name)


def test_open_requests_expire_and_answered_ones_do_not() -> None:
    """
    Each open request expires once, at the first tick after its own time limit.
    """
    clock, expired = HandClock(), list[str]()
    deadlines = Deadlines(clock)
    short, answered, late = (Waiting(name, expired) for name in ("short", "answered", "long"))
    deadlines.add(late, 1_000)
    deadlines.add(short, 100)
    deadlines.add(answered, 100)
    deadlines.remove(answered, 100)
    seen = []

    for _ in range(4):
        clock.now_ms += 300
        deadlines.tick()
        seen.append([*expired])

    assert [["short"], ["short"], ["short"], ["short", "long"]] == seen


def test_a_deadline_may_be_added_while_another_expires() -> None:
    """
    When a request expires, it is answered, and its client may immediately send the next request, whose deadline is then
    added during the same tick.
    """
    clock, expired = HandClock(), list[str]()
    deadlines = Deadlines(clock)

    class Again(Waiting):
        def expire(self) -> None:
            super().expire()
            deadlines.add(self, 100)

    deadlines.add(Again("again", expired), 100)

    for _ in range(2):
        clock.now_ms += 100
        deadlines.tick()

    assert ["again", "again"] == expired
