"""The limit up to which the leaders of timer partitions may release records."""

from dataclasses import replace

from tests.unit.broker.broker_world import HandClock
from tests.unit.broker.cluster_world import TICK_MS, ClusterWorld
from tidemill.broker.peers.release_limit import ReleaseLimit
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.timer.release_clock import READING_MS_MAX

ME, SECOND, THIRD = VOTERS = [ReplicaKey(BrokerId(number), DirectoryId(bytes([number]) * 16)) for number in (1, 2, 3)]


def test_a_single_voter_follows_its_own_clock() -> None:
    """The limit of a shard without other voters is the wall clock, wrong or not, whatever other brokers tell."""
    clock = HandClock()
    readings = ReleaseLimit(clock)
    readings.heard(SECOND, clock.now_ms - 5)
    clock.wrong_ms = -3_600_000

    assert clock.now_ms - 3_600_000 == readings.limit((ME,), ME)


def test_time_since_a_reading_is_counted_by_how_much_the_clock_of_the_machine_may_drift() -> None:
    clock = HandClock()
    readings = ReleaseLimit(clock, drift_max=0.5)
    readings.heard(SECOND, clock.now_ms)
    began_ms = clock.now_ms
    clock.now_ms += 1_000

    assert began_ms + 500 == readings.limit((ME, SECOND), ME)


def test_the_limit_is_that_of_the_voters_of_the_shard() -> None:
    """Clocks of brokers that are no voters of a shard have no say in its limit."""
    clock = HandClock()
    readings = ReleaseLimit(clock)
    readings.heard(SECOND, clock.now_ms - 5)
    before = readings.limit(VOTERS, ME)
    readings.heard(THIRD, clock.now_ms + 60_000)

    assert clock.now_ms - 5 == before
    assert clock.now_ms == readings.limit(VOTERS, ME)
    assert clock.now_ms - 5 == readings.limit((ME, SECOND), ME)


def test_no_limit_is_known_when_the_others_are_silent() -> None:
    """A reading expires although the own wall clock stands still or goes back."""
    clock = HandClock()
    readings = ReleaseLimit(clock)
    readings.heard(SECOND, clock.now_ms)
    clock.now_ms += READING_MS_MAX
    clock.wrong_ms = -READING_MS_MAX
    known = readings.limit(VOTERS, ME)
    clock.now_ms += 1
    clock.wrong_ms -= 1

    assert (True, None, {}) == (known is not None, readings.limit(VOTERS, ME), readings.offsets())


def test_a_stall_of_this_process_counts_as_time() -> None:
    """
    After a stop of nine seconds, the clock of a peer is nine seconds further, and after an hour it is unknown.  A clock
    that does not count stalls would take it for as late as before, and release nothing until the next heartbeat.
    """
    world = ClusterWorld()
    world.pass_time(TICK_MS)
    cluster = world[1].broker.cluster
    voters = [world[number].broker.identity.voter for number in (1, 2, 3)]
    stopped_ms = world.clock.now_ms
    world.clock.now_ms += 9_000
    after_seconds = cluster.clocks.limit(voters, cluster.me)
    world.clock.now_ms += 3_600_000

    assert (stopped_ms + 8_991, None) == (after_seconds, cluster.clocks.limit(voters, cluster.me))


def test_offsets_are_those_of_other_brokers() -> None:
    """An offset is positive when the other clock is ahead."""
    clock = HandClock()
    readings = ReleaseLimit(clock)
    readings.heard(SECOND, clock.now_ms - 1_500)
    readings.heard(THIRD, clock.now_ms + 2_000)
    clock.wrong_ms = 500

    assert {SECOND: -2_000, THIRD: 1_500} == readings.offsets()


def test_each_broker_hears_the_clocks_of_the_others() -> None:
    """Heartbeats carry the wall clocks, and each broker has a limit for its shards."""
    world = ClusterWorld()
    world.pass_time(TICK_MS)
    cluster = world[1].broker.cluster
    voters = [world[number].broker.identity.voter for number in (1, 2, 3)]

    assert {voters[1]: 0, voters[2]: 0} == cluster.clocks.offsets()
    assert world.clock.now_ms == cluster.clocks.limit(voters, cluster.me)


def test_a_broker_that_has_left_is_forgotten() -> None:
    """The clock of a broker that the image does not have any more is no longer shown."""
    world = ClusterWorld()
    world.pass_time(TICK_MS)
    cluster = world[1].broker.cluster
    image = cluster.image
    third = world[3].broker.identity.voter
    brokers = {number: broker for number, broker in image.brokers.items() if broker.voter != third}

    cluster.follow(image, replace(image, brokers=brokers))

    assert {world[2].broker.identity.voter} == {*cluster.clocks.offsets()}
