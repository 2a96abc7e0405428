"""Requests wait no longer than their clients."""

from tests.unit.broker.broker_world import HandClock
from tidemill.broker.connection.deadlines import Deadlines


class Waiting:
    def __init__(self, name: str, expired: list[str]) -> None:
        self.name = name
        self.expired = expired

    def expire(self) -> None:
        self.expired.append(self.name)


def test_what_is_over_expires_and_what_was_answered_does_not() -> None:
    """
    Each at the first tick after its own limit, once.
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


def test_one_who_expires_may_begin_to_wait_again() -> None:
    """
    As a client does whose next request comes while it is answered.
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
