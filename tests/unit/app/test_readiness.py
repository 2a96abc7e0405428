"""What `/health/ready` reports about a broker that serves clients although something is degraded."""

import json
import re

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.app.observed import ObservedBroker
from tidemill.app.readiness import CLOCK_OFF_MS, NEARLY_FULL, problems
from tidemill.broker.broker import Broker
from tidemill.broker.peers.replica_lag import RESTED_TICKS
from tidemill.broker.shards.ready_loop import SYNC_MS_MAX
from tidemill.metadata.broker_states import SetDrain
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.broker_state import Drain
from tidemill.storage.partition.segment import SegmentDamaged


def names(broker: Broker) -> list[str]:
    return [problem["problem"] for problem in problems(broker)]


def counts(broker: Broker) -> dict[str, int]:
    return {problem["problem"]: problem["count"] for problem in problems(broker)}


def test_a_healthy_broker_has_no_problems() -> None:
    """
    A broker that serves everything reports no problems.
    """
    world = BrokerWorld()
    world.create("flights")
    world.broker.tick()

    assert [] == ObservedBroker(lambda: world.broker).problems()


def test_a_broker_that_waits_to_join_says_so() -> None:
    """
    A broker that waits to join reports this as a problem.  The problem names the addresses that the broker asks for
    admission, and the log event that contains the reason.
    """
    observed = ObservedBroker(lambda: None, join=("mill-1:9070", "mill-2:9070"))

    (problem,) = observed.problems()

    assert ("waiting_to_join", 1) == (problem["problem"], problem["count"])
    assert "tidemill.join=mill-1:9070,mill-2:9070" in problem["detail"]
    assert "`waiting to join`" in problem["detail"]


@pytest.mark.parametrize(
    ("free", "named"), [(1, "disk_full"), (NEARLY_FULL - 1, "disk_nearly_full"), (NEARLY_FULL, "")]
)
def test_a_disk_is_nearly_full_before_writes_are_refused(
    free: int, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A disk with less free space than writes require is reported as full, and one with less than `NEARLY_FULL` times as
    much as nearly full.  `free` is the free space as a multiple of the required space; for 1, the test subtracts one
    byte.
    """
    world = BrokerWorld()
    world.broker.tick()
    needed = world.broker.metrics.disk_needed_bytes
    monkeypatch.setattr(world.disk, "free_space", lambda: free * needed - (free == 1))

    world.broker.tick()

    found = problems(world.broker)
    assert [it for it in (named,) if it] == [it["problem"] for it in found if it["problem"].startswith("disk")]
    assert all("log.dirs" in it["detail"] and repr(it["count"]) == "1" for it in found if it["problem"] == named)


def test_a_disk_that_hangs_is_a_problem() -> None:
    """
    A disk that hangs is reported as a stalled journal, because no batch is acknowledged meanwhile.
    """
    world = BrokerWorld()
    world.create("flights")
    world.writes = False
    world.partition("flights").shard.move_log_start(0, 0, world.clock.wall_ms())
    world.stabilize()

    for _ in range(SYNC_MS_MAX // 250 + 2):
        world.pass_time(250)

    assert "journal_stalled" in names(world.broker)


def test_a_cluster_that_lacks_a_broker_says_so() -> None:
    """
    When one of three brokers is down, the problem has a name, which is meant for programs, and a count and a sentence
    for people.
    """
    world = ClusterWorld()
    world.create("flights")
    world.lead("flights", by=1)
    world.pass_time(250 * (RESTED_TICKS + 1))
    before = names(world[1].broker)
    world.stopped.add(3)
    world.cut_off(3)

    world.pass_time(250 * (RESTED_TICKS + 1))

    found = {it["problem"]: it for it in problems(world[1].broker)}
    assert ([], ["under_replicated_partitions"]) == (before, [*found])
    assert 1 <= found["under_replicated_partitions"]["count"]
    assert found == json.loads(json.dumps(found))


def test_partitions_that_refuse_writes_are_counted() -> None:
    """
    When one of three brokers is down, five partitions lack a replica, but only the two that require all three replicas
    count as refusing writes with acks=all.
    """
    world = ClusterWorld()
    world.create("flights", 2, min_insync_replicas="3")
    world.create("trains", 3)
    for topic, count in (("flights", 2), ("trains", 3)):
        for number in range(count):
            world.lead(topic, number, by=1)
    world.pass_time(250 * (RESTED_TICKS + 1))
    before = counts(world[1].broker)
    world.stopped.add(3)
    world.cut_off(3)

    world.pass_time(250 * (RESTED_TICKS + 1))

    found = counts(world[1].broker)
    assert ({}, 2) == (before, found["under_min_insync_partitions"])
    assert 5 <= found["under_replicated_partitions"]


def test_partitions_with_damaged_files_are_counted_until_they_are_repaired() -> None:
    """
    A damaged file makes its broker's replica of the entire shard unusable, so both partitions of the shard are counted
    until the file is repaired.
    """
    world = ClusterWorld()
    world.create("flights", 2)
    world.lead("flights", by=1)
    world[1].produce("flights", b"value")
    world.pass_time(250 * (RESTED_TICKS + 1))
    broker, partition = world[3].broker, world[3].partition("flights")

    partition.shard.damage.mark(SegmentDamaged(partition.log.segments[0].path, 0, 0, "a flipped bit"))
    damaged = counts(broker)
    world.until(lambda: "damaged_partitions" not in counts(broker), "it is repaired")

    assert {"damaged_partitions": 2} == damaged


def test_an_isolated_broker_says_that_it_hears_no_majority() -> None:
    """
    An isolated broker reports that it hears no majority.  It also reports leaderless partitions, because it knows no
    leader that is up.
    """
    world = ClusterWorld()
    world.create("flights")
    world.stopped |= {1, 2}
    for number in (1, 2):
        world.cut_off(number)

    world.pass_time(5_000)

    assert {"no_quorum_contact", "leaderless_partitions"} <= {*names(world[3].broker)}


@pytest.mark.parametrize(
    ("second_ms", "third_ms", "named"),
    [
        (CLOCK_OFF_MS, -CLOCK_OFF_MS, []),
        (5, CLOCK_OFF_MS + 6, ["broker 3 by +1001 ms"]),
        (-5, -CLOCK_OFF_MS - 6, ["broker 3 by -1001 ms"]),
        (3_600_000, 3_600_002, ["broker 1 by -3600000 ms"]),
        (-3_600_000, 3_600_000, ["broker 2 by -3600000 ms", "broker 3 by +3600000 ms"]),
    ],
)
def test_a_broker_names_the_clocks_that_are_wrong(second_ms: int, third_ms: int, named: list[str]) -> None:
    """
    Clocks are wrong if they differ by more than a second from the median, which may show that this broker's own is
    wrong.  `second_ms` and `third_ms` are how far the clocks of the other brokers are ahead.
    """
    world = ClusterWorld()
    world.create("flights")
    world.lead("flights", by=1)
    world.pass_time(250 * (RESTED_TICKS + 1))
    readings = world[1].broker.cluster.clocks
    for number, ahead_ms in ((2, second_ms), (3, third_ms)):
        readings.heard(world[number].broker.identity.voter, world.clock.now_ms + ahead_ms)

    found = [it for it in problems(world[1].broker) if it["problem"] == "wrong_clocks"]

    assert [len(named)] * bool(named) == [it["count"] for it in found]
    assert named == [part for it in found for part in re.findall(r"broker \d by [+-]\d+ ms", it["detail"])]


def test_two_clocks_that_differ_are_a_problem() -> None:
    """
    With two clocks none is known to be right, but that one of them is wrong is told.
    """
    world = BrokerWorld()
    other = ReplicaKey(BrokerId(7), DirectoryId(bytes(16)))
    world.broker.cluster.clocks.heard(other, world.clock.now_ms + CLOCK_OFF_MS + 1)

    assert "wrong_clocks" in names(world.broker)


def test_a_broker_that_stops_says_that_it_drains() -> None:
    """
    While a broker stops, it reports that it drains leadership, and nothing else.
    """
    world = BrokerWorld()
    world.broker.is_ready = False
    for _ in range(20):
        world.pass_time(250)

    assert ["draining"] == names(world.broker)
    assert "it does not serve clients" in problems(world.broker)[0]["detail"]


def test_a_broker_that_an_operator_drains_does_not_look_broken() -> None:
    """
    Otherwise an operator looks for stale metadata or a full disk, while the drain has been forgotten.
    """
    world = BrokerWorld()
    answers: list[object] = []
    command = SetDrain(broker_id=world.broker.broker_id, drain=Drain.LEADERS)
    world.broker.controller.submit(command).then(answers.append)
    world.stabilize()

    (problem,) = problems(world.broker)

    assert "draining" == problem["problem"]
    assert problem["detail"].endswith("because an operator drains it; `tidemill cluster undrain 1` ends that")
