"""Tests for scenarios that random runs have found, or would find only by luck."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from tidemill.batches.batch import MAGIC_POSITION, spans
from tidemill.batches.builder import build_batch
from tidemill.broker.controller.controller_host import ControllerHost
from tidemill.metadata.brokers import RegisterBroker
from tidemill.metadata.controller import Command
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.shard.append import append_own
from tidemill.shard.pending import Pending
from tidemill.shard.shard import Shard
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.cluster.cluster import ClusterRun
from tidemill.simulation.cluster.cluster_faults import Fault
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.machine.crash_fate import ALL_KEPT, ALL_LOST
from tidemill.simulation.machine.machine import seconds
from tidemill.storage import paths
from tidemill.storage.data_directory import DirectoryProblem
from tidemill.storage.store import StoreOptions

SEEDS_OF_CONTROL = 40
ROTTEN = (29, 45, 49, 53)  # seeds that damage segments of followers and leaders, journals, and metadata
ROOMY = StoreOptions(journal_first_bytes=1 << 20, journal_file_bytes=1 << 20, journal_bytes_max=8 << 20)


def knobs(brokers: int) -> ClusterKnobs:
    return replace(ClusterKnobs.draw(Random(1), brokers), delay_us=500, sync_us=500, options=ROOMY)


def pass_time(run: ClusterRun, until: Callable[[], bool], seconds_max: float = 30) -> None:
    """Advance simulated time until the condition holds, for at most `seconds_max`."""
    deadline_us = run.timeline.now_us + seconds(seconds_max)
    while not until():
        assert run.timeline.now_us < deadline_us, run.check.describe()
        run.timeline.run_until(run.timeline.now_us + seconds(0.1))


def voters(machine: BrokerMachine) -> int:
    """Return the number of voters of the metadata shard, as far as this broker knows."""
    return 0 if machine.broker is None else len(machine.broker.shard_table.shards[METADATA_SHARD].replica.voters)


def test_brokers_find_each_other_without_the_broker_they_joined() -> None:
    """
    After all brokers have lost power, they find each other without the broker through which they joined.  No entry is
    known to be committed, so their images are empty, and they take addresses from the log.
    """
    run = ClusterRun(1, knobs(3).without_faults())
    for machine in run.machines:
        machine.start()
    pass_time(run, lambda: all(machine.is_ready and voters(machine) == 3 for machine in run.machines))
    for machine in run.machines:
        machine.lose_power(ALL_LOST)

    for machine in run.machines[1:]:
        machine.start()

    pass_time(run, lambda: all(machine.is_ready for machine in run.machines[1:]))


def test_brokers_without_a_majority_wait_and_log_the_reason() -> None:
    """
    Three of five brokers start, among them only one of the three metadata voters.  They cannot learn whether their
    broker ids are still theirs, and must wait instead of exiting.
    """
    run = ClusterRun(1, knobs(5).without_faults())
    for machine in run.machines:
        machine.start()
    pass_time(run, lambda: all(machine.is_ready and voters(machine) == 3 for machine in run.machines))
    for machine in run.machines:
        machine.lose_power(ALL_KEPT)
    waiting = run.machines[2:]
    for machine in waiting:
        machine.start()

    run.timeline.run_until(run.timeline.now_us + seconds(60))

    assert [(machine.is_running, machine.is_ready) for machine in waiting] == [(True, False)] * 3
    for machine in waiting:
        assert 5 <= sum("waiting for the cluster" in line for line in machine.lines) <= 13, machine.lines
    run.machines[0].start()
    pass_time(run, lambda: all(machine.is_ready for machine in waiting))


@pytest.mark.parametrize("missing_s", [0.0, 6.0])
def test_a_broker_missing_at_a_registration_still_becomes_a_metadata_voter(missing_s: float) -> None:
    """
    While a third broker registers, the second one is paused or loses its link.  The set of metadata voters is not
    extended as long as only two of the three brokers are live, but all three become voters later.
    """
    run = ClusterRun(1, knobs(3).without_faults())
    one, two, three = run.machines
    one.start()
    two.start()
    pass_time(run, lambda: one.is_ready and two.is_ready)
    two.loop.pause(seconds(missing_s))
    run.timeline.run_until(run.timeline.now_us + seconds(2.6 if missing_s else 0.0))
    with lost_link_to(two, one) if not missing_s else nullcontext():
        three.start()
        pass_time(run, lambda: three.is_ready)

    pass_time(run, lambda: voters(one) == 3)

    one.kill()
    pass_time(run, lambda: leads(two) or leads(three))


@contextmanager
def lost_link_to(far: BrokerMachine, near: BrokerMachine) -> Iterator[None]:
    """Close the link to `far` whenever the controller on `near` registers a broker."""
    submit = ControllerHost.submit

    def lost(self: ControllerHost, command: Command) -> Pending[Any]:
        assert near.broker is not None, "it is ready"
        if isinstance(command, RegisterBroker):
            for link in list(near.broker.cluster.peers._peers):
                if link.hello.voter == far.voter:
                    link.close("lost")
        return submit(self, command)

    with patch.object(ControllerHost, "submit", lost):
        yield


def test_a_broker_joins_through_a_follower() -> None:
    """
    A broker can join through a follower, although the follower cannot send it the log, and no broker can dial the
    joining broker before it is registered.
    """
    run, last = four_brokers_led_by_the_second()

    last.start()

    pass_time(run, lambda: last.is_ready)
    assert leads(run.machines[1])


def test_a_broker_that_dies_before_it_has_the_metadata_finds_the_leader_again() -> None:
    """A broker that dies before it has the metadata finds the leader again, although its directory has only its
    identity and no addresses.
    """
    run, last = four_brokers_led_by_the_second()
    last.start()
    pass_time(run, lambda: last.voter is not None)
    last.kill()

    last.start()

    pass_time(run, lambda: last.is_ready)
    assert leads(run.machines[1])


def four_brokers_led_by_the_second() -> tuple[ClusterRun, BrokerMachine]:
    """Start three of four brokers and make the second the controller.  Return the run and the fourth broker, which will
    join through the first.
    """
    run = ClusterRun(1, knobs(4).without_faults())
    first, second, _, last = run.machines
    for machine in run.machines[:3]:
        machine.start()
    pass_time(run, lambda: second.is_ready and voters(first) == voters(second) == 3)
    shard = first.broker.shard_table.shards[METADATA_SHARD]  # type: ignore[union-attr]
    assert second.voter is not None
    assert shard.transfer_leadership(second.voter)
    pass_time(run, lambda: leads(second))
    return run, last


def leads(machine: BrokerMachine) -> bool:
    """Return whether the broker leads the metadata shard."""
    return machine.broker is not None and machine.broker.shard_table.shards[METADATA_SHARD].is_serving


def test_the_checks_find_records_lost_with_their_leader() -> None:
    """The checks must report records sent with acks=1 that are lost with their leader; this shows that they detect
    losses.
    """
    for seed in range(SEEDS_OF_CONTROL):
        drawn = replace(knobs(3).without_faults(), acks=1, partitions=1, duration_s=12, partition=0.5, kill=0.2)
        try:
            ClusterRun(seed, drawn).run()
        except InvariantViolation:
            return
    raise AssertionError(f"nothing was lost in {SEEDS_OF_CONTROL} runs")


def three_brokers_with_a_topic(records: int = 20, **options: int) -> ClusterRun:
    """Start three brokers, all of them metadata voters, with a topic of three replicas and a few records."""
    run = ClusterRun(1, replace(knobs(3).without_faults(), options=replace(ROOMY, cache_bytes_max=0, **options)))
    for machine in run.machines:
        machine.start()
    pass_time(run, lambda: all(machine.is_ready and voters(machine) == 3 for machine in run.machines))
    run._in_client(run._prepare())
    pass_time(run, lambda: run.history.acknowledgements > records, 600)
    for producer in run._producers:
        producer.is_stopping = True
    pass_time(run, lambda: not run._producing and run.check.agree())
    run.timeline.run_until(run.timeline.now_us + seconds(1))
    return run


@pytest.mark.parametrize("is_missed", [True, False], ids=["killed", "without power"])
def test_a_broker_with_a_damaged_journal_returns_as_another_voter(is_missed: bool) -> None:
    """
    A broker with a damaged journal, which may have held votes, sets its directory aside and returns as a new voter.
    The other brokers refuse it while they count its former identity as alive, and then send it everything.
    """
    run = three_brokers_with_a_topic()
    last = run.machines[2]
    before = last.voter
    others = run.faults._others(last)

    if not is_missed:
        last.lose_power(ALL_KEPT)
    assert last.rot_journal(others, Random(1)) is not None
    last.start()

    pass_time(run, lambda: last.is_ready and run.check.agree())
    assert (True, True) == (last.voter != before, last.voter.broker_id == before.broker_id)  # type: ignore[union-attr]
    (aside,) = [name for name in last.disk.list("") if name.startswith("damaged-")]
    assert {"identity.json", "journal", "topics"} <= {*last.disk.list(aside)}


def test_a_reinitialized_broker_keeps_its_broker_id_if_it_is_interrupted() -> None:
    """
    A broker keeps its id even if its disk is full after it has set its damaged directory aside and before it has a new
    identity.  With another id, plans for the old id would wait forever.
    """
    run = three_brokers_with_a_topic()
    last = run.machines[2]
    before = last.voter
    others = run.faults._others(last)
    last._broker_id = None  # the broker must take its id from the directory
    assert last.rot_journal(others, Random(1)) is not None
    free = last.disk.free_bytes
    last.disk.free_bytes = 8 << 10
    last.start()
    pass_time(run, lambda: not last.is_running)
    assert [name for name in last.disk.list("") if name.startswith("damaged-")]

    last.disk.free_bytes = free
    last.start()

    pass_time(run, lambda: last.is_ready and run.check.agree())
    assert (True, True) == (last.voter != before, last.voter.broker_id == before.broker_id)  # type: ignore[union-attr]


def test_a_broker_without_its_identity_file_does_not_start() -> None:
    """
    A broker without its identity file does not start, and asks the operator to restore the file.  If it registered
    instead, a new directory would take the broker id, and the old one with the data could not return.
    """
    run = three_brokers_with_a_topic()
    last = run.machines[2]
    last.kill()
    pass_time(run, lambda: all(last.voter not in machine.broker.cluster.live() for machine in run.machines[:2]))  # type: ignore[union-attr]
    before = last.voter
    file = last.disk.open(paths.IDENTITY)
    identity = file.read(0, file.size())
    last.disk.remove(paths.IDENTITY)

    last.start()
    with pytest.raises(DirectoryProblem, match="nothing was changed"):
        pass_time(run, lambda: False)
    last.kill()
    restored = last.disk.open(paths.IDENTITY, create=True)
    restored.write(0, [identity])
    restored.sync()
    last.start()

    pass_time(run, lambda: last.is_ready and run.check.agree())
    assert before == last.voter
    assert 3 == voters(last)


def test_a_clean_stop_transfers_leadership_first() -> None:
    """A clean stop first transfers leadership, so that clients are served without interruption and no election waits
    for a timeout.
    """
    run = three_brokers_with_a_topic()

    def led_by(*machines: BrokerMachine) -> set[ShardId]:
        shards = [it for machine in machines if machine.broker for it in machine.broker.shard_table.shards.values()]
        return {shard.shard_id for shard in shards if shard.replica.leads}

    leader = max(run.machines, key=lambda machine: len(led_by(machine)))
    led = led_by(leader)
    assert led

    leader.stop()
    while leader.is_running:
        run.timeline.run_until(run.timeline.now_us + seconds(0.001))

    assert led <= led_by(*(machine for machine in run.machines if machine is not leader))


def test_a_broker_ends_at_a_metadata_record_of_a_newer_version() -> None:
    """A broker exits when it reads a metadata record of a newer version.  Otherwise its image would differ from the
    images of brokers that know the version.
    """
    run = three_brokers_with_a_topic()
    controller = next(machine for machine in run.machines if machine.broker.controller.leads)  # type: ignore[union-attr]
    shard = controller.broker.shard_table.shards[METADATA_SHARD]  # type: ignore[union-attr]

    controller.loop.call_soon(append_own, shard.partitions[0], build_batch([(None, b"\x63\x00", (), 0)]), 0)

    def running() -> list[BrokerMachine]:
        return [machine for machine in run.machines if machine.is_running]

    pass_time(run, lambda: len(running()) == 1)  # the last broker has no majority and commits nothing
    (left,) = running()
    left.kill()
    left.start()
    run.timeline.run_until(run.timeline.now_us + seconds(5))
    assert left.is_running  # a broker takes nothing but addresses from uncommitted records


@pytest.mark.parametrize("number", range(3))
def test_a_damaged_segment_is_repaired_from_other_replicas(number: int) -> None:
    """
    The next read of a damaged segment, on a leader or a follower, finds the damage, and other replicas repair it.
    """
    run = three_brokers_with_a_topic()
    machine = run.machines[number]

    assert machine.rot(Random(number)) is not None
    assert machine.is_rotten

    pass_time(run, lambda: run.check.agree() and not machine.is_rotten)
    assert run.check.rot_found


@pytest.mark.parametrize("records", [20, 300], ids=["few", "many"])
@pytest.mark.parametrize("byte", [7, MAGIC_POSITION, 80], ids=["base offset", "magic", "record"])
def test_a_wiped_broker_catches_up_from_a_damaged_leader(byte: int, records: int) -> None:
    """
    Damage that a batch's CRC does not cover is also found; otherwise the wiped follower would refuse the copy forever.
    A wiped broker that lacks many records does not vote before it has them, so the third, undamaged replica leads and
    repairs the other two.
    """
    run = three_brokers_with_a_topic(records, tail_entries=2)
    leader = next(machine for machine in run.machines if replica_of(machine).replica.leads)
    wiped = next(machine for machine in run.machines if machine is not leader)
    segment = next(it for it in replica_of(leader).log.partitions[0].segments if it.written)
    file = segment.opened(leader.disk)
    second = [*spans(file.read(0, segment.written))][1]

    leader.disk.flip(segment.path, second.position + byte, 1)
    wiped.wipe(run.faults._others(wiped))
    wiped.start()

    pass_time(run, lambda: wiped.is_ready and run.check.agree(), 60)


def test_two_damaged_leaders_do_not_transfer_leadership_for_ever() -> None:
    """Two damaged leaders must not transfer leadership to each other forever, since neither can supply the third
    replica.
    """
    run = three_brokers_with_a_topic(300, tail_entries=2)
    leader = next(machine for machine in run.machines if replica_of(machine).replica.leads)
    wiped, other = (machine for machine in run.machines if machine is not leader)
    for machine in (leader, other):
        segment = next(it for it in replica_of(machine).log.partitions[0].segments if it.written)
        second = [*spans(segment.opened(machine.disk).read(0, segment.written))][1]
        machine.disk.flip(segment.path, second.position + 80, 1)
    wiped.wipe(run.faults._others(wiped))
    wiped.start()
    pass_time(run, lambda: replica_of(other).replica.leads)
    term = replica_of(other).replica.term

    run.timeline.run_until(run.timeline.now_us + seconds(60))

    assert term <= max(replica_of(machine).replica.term for machine in (leader, other)) <= term + 5


def replica_of(machine: BrokerMachine) -> Shard:
    """Return the broker's replica of the shard with the topic's first partition."""
    assert machine.broker is not None
    partition = machine.broker.shard_table.partition("flights", 0)
    assert partition is not None
    return partition.shard


@pytest.mark.parametrize("seed", ROTTEN)
def test_a_cluster_repairs_flipped_bits_among_other_faults(seed: int) -> None:
    """
    A cluster repairs flipped bits, whether they are found by a reader, by a leader that sends a snapshot, by a broker
    at start-up, or by the final comparison of all bytes.
    """
    drawn = ClusterKnobs.draw(Random(seed), (3, 3, 5)[seed % 3])
    run = ClusterRun(seed, replace(drawn, rot=0.3, options=replace(drawn.options, cache_bytes_max=0)))

    run.run()

    assert run.faults.struck[Fault.ROT]


@pytest.mark.parametrize("seed", [37, 84, 135])
def test_a_seed_that_found_a_bug_passes(seed: int) -> None:
    """A seed that once found a bug passes; it is run with only the faults that the simulation had at that time."""
    ClusterRun(seed, replace(ClusterKnobs.draw(Random(seed)), leader_isolation=0.0, client_isolation=0.0)).run()
