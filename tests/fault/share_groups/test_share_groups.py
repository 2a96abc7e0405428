"""Every record of a share group ends accepted or as a dead letter, whatever happens to its members and brokers."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.tidemill_broker import TidemillBroker
from tests.fault.cluster_processes import ClusterProcesses
from tests.fault.extent import soak_only, times
from tests.fault.share_groups.share_members import DoomedMember
from tests.fault.share_groups.work import SETTINGS, Work

DOOMED = 3  # members that are killed while they hold records
RECORDS = 5_000  # produced before each fault
AWAY_S = 3  # a broker that is silent for so long loses its leadership


@pytest.mark.timeout(times(300, 3_600))
def test_every_record_is_accepted_or_rejected_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    16 members accept, release and reject 100,000 records at random, renew their locks, or are so slow that these
    expire; others are killed with what they hold.  Each record ends accepted or rejected, and the broker confirms that
    only once.  A rejected record has one dead letter, and the records of a key are delivered one after the other.
    """
    broker = TidemillBroker(tmp_path, settings=SETTINGS)
    try:
        broker.wait_until_ready()
        work = Work(broker.bootstrap, replicas=1, is_ordered=True)
        work.produce(100_000)
        doomed = [DoomedMember(broker.bootstrap, work.group, work.topic) for _ in range(DOOMED)]
        assert 0 < sum(member.acquired for member in doomed)

        def kill_one() -> bool:
            if doomed:
                doomed.pop().kill()
            return bool(doomed)

        work.work_off(kill_one, seconds=240)
        work.check(capsys)
        assert work.ledger.late or work.ledger.refusals["INVALID_RECORD_STATE"], "no member was slow"
    finally:
        broker.stop()


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults of all kinds, which strike the brokers of a cluster in turn."""

    cluster: ClusterProcesses
    work: Work
    of_each: int

    def __iter__(self) -> Iterator[None]:
        """Produce records and let one fault strike at each step."""
        for number in range(3 * self.of_each):
            victim = number % 3 + 1
            self.work.produce(RECORDS)
            (self._kill, self._pause, self._cut)[(number + number // 3) % 3](victim)
            yield

    def _kill(self, victim: int) -> None:
        self.cluster.kill(victim)
        time.sleep(1)
        self.cluster.start(victim)

    def _pause(self, victim: int) -> None:
        self.cluster.pause(victim)
        time.sleep(AWAY_S)
        self.cluster.resume(victim)

    def _cut(self, victim: int) -> None:
        assert self.cluster.proxies is not None
        self.cluster.proxies.isolate(victim)
        time.sleep(AWAY_S)
        self.cluster.proxies.heal()


@pytest.mark.timeout(times(300, 7_200))
@pytest.mark.parametrize("is_ordered", [False, pytest.param(True, marks=soak_only)])
def test_nothing_is_lost_when_faults_strike(
    is_ordered: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Brokers are killed, paused and cut off from the others while the members work off records.  A record whose
    acceptance was confirmed is not delivered again, and so not accepted again, and each rejected one has one letter.
    """
    with ClusterProcesses(tmp_path, settings=SETTINGS, is_proxied=True) as cluster:
        cluster.start_all()
        work = Work(cluster.bootstrap, replicas=3, reject_share=0.05, is_ordered=is_ordered)
        faults = iter(Faults(cluster, work, times(1, 20)))
        work.work_off(lambda: next(faults, "over") is None, seconds=times(240, 6_000))
        work.check(capsys)
