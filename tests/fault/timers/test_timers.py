"""Every record of a timer topic is delivered once, and not before it is due, whatever happens to its brokers."""

import time
from collections.abc import Iterator
from itertools import islice

import pytest

from tests.fault.cluster_processes import ClusterProcesses, wait_until
from tests.fault.extent import soak_only, times
from tests.fault.timers.short_topic import at, create, now_ms, produce, reading
from tests.fault.timers.timer_faults import STEP_S, WRONG, TimerFaults
from tests.fault.timers.timer_run import VIOLATIONS_MAX, TimerRun, show
from tests.fault.timers.wrong_clock import WrongClock
from tidemill.timer.release_clock import READING_MS_MAX

SEED = 26
RECORDS = times(20_000, 1_000_000)
LEAD_S = times(5, 90)  # for producing them
WINDOW_S = times(20, 60)
IN_TIME_MIN = 0.2  # the share of the changes by requests that must be in time, or the run says little about them
LATE_S_MAX = 60  # after a clock has stepped back, or a broker has started, on a busy machine of two cores
BACK_S = 3.0  # how far a clock steps back in the test of what that delays
FEW = 20  # records
NOTICED_MS = 4_000  # after which all brokers know that a clock was set, even on a machine that stalls


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WrongClock]:
    clock = WrongClock(tmp_path_factory.mktemp("clock"))
    yield clock
    clock.close()


@pytest.fixture(scope="module")
def stepping(tmp_path_factory: pytest.TempPathFactory, clock: WrongClock) -> Iterator[ClusterProcesses]:
    """Run a cluster in which the clock of one broker can be set wrong."""
    with ClusterProcesses(tmp_path_factory.mktemp("timers"), is_proxied=True) as cluster:
        cluster.wrappers[WRONG] = clock.command
        cluster.start_all()
        yield cluster


@pytest.fixture
def cluster(stepping: ClusterProcesses, clock: WrongClock) -> ClusterProcesses:
    clock.set(0)
    stepping.recover()
    return stepping


@pytest.mark.timeout(times(240, 1_800))
@pytest.mark.parametrize("are_changed", [True, pytest.param(False, marks=soak_only)])
def test_every_record_is_delivered_once_and_none_early(
    are_changed: bool, cluster: ClusterProcesses, clock: WrongClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Leaders are killed, paused and cut off, and a clock steps, while records become due and some are cancelled or moved.
    Each that waits is delivered once, and none early; what was cancelled never comes, and what was moved comes at its
    new time.  A record is late by no more than the failover.
    """
    topic = f"changed-{are_changed}"
    with TimerRun(
        cluster, topic, seed=SEED, count=RECORDS, lead_s=LEAD_S, window_s=WINDOW_S, are_changed=are_changed
    ) as run:
        faults = TimerFaults(cluster, topic, clock, SEED)
        while not run.is_over:
            faults.strike()
        outcomes = run.finish()

    show(outcomes, capsys, f"faults: {dict(faults.counts)}")
    assert [] == [*islice(outcomes.late(), VIOLATIONS_MAX)]
    assert not are_changed or outcomes.changed_in_time() >= IN_TIME_MIN
    cluster.wait_until_equal(topic)


@pytest.mark.timeout(120)
def test_a_clock_that_steps_back_while_another_voter_is_down_delays_by_the_step(
    cluster: ClusterProcesses, clock: WrongClock
) -> None:
    """
    When the clock of the broker that is down is forgotten, the two that are left differ, and no broker knows which of
    them is right.  So records are late by the step rather than early; when the third broker is back, what waits too
    long comes at once.
    """
    create(cluster.bootstrap, "behind", replicas=3)
    cluster.wait_until_in_sync("behind")
    down = next(number for number in cluster.numbers if number != WRONG)
    cluster.kill(down)
    forgotten_ms = now_ms() + READING_MS_MAX
    clock.set(-BACK_S)
    cluster.leaders("behind", but=[down])
    with reading(cluster.bootstrap, "behind") as deliveries:
        first_ms = forgotten_ms + 1_000
        assert [] == produce(cluster.bootstrap, "behind", [(it, at(first_ms + 50 * it)) for it in range(FEW)])
        wait_until(lambda: len(deliveries) == FEW, "the records that are late")

        clock.set(-STEP_S)
        assert [] == produce(cluster.bootstrap, "behind", [(FEW, at(now_ms() + NOTICED_MS))])
        time.sleep(NOTICED_MS / 1_000 + 2)
        assert FEW == len(deliveries)
        cluster.start(down)
        started_ms = now_ms()
        wait_until(lambda: len(deliveries) > FEW, "the record that waits too long")

    late_s = [(seen - due) / 1_000 for seen, due in zip(deliveries.seen_ms, deliveries.dues_ms, strict=True)]
    assert [*range(FEW + 1)] == list(deliveries.numbers)
    assert BACK_S <= min(late_s[:FEW])
    assert max(late_s[:FEW]) < BACK_S + LATE_S_MAX
    assert deliveries.seen_ms[FEW] - started_ms < LATE_S_MAX * 1_000
