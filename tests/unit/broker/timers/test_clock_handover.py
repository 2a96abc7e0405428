"""A leader of a timer shard whose clock is wrong hands its leadership over to a broker whose clock is right."""

from dataclasses import dataclass, field

import pytest

from tests.unit.broker.broker_world import HandClock
from tidemill.broker.timers.clock_handover import PAUSE_MS, STAYS_WRONG_MS, ClockHandover
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.telemetry.event_log import EventLog

ME, SECOND, THIRD = (ReplicaKey(BrokerId(number), DirectoryId(bytes(16))) for number in (1, 2, 3))


@dataclass(eq=False)
class Led:
    release_limit: int | None
    voters: tuple[ReplicaKey, ...] = (ME, SECOND, THIRD)
    transfers: list[ReplicaKey] = field(default_factory=list)

    def transfer_leadership(self, to: ReplicaKey) -> bool:
        self.transfers.append(to)
        return True


def tick(led: Led, offsets: dict[ReplicaKey, int], *, times: int = 1) -> None:
    clock = HandClock()
    handover = ClockHandover(clock, EventLog(lambda _: None, clock.wall_ms, as_json=False))

    def pass_time(ms: int) -> None:
        clock.now_ms += ms
        if led.release_limit is not None:
            led.release_limit += ms

    handover.tick([led], offsets)
    pass_time(STAYS_WRONG_MS)
    for _ in range(times):
        handover.tick([led], offsets)
        pass_time(PAUSE_MS - 1)


@pytest.mark.parametrize("ahead_ms", [60_000, -60_000])
def test_the_broker_with_the_best_clock_leads_instead(ahead_ms: int) -> None:
    led = Led(HandClock().now_ms - ahead_ms)

    tick(led, {SECOND: 400 - ahead_ms, THIRD: 10 - ahead_ms})

    assert [THIRD] == led.transfers


@pytest.mark.parametrize(
    ("ahead_ms", "offsets"),
    [
        (900, {SECOND: -900, THIRD: -900}),  # its own clock is good enough
        (60_000, {SECOND: -58_000}),  # no other clock is, either
        (60_000, {}),
    ],
)
def test_leadership_stays(ahead_ms: int, offsets: dict[ReplicaKey, int]) -> None:
    led = Led(HandClock().now_ms - ahead_ms)

    tick(led, offsets)

    assert [] == led.transfers


def test_a_leader_that_hears_the_others_late_for_a_moment_keeps_its_leadership() -> None:
    """
    After a turn of the event loop that took long, what others say of their clocks is old, so that the release clock is
    behind.  That a broker is busy says nothing about its clock.
    """
    clock = HandClock()
    handover = ClockHandover(clock, EventLog(lambda _: None, clock.wall_ms, as_json=False))
    led = Led(None)
    for behind_ms in (1_400, 1_400, 0, 1_400, 1_400, 1_400):
        led.release_limit = clock.now_ms - behind_ms
        handover.tick([led], {SECOND: -behind_ms})
        clock.now_ms += STAYS_WRONG_MS // 2 - 1

    assert [] == led.transfers


def test_nothing_is_known_without_a_release_clock() -> None:
    led = Led(None)

    tick(led, {SECOND: -60_000})

    assert [] == led.transfers


def test_attempts_are_not_repeated_at_once() -> None:
    led = Led(HandClock().now_ms - 60_000)

    tick(led, {SECOND: -60_000}, times=3)

    assert [SECOND] * 2 == led.transfers
