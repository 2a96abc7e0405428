"""Waiting fetches are served in order, and no wake is lost.  A wake offers available records of a share to them."""

import random
from dataclasses import dataclass, field

import pytest

from tidemill.share.share_waiters import ShareWaiters

Waiters = ShareWaiters[str, str]
NOTHING: tuple[str, ...] = ()


def waiting(**fetches: str) -> Waiters:
    """Return a `ShareWaiters` in which these fetches wait.  Each letter of a value is a share that the fetch reads."""
    waiters = Waiters()
    for name, shares in fetches.items():
        assert [name] == waiters.begin(name, shares, deadline=100)
        assert [] == waiters.keep_waiting(name, NOTHING)
    return waiters


def test_the_first_fetch_is_served_first() -> None:
    """
    A wake evaluates only the fetch that has waited longest.  The next fetch is evaluated only if the first one leaves
    records.
    """
    waiters = waiting(one="s", two="s", three="s")

    assert ["one"] == waiters.wake("s")
    assert ["two"] == waiters.finish("one", "s")
    assert [] == waiters.finish("two", NOTHING)

    assert ["three"] == waiters.wake("s")


def test_a_fetch_that_needs_more_bytes_lets_the_next_one_pass() -> None:
    """
    If there are fewer bytes than the min_bytes of a fetch, it keeps its place in the queue, and the fetch behind it is
    evaluated.
    """
    waiters = waiting(one="s", two="s")
    waiters.wake("s")

    assert ["two"] == waiters.keep_waiting("one", "s")
    waiters.finish("two", NOTHING)

    assert ["one"] == waiters.wake("s")


def test_a_wake_is_not_lost_with_its_fetch() -> None:
    """If the client of a woken fetch disconnects, the wake passes to the next fetch."""
    waiters = waiting(one="s", two="s")
    waiters.wake("s")

    assert ["two"] == waiters.leave("one")
    assert [] == waiters.leave("two")
    assert 0 == len(waiters)


def test_a_fetch_that_leaves_while_it_waits_wakes_no_other() -> None:
    """If a fetch leaves that was not woken, no other fetch is evaluated, because no records were offered to it."""
    waiters = waiting(one="s", two="s")

    assert [] == waiters.leave("one")

    assert ["two"] == waiters.wake("s")


def test_a_wake_during_an_evaluation_starts_again() -> None:
    """
    If records become available while a fetch is being evaluated, its read has missed them, so they are offered to all
    waiting fetches again.
    """
    waiters = waiting(one="s", two="s")
    waiters.wake("s")
    assert [] == waiters.wake("s")

    assert ["one"] == waiters.keep_waiting("one", NOTHING)
    assert [] == waiters.wake("s")

    assert ["two"] == waiters.finish("one", NOTHING)
    assert [] == waiters.finish("two", NOTHING)


def test_two_fetches_do_not_read_a_share_at_once() -> None:
    """
    While a fetch is being evaluated, a new fetch of the same share waits.  It is evaluated afterwards, even if no
    records are left for it.
    """
    waiters = waiting(one="s")
    waiters.wake("s")

    assert [] == waiters.begin("two", "st", deadline=100)
    assert ["other"] == waiters.begin("other", "u", deadline=100)

    assert ["two"] == waiters.finish("one", NOTHING)


def test_a_fetch_of_busy_shares_is_not_overtaken_forever() -> None:
    """A fetch of two shares gets its turn even if other fetches are always reading one or the other."""
    waiters = waiting(s="s", t="t", both="st")
    assert (["s"], ["t"]) == (waiters.wake("s"), waiters.wake("t"))
    assert [] == waiters.finish("s", "s")
    assert [] == waiters.begin("next", "s", deadline=100)

    assert ["both"] == waiters.finish("t", "t")

    assert ["next"] == waiters.finish("both", NOTHING)


def test_a_wait_ends_once() -> None:
    """
    A fetch is evaluated once more at its deadline and then answered.  If it is already being evaluated at its deadline,
    it is evaluated again afterwards.
    """
    waiters = Waiters()
    for name, share, deadline in (("early", "s", 10), ("late", "t", 20), ("busy", "u", 10)):
        waiters.begin(name, share, deadline)
    for name in ("early", "late"):
        waiters.keep_waiting(name, NOTHING)
    assert 10 == waiters.next_deadline()
    assert [] == waiters.due(9)

    assert ["early"] == waiters.due(10)
    assert [] == waiters.due(10)
    assert ["busy"] == waiters.keep_waiting("busy", NOTHING)

    for name in ("early", "busy"):
        waiters.finish(name, NOTHING)
    assert ["late"] == waiters.due(30)
    assert None is waiters.next_deadline()


def test_a_deadline_of_a_finished_fetch_is_ignored() -> None:
    """The deadline of a finished fetch does not end the wait of a later fetch with the same name."""
    waiters = waiting(one="s")
    waiters.leave("one")
    waiters.begin("one", "s", deadline=200)
    waiters.keep_waiting("one", NOTHING)

    assert [] == waiters.due(100)
    assert ["one"] == waiters.due(200)


def test_a_share_that_no_fetch_waits_for_is_not_remembered() -> None:
    """
    If no fetch waits for a share, a wake of it is not stored, because every new fetch is evaluated when it begins.
    """
    waiters = Waiters()

    assert [] == waiters.wake("s")

    assert {} == waiters._offers


@dataclass
class Shell:
    """
    Fetches on shares whose available records are only counted.  A fetch's read finds the records that are available
    when it begins.
    """

    chance: random.Random
    waiters: Waiters = field(default_factory=Waiters)
    available: dict[str, int] = field(default_factory=lambda: dict.fromkeys("stu", 0))
    fetches: dict[str, tuple[str, int, int]] = field(default_factory=dict)  # shares, records needed, deadline
    reads: dict[str, tuple[dict[str, int], bool]] = field(default_factory=dict)  # records found, is the wait over
    answered: list[str] = field(default_factory=list)
    now: int = 0
    begun: int = 0

    def evaluate(self, woken: list[str]) -> None:
        for name in woken:
            shares, _, deadline = self.fetches[name]
            busy = {share for other in self.reads for share in self.fetches[other][0]}
            assert busy.isdisjoint(shares), "a share is read by one fetch at a time"
            self.reads[name] = {share: min(self.available[share], 3) for share in shares}, self.now >= deadline

    def begin(self) -> None:
        name = str(self.begun)
        self.begun += 1
        shares = "".join(self.chance.sample("stu", self.chance.randint(1, 3)))
        self.fetches[name] = shares, self.chance.choice([1, 1, 1, 4]), self.now + self.chance.randint(5, 60)
        self.evaluate(self.waiters.begin(name, shares, self.fetches[name][2]))

    def end_read(self, name: str) -> None:
        found, is_over = self.reads.pop(name)
        shares, needed, _ = self.fetches[name]
        is_answered = is_over or sum(found.values()) >= needed
        if is_answered:
            for share, taken in found.items():
                self.available[share] -= taken
            self.answered.append(name)
            del self.fetches[name]
        left = {share for share in shares if self.available[share]}
        self.evaluate(self.waiters.finish(name, left) if is_answered else self.waiters.keep_waiting(name, left))

    def disconnect(self, name: str) -> None:
        self.reads.pop(name, None)
        del self.fetches[name]
        self.answered.append(name)
        self.evaluate(self.waiters.leave(name))

    def step(self) -> None:
        match self.chance.randrange(8):
            case 0 | 1:
                self.begin()
            case 2 | 3 | 4 if self.reads:
                self.end_read(self.chance.choice(list(self.reads)))
            case 5 if self.fetches and self.chance.random() < 0.4:
                self.disconnect(self.chance.choice(list(self.fetches)))
            case 6:
                share = self.chance.choice("stu")
                self.available[share] += self.chance.randint(1, 4)
                self.evaluate(self.waiters.wake(share))
            case 7:
                self.now += self.chance.randint(0, 10)
                self.evaluate(self.waiters.due(self.now))

    def end_reads(self) -> None:
        for _ in range(10 * len(self.fetches) + 10):
            if not self.reads:
                return
            self.end_read(self.chance.choice(list(self.reads)))
        raise AssertionError("the evaluations do not end")


def check_waiters(seed: int) -> None:
    """
    Run fetches, wakes, disconnects and deadlines at random.  Once all evaluations have ended, check that only fetches
    without enough records keep waiting.
    """
    shell = Shell(random.Random(seed))
    for _ in range(25):
        for _ in range(shell.chance.randint(1, 12)):
            shell.step()
        shell.end_reads()
        for name, (shares, needed, deadline) in shell.fetches.items():
            assert deadline > shell.now, f"fetch {name} waits beyond its deadline"
            found = sum(min(shell.available[share], 3) for share in shares)
            assert found < needed, f"fetch {name} waits for {needed} of {found} available records"
    shell.now += 1_000
    shell.evaluate(shell.waiters.due(shell.now))
    shell.end_reads()
    assert sorted(map(str, range(shell.begun))) == sorted(shell.answered)
    assert (0, None) == (len(shell.waiters), shell.waiters.next_deadline())
    assert ({}, {}, set()) == (shell.waiters._queues, shell.waiters._offers, shell.waiters._taken)


@pytest.mark.parametrize("seed", range(200))
def test_every_fetch_is_answered_once_and_none_waits_beside_its_records(seed: int) -> None:
    """
    Whatever happens during the evaluations, a fetch whose records are available does not keep waiting, and every fetch
    is answered exactly once, at its deadline at the latest (KAFKA-19567, KAFKA-18129, KAFKA-20505).
    """
    check_waiters(seed)
