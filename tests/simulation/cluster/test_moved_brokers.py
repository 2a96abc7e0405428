"""Brokers whose addresses in the metadata are outdated find each other."""

from tests.simulation.cluster.test_scenarios import knobs, pass_time
from tidemill.model.shard import METADATA_SHARD
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.cluster.cluster import ClusterRun
from tidemill.simulation.machine.links import PEER_PORT

QUORUM_S = 30.0


def metadata_voters(machine: BrokerMachine) -> set[int]:
    assert machine.broker is not None
    return {voter.broker_id for voter in machine.broker.shard_table.shards[METADATA_SHARD].replica.voters}


def test_brokers_that_all_moved_find_each_other_at_one_that_they_know() -> None:
    """
    All brokers restart at other addresses, and each knows only that of a broker without a vote.  That broker cannot
    make them a quorum, and without one, no new address gets into the metadata.  It names the addresses of those that it
    hears, although there is no controller.
    """
    run = ClusterRun(1, knobs(4).without_faults())
    for machine in run.machines:
        machine.start()
    pass_time(run, lambda: all(machine.is_ready for machine in run.machines))
    pass_time(run, lambda: all(len(metadata_voters(machine)) == 3 for machine in run.machines))
    voters = metadata_voters(run.machines[0])
    (known,) = [it for it in run.machines if it.broker is not None and it.broker.broker_id not in voters]

    for machine in run.machines:
        machine.kill()
    known.move("moved-known", ())
    for number, machine in enumerate(it for it in run.machines if it is not known):
        machine.move(f"moved-{number}", (f"{known.name}:{PEER_PORT}",))
    for machine in run.machines:
        machine.start()

    pass_time(run, lambda: all(machine.is_ready for machine in run.machines), QUORUM_S)
