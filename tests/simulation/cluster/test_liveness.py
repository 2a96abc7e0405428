"""How a broker whose journal stalls is detected as dead and replaced as leader, and how quickly leadership is
transferred.

Three brokers run on simulated time.
"""

import pytest

from tests.simulation.cluster.test_scenarios import replica_of, three_brokers_with_a_topic
from tidemill.batches.builder import build_batch
from tidemill.shard.append import append_own
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.cluster.cluster import ClusterRun
from tidemill.simulation.machine.machine import seconds


def stall_leader(run: ClusterRun, for_s: float) -> BrokerMachine:
    """Stall the leader's disk for `for_s` seconds, and append a record, which its journal must sync.  Return the
    leader.
    """
    leader = next(machine for machine in run.machines if replica_of(machine).replica.leads)
    leader.pace.stalled_until_us = run.timeline.now_us + seconds(for_s)
    batch = build_batch([(None, b"x", (), 0)])
    leader.loop.call_soon(append_own, replica_of(leader).partitions[0], batch, 0)
    return leader


@pytest.mark.parametrize("phase_ms", [0, 60, 120, 180, 240])
def test_leadership_moves_within_four_seconds_of_a_stalled_sync(phase_ms: int) -> None:
    run = three_brokers_with_a_topic()
    run.timeline.run_until(run.timeline.now_us + phase_ms * 1_000)
    leader = stall_leader(run, 20)
    stalled_us = run.timeline.now_us

    while not any(replica_of(machine).is_serving for machine in run.machines if machine is not leader):
        run.timeline.run_until(run.timeline.now_us + seconds(0.01))
        assert run.timeline.now_us - stalled_us <= seconds(4)


def test_a_broker_whose_journal_hangs_is_not_alive_before_it_syncs_again() -> None:
    """A broker whose journal hangs does not count as alive until the journal syncs again.  Its link is dialled again
    every 10 s, which does not count as a heartbeat.
    """
    run = three_brokers_with_a_topic()
    begun_us = run.timeline.now_us
    hung = stall_leader(run, 60)
    other = next(machine for machine in run.machines if machine is not hung)
    assert other.broker is not None
    run.timeline.run_until(begun_us + seconds(5))

    while run.timeline.now_us < begun_us + seconds(55):
        run.timeline.run_until(run.timeline.now_us + seconds(0.1))
        assert not other.broker.cluster.is_alive(hung.voter)

    run.timeline.run_until(begun_us + seconds(61))
    assert other.broker.cluster.is_alive(hung.voter)


@pytest.mark.parametrize("phase_ms", range(0, 250, 10))
def test_leadership_of_an_idle_shard_is_transferred(phase_ms: int) -> None:
    """The leadership of an idle shard is transferred within 3 s by one election; no other replica campaigns."""
    run = three_brokers_with_a_topic()
    for machine in run.machines:
        machine.pace.sync_us = 10_000
    run.network.delay_mean_us = 2_000
    run.timeline.run_until(run.timeline.now_us + seconds(20) + phase_ms * 1_000)
    leader = next(machine for machine in run.machines if replica_of(machine).replica.leads)
    to = next(machine for machine in run.machines if machine is not leader)
    term = replica_of(leader).replica.term
    assert not any(replica_of(machine).needs_tick for machine in run.machines)

    assert replica_of(leader).transfer_leadership(replica_of(to).replica.me)
    run.timeline.run_until(run.timeline.now_us + seconds(3))

    assert (True, term + 1) == (replica_of(to).is_serving, replica_of(to).replica.term)
