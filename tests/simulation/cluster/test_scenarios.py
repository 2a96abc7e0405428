"""What random runs have found, or would need luck to find, each told directly."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from random import Random
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
from tidemill.simulation.clients.history import InvariantViolation
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.cluster.cluster import ClusterRun
from tidemill.simulation.cluster.cluster_faults import Fault
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.simulation.machine.crash_fate import ALL_KEPT, ALL_LOST
from tidemill.simulation.machine.machine import seconds
from tidemill.storage import paths
from tidemill.storage.data_directory import DirectoryProblem
from tidemill.storage.store import StoreOptions

SEEDS_OF_CONTROL = 40
ROTTEN = (29, 45, 49, 53)  # segments of followers and leaders, journals, metadata
ROOMY = StoreOptions(journal_first_bytes=1 << 20, journal_file_bytes=1 << 20, journal_bytes_max=8 << 20)


def knobs(brokers: int) -> ClusterKnobs:
    return replace(ClusterKnobs.draw(Random(1), brokers), delay_us=500, sync_us=500, options=ROOMY)


def pass_time(run: ClusterRun, until: Callable[[], bool], seconds_max: float = 30) -> None:
    """Until it is so."""
    deadline_us = run.timeline.now_us + seconds(seconds_max)
    while not until():
        assert run.timeline.now_us < deadline_us, run.check.standing()
        run.timeline.run_until(run.timeline.now_us + seconds(0.1))


def voters(machine: BrokerMachine) -> int:
    """Of the metadata shard, as this broker knows."""
    return 0 if machine.broker is None else len(machine.broker.shard_table.shards[METADATA_SHARD].replica.voters)


def test_brokers_find_each_other_when_the_one_they_joined_does_not_come_back() -> None:
    """
    After a power loss of all nothing is known to be committed, so the image is empty: addresses come from the log.
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


def test_brokers_without_a_majority_wait_and_tell_what_for() -> None:
    """
    Three of five, and only one of the three that vote upon metadata: nobody can say whether their numbers are still
    theirs, and none of them ends for that.
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
def test_who_was_missing_when_another_came_votes_upon_the_metadata_all_the_same(missing_s: float) -> None:
    """
    Two of three are too few to grow; the third stood still, or its link was lost in that very moment.
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
    """While the controller on `near` registers a broker."""
    submit = ControllerHost.submit

    def lost(self: ControllerHost, command: Command) -> Pending:
        assert near.broker is not None, "it is ready"
        if isinstance(command, RegisterBroker):
            for link in list(near.broker.cluster.peers._peers):
                if link.hello.voter == far.voter:
                    link.close("lost")
        return submit(self, command)

    with patch.object(ControllerHost, "submit", lost):
        yield


def test_a_broker_joins_by_one_that_does_not_lead() -> None:
    """
    It is not registered, so that nobody can dial it; and the one that it was told to join has no log for it.
    """
    run, last = four_brokers_led_by_the_second()

    last.start()

    pass_time(run, lambda: last.is_ready)
    assert leads(run.machines[1])


def test_a_broker_that_dies_before_it_has_the_metadata_finds_the_leader_again() -> None:
    """
    Its directory says who it is, and nothing of where the others are.
    """
    run, last = four_brokers_led_by_the_second()
    last.start()
    pass_time(run, lambda: last.voter is not None)
    last.kill()

    last.start()

    pass_time(run, lambda: last.is_ready)
    assert leads(run.machines[1])


def four_brokers_led_by_the_second() -> tuple[ClusterRun, BrokerMachine]:
    """The last of them has not been started yet, and is told to join the first."""
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
    """The metadata shard."""
    return machine.broker is not None and machine.broker.shard_table.shards[METADATA_SHARD].is_serving


def test_what_only_the_leader_has_acknowledged_is_seen_to_be_lost() -> None:
    """
    The control: with acks=1 records are lost with their leader, and a check that did not say so would be blind.
    """
    for seed in range(SEEDS_OF_CONTROL):
        drawn = replace(knobs(3).without_faults(), acks=1, partitions=1, duration_s=12, partition=0.5, kill=0.2)
        try:
            ClusterRun(seed, drawn).run()
        except InvariantViolation:
            return
    raise AssertionError(f"nothing was lost in {SEEDS_OF_CONTROL} runs")


def three_brokers_with_a_topic(records: int = 20, **options: int) -> ClusterRun:
    """All of them vote upon the metadata, and a topic has three replicas and a few records."""
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
def test_a_broker_whose_journal_rots_comes_back_as_another_voter(is_missed: bool) -> None:
    """
    It could have held anything, votes too; what it had is set aside, and the others give it everything.  Those who have
    not missed it yet refuse it at first.
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


def test_a_broker_that_begins_again_keeps_its_number_wherever_it_is_stopped() -> None:
    """
    It has set its damaged directory aside, and the disk is full before it has another: what is planned for its number
    would wait for ever, were it given another one.
    """
    run = three_brokers_with_a_topic()
    last = run.machines[2]
    before = last.voter
    others = run.faults._others(last)
    last._broker_id = None  # only the directory knows it
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


def test_a_broker_that_has_lost_its_identity_takes_nobodys_place() -> None:
    """
    It is not started, and is told to restore the file.  Had it asked the cluster before, another directory would have
    its number then, and the one with the data could not come back.
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


def test_a_clean_stop_lets_others_lead_before_it_is_over() -> None:
    """
    Clients are answered without a break: nobody waits until a broker is missed and another has been elected.
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


def test_a_broker_that_meets_a_metadata_record_of_a_newer_version_ends() -> None:
    """Else it would go on with another opinion of the cluster than those who understand it."""
    run = three_brokers_with_a_topic()
    controller = next(machine for machine in run.machines if machine.broker.controller.leads)  # type: ignore[union-attr]
    shard = controller.broker.shard_table.shards[METADATA_SHARD]  # type: ignore[union-attr]

    controller.loop.call_soon(append_own, shard.partitions[0], build_batch([(None, b"\x63\x00", (), 0)]), 0)

    def running() -> list[BrokerMachine]:
        return [machine for machine in run.machines if machine.is_running]

    pass_time(run, lambda: len(running()) == 1)  # who is left commits nothing any more
    (left,) = running()
    left.kill()
    left.start()
    run.timeline.run_until(run.timeline.now_us + seconds(5))
    assert left.is_running  # it reads what is not committed for addresses alone


@pytest.mark.parametrize("number", range(3))
def test_a_segment_that_rots_is_replaced_by_what_others_have(number: int) -> None:
    """
    Whoever reads it finds it, leader or not; and the metadata is a shard like any other.
    """
    run = three_brokers_with_a_topic()
    machine = run.machines[number]

    assert machine.rot(Random(number)) is not None
    assert machine.is_rotten

    pass_time(run, lambda: run.check.agree() and not machine.is_rotten)
    assert run.check.rot_found


@pytest.mark.parametrize("records", [20, 300], ids=["few", "many"])
@pytest.mark.parametrize("byte", [7, MAGIC_POSITION, 80], ids=["base offset", "magic", "record"])
def test_who_was_wiped_is_caught_up_though_the_leader_rots(byte: int, records: int) -> None:
    """
    Where a batch's CRC covers nothing, too.  Found by a second reader: the copy was refused for ever, 785 times in 300
    seconds, and its leader thought itself whole.  Where it lacks many records it does not vote before it has them: with
    two voters nobody can repair the leader, and the one that is whole must lead.
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


def test_leaders_that_are_alike_damaged_do_not_hand_over_for_ever() -> None:
    """
    Neither has what a third asks for.  Found by a third reader: eight elections a second.
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
    """Of the shard that has the topic's first partition."""
    assert machine.broker is not None
    partition = machine.broker.shard_table.partition("flights", 0)
    assert partition is not None
    return partition.shard


@pytest.mark.parametrize("seed", ROTTEN)
def test_a_cluster_heals_of_rot_among_other_faults(seed: int) -> None:
    """
    Found by readers, by leaders that copy for others, by starts, or by the last look at all bytes.
    """
    drawn = ClusterKnobs.draw(Random(seed), (3, 3, 5)[seed % 3])
    run = ClusterRun(seed, replace(drawn, rot=0.3, options=replace(drawn.options, cache_bytes_max=0)))

    run.run()

    assert run.faults.struck[Fault.ROT]


@pytest.mark.parametrize("seed", [37, 84, 135])
def test_a_seed_that_has_found_something_is_run_again(seed: int) -> None:
    """With the faults that there were then."""
    ClusterRun(seed, replace(ClusterKnobs.draw(Random(seed)), aimed=0.0, client_cut_off=0.0)).run()
