"""
Brokers of a running cluster come, go and die for good, and the data follows them.  No acknowledged record is lost,
duplicated or reordered, and a broker that is only away for a while keeps its replicas.

The delays are a tenth of the defaults in `make soak`, and shorter in the suite.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from tests.fault.cluster_processes import ClusterProcesses, wait_until
from tests.fault.cluster_scene import Verdict
from tests.fault.elastic.elastic_scene import CHECK_SECONDS, HEAVY_SHARD, ElasticScene, Operator, Row
from tests.fault.elastic.majority_watch import MajorityWatch
from tests.fault.extent import IS_WHOLE, SLACK, times
from tests.fault.judgement import KILLED_SECONDS_MAX, SILENT_SECONDS_MAX, show_kept
from tests.fault.small_disk import full_disk, small_disk

RUNS = times(1, 5)
DELAY_KEY = "tidemill.replica.replacement.delay.ms"  # after so much silence, a broker's replicas are placed elsewhere
SHORT_MS = times(1_500, 30_000)
PATIENT_MS = times(60_000, 30_000)  # a broker takes seconds to start where the suite keeps both cores busy
SILENT_MS = times(1_000, 6_000)
AWAY_MS = times(3_500, 22_000)  # how long a broker is dead that is not replaced; it takes seconds to start, too
RETURN_KEY = "tidemill.broker.return.ms"  # a broker that lives for so long without a gap is no longer silent
FLAPPING_MS = times(15_000, 3_000)  # longer than a broker that flaps is up, also where a start takes seconds
THROTTLE_KEY = "tidemill.replica.move.bytes.per.second"
SLOW, FAST = 64 << 10, 100 << 20  # a move that does not end, and one that does
SETTINGS = {
    DELAY_KEY: PATIENT_MS,
    THROTTLE_KEY: FAST,
    "tidemill.broker.silent.ms": SILENT_MS,
    RETURN_KEY: times(1_500, 3_000),
    "tidemill.load.report.ms": times(500, 1_000),
    "tidemill.rebalance.disk.percent.max": 95,  # other work fills the disk of this machine, too
    "offsets.topic.num.partitions": 1,  # its shards move as well, and nothing is in them
}
FOUNDERS, NEWCOMER = (1, 2, 3), 4
BROKERS = (1, 2, 3, 4)
SMALL_BROKER = 4  # it has a small disk
METADATA_VOTERS = 3  # of a cluster of three or four brokers
FLAP_SECONDS = 1.0  # a broker that flaps is down for so long, and up until the controller knows it
FLAPS_MIN, FLAPS_MAX = 2, times(8, 40)
CUTS_MAX = times(5, 1)  # a controller that gets no CPU for seconds loses its place: then the cut is made again
PASS_SECONDS = 1.0  # between two plans of the controller
HEAVY_BYTES = 16 << 20

KILLED = "kill -9 of a broker"
Planned = dict[int, list[int]]


@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.timeout(times(240, 900))
def test_the_data_follows_brokers_that_come_go_and_die(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    A fourth broker joins and gets its share.  Another one comes back in time, then comes and goes, and at last never
    comes back; a new one with an empty disk gets its number.  A third one is drained, stopped and removed.  In the end,
    all shards have three replicas on the other three.
    """
    dying, leaving = Random(seed).sample(FOUNDERS, 2)
    staying = [it for it in BROKERS if it != leaving]
    with ClusterProcesses(tmp_path, numbers=BROKERS, settings=SETTINGS) as cluster:
        begin(cluster, FOUNDERS)
        with (
            ElasticScene(cluster, "followed") as scene,
            MajorityWatch(cluster, "followed", has_whole_plans=True) as watch,
        ):
            scene.during("a broker joins", lambda: join(scene, NEWCOMER))
            come_back_in_time(scene, dying)
            flap_until_gone(scene, dying)
            cluster.wipe(dying)
            scene.wait_until_still()
            scene.operator.remove(dying)
            cluster.start(dying, joins=cluster.running())
            scene.during("a broker is drained and removed", lambda: retire(scene, leaving))
            cluster.wipe(leaving)
            assert cluster.voters() <= {*staying}
            scene.wait_until_whole(staying)
            finish(scene, watch, capsys)


@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.timeout(times(240, 900))
def test_moves_end_whatever_fails(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Nothing moves while the controller does not hear a broker that others hear.  A move ends although the leader that
    sends the copy is killed, and the controller; if the new broker is killed, or its disk is full, the shard gets
    another goal.  The files of the replicas that leave are removed.
    """
    with (
        small_disk(tmp_path / f"broker-{SMALL_BROKER}"),
        ClusterProcesses(tmp_path, numbers=BROKERS, settings=SETTINGS, is_proxied=True) as cluster,
    ):
        begin(cluster, BROKERS)
        order = placing_order(cluster, seed)
        with (
            ElasticScene(cluster, "moved", shards=placed_in(order)) as scene,
            MajorityWatch(cluster, "moved", has_whole_plans=False) as watch,
        ):
            cut_from_the_controller(scene, Random(seed))
            scene.write_heavy(HEAVY_BYTES)
            has_small_disk = os.path.ismount(cluster.data_directory(SMALL_BROKER))
            if has_small_disk:
                move_to_a_full_disk(scene)
            move_through_kills(scene)
            if IS_WHOLE or not has_small_disk:
                move_to_a_killed_broker(scene)
            scene.wait_until_whole(BROKERS)
            finish(scene, watch, capsys)


def begin(cluster: ClusterProcesses, numbers: Sequence[int]) -> None:
    """
    Start the first brokers of a cluster, and wait until the metadata has three replicas.  Have each broker load its
    HTTP API, which stops a broker for a moment.
    """
    cluster.start(*numbers)
    wait_until(lambda: len(cluster.voters()) == METADATA_VOTERS, "metadata with three voters")
    for number in numbers:
        Operator(cluster).report(at=number)


def finish(scene: ElasticScene, watch: MajorityWatch, capsys: pytest.CaptureFixture[str]) -> None:
    """End the load, and assert that all promises were kept: about records, about members, and about pauses."""
    verdict = scene.finish()
    show_kept(verdict, capsys)
    assert watch.broken == []
    assert watch.seen > 0, "the watch saw no leader"
    judge_pauses(verdict)


def judge_pauses(verdict: Verdict) -> None:
    """
    Assert that writes never paused for longer than the promise for a leader that dies, or falls silent.  These are
    maxima and not p99, because there are few faults in a run.
    """
    for fault, pauses in verdict.pauses.items():
        seconds_max = (KILLED_SECONDS_MAX if fault == KILLED else SILENT_SECONDS_MAX) * SLACK
        assert all(pause <= seconds_max for pause in pauses), f"{fault}: writes paused for {pauses} s"


# Brokers that come and go.


def join(scene: ElasticScene, number: int) -> None:
    """Start a new broker, and wait until replicas move to it."""
    scene.cluster.start(number, joins=scene.cluster.running())
    wait_until(lambda: carries(scene, number), f"replicas on broker {number}", check_seconds=CHECK_SECONDS)


def carries(scene: ElasticScene, number: int) -> bool:
    """Return whether a shard of the topic is planned on a broker."""
    return any(number in replicas for replicas in scene.planned().values())


def come_back_in_time(scene: ElasticScene, victim: int) -> None:
    """Kill a broker, and start it again a little before it would be replaced.  Assert that nothing moves."""
    cluster, operator, planned = scene.cluster, scene.operator, scene.planned()
    scene.strike(KILLED, victim, lambda: cluster.kill(victim))
    operator.wait_until_presence(victim, "silent")
    wait_until(lambda: operator.broker(victim)["silent_ms"] >= AWAY_MS, "silence", check_seconds=CHECK_SECONDS)
    assert operator.presence(victim) == "silent"
    cluster.start(victim)
    operator.wait_until_presence(victim, "active")
    assert scene.planned() == planned, f"broker {victim} was replaced although it came back"


def flap_until_gone(scene: ElasticScene, victim: int) -> None:
    """
    Kill a broker and start it again, until its replicas are placed elsewhere.  Assert that this is not before all of
    its silence together has lasted for the delay.  In the end, the broker is dead.
    """
    operator, planned = scene.operator, scene.planned()
    scene.cluster.configure({RETURN_KEY: FLAPPING_MS})
    flaps = 0
    while operator.presence(victim) != "gone":
        assert flaps < FLAPS_MAX, f"broker {victim} came and went {flaps} times, and is not gone"
        flap(scene, victim, planned)
        flaps += 1
        if not IS_WHOLE and flaps == FLAPS_MIN - 1:
            # The suite does not wait for the delay.  No single silence is so long.
            silent_ms = operator.broker(victim)["silent_ms"]
            assert silent_ms > FLAP_SECONDS * 1_000, f"the silence of broker {victim} ended when it came back"
            scene.cluster.configure({DELAY_KEY: silent_ms})
    assert flaps >= FLAPS_MIN, f"broker {victim} is gone after {flaps} flaps"
    if victim in scene.cluster.running():  # it became gone while it started
        scene.cluster.kill(victim)
    wait_until(lambda: not carries(scene, victim), "other replicas", check_seconds=CHECK_SECONDS)


def flap(scene: ElasticScene, victim: int, planned: Planned) -> None:
    """
    Kill a broker, and start it again if it does not become gone.  Assert that its replicas are planned as before until
    then.
    """
    cluster, operator = scene.cluster, scene.operator
    scene.strike(KILLED, victim, lambda: cluster.kill(victim))
    deadline = time.monotonic() + FLAP_SECONDS
    while time.monotonic() < deadline:
        found = scene.planned()
        if operator.presence(victim) == "gone":
            return
        assert found == planned, f"broker {victim} was replaced while it came and went"
        time.sleep(CHECK_SECONDS)
    cluster.start(victim)
    wait_until(lambda: operator.broker(victim)["is_live"], f"broker {victim} live", check_seconds=CHECK_SECONDS)


def retire(scene: ElasticScene, number: int) -> None:
    """Empty a broker, stop it, and remove it from the cluster."""
    operator = scene.operator
    operator.drain(number)
    wait_until(
        lambda: operator.broker(number)["replicas"] == 0 and not operator.moves(),
        f"an empty broker {number}",
        check_seconds=CHECK_SECONDS,
    )
    scene.cluster.stop(number)
    operator.remove(number)
    assert not carries(scene, number)


# The controller and one broker do not hear each other.


def cut_from_the_controller(scene: ElasticScene, random: Random) -> None:
    """Cut a broker from the controller for longer than the delay.  Assert that nothing is planned."""
    scene.cluster.configure({DELAY_KEY: SHORT_MS})
    for _ in range(CUTS_MAX):
        controller = scene.cluster.controller()
        unheard = random.choice([it for it in BROKERS if it != controller])
        if cut(scene, controller, unheard):
            break
    else:
        raise AssertionError(f"another broker became the controller, {CUTS_MAX} times")
    scene.cluster.configure({DELAY_KEY: PATIENT_MS})


def cut(scene: ElasticScene, controller: int, unheard: int) -> bool:
    """
    Hold back everything between the controller and another broker.  Assert that the controller counts on the broker all
    the time, and return whether it has been the controller all the time.
    """
    proxies, planned = scene.cluster.proxies, scene.planned()
    assert proxies is not None
    states: list[Row] = []
    proxies.hold((controller, unheard), (unheard, controller))
    scene.strike_all("the controller is cut from a broker", lambda: look_at(scene, controller, unheard, states))
    proxies.heal()
    assert [] == [it for it in states if it["presence"] != "active"]
    assert scene.planned() == planned, f"broker {unheard} was replaced, and others heard it"
    return scene.operator.controller(at=controller) == controller


def look_at(scene: ElasticScene, controller: int, unheard: int, states: list[Row]) -> None:
    """
    Add what the controller knows of a broker to `states`, until it has not heard the broker for longer than the delay.
    Return earlier if another broker becomes the controller.
    """
    unheard_since: float | None = None
    while unheard_since is None or time.monotonic() < unheard_since + SHORT_MS / 1_000 + 2 * PASS_SECONDS:
        if scene.operator.controller(at=controller) != controller:
            return
        states += [it for it in scene.operator.report(at=controller)["brokers"] if it["broker_id"] == unheard]
        if states and not states[-1]["is_live"]:
            unheard_since = unheard_since or time.monotonic()
        time.sleep(CHECK_SECONDS)


# A shard moves.


def placing_order(cluster: ClusterProcesses, seed: int) -> list[int]:
    """
    Return the brokers with the small one last.  In runs with even seeds, the first one is the controller, if that is
    not the small one.
    """
    order = Random(seed).sample(FOUNDERS, len(FOUNDERS))
    controller = cluster.controller()
    if seed % 2 == 0 and controller in order:
        order.sort(key=lambda it: it != controller)
    return [*order, SMALL_BROKER]


def placed_in(order: Sequence[int]) -> list[tuple[int, int, int]]:
    """
    Return the replicas of each shard, such that the first broker of `order` leads the heavy shard, and the last one has
    none of it.
    """
    first, second, third, last = order
    return [(second, third, last), (third, last, first), (first, second, third)]


def move_through_kills(scene: ElasticScene) -> None:
    """Kill the leader that sends a copy, and the controller.  Assert that the move ends where it was to end."""
    controller = scene.cluster.controller()
    source, target = begin_move(scene)
    goal = scene.planned()
    for victim in {source: None, controller: None}:
        scene.strike(KILLED, victim, lambda victim=victim: scene.cluster.kill(victim))
        scene.cluster.start(victim)
        scene.load.wait_for_progress()
        assert scene.is_copying(target), "the move ended before the kill"
    end_move(scene)
    scene.wait_until_still()
    assert scene.planned()[scene.heavy_shard] == goal[scene.heavy_shard]


def move_to_a_killed_broker(scene: ElasticScene) -> None:
    """Kill the new broker of a shard.  Assert that the shard gets another goal, and start the broker again."""
    _, target = begin_move(scene)
    scene.strike(KILLED, target, lambda: scene.cluster.kill(target))
    wait_until_elsewhere(scene, target)
    end_move(scene)
    scene.cluster.start(target)


def move_to_a_full_disk(scene: ElasticScene) -> None:
    """Fill the disk of the new broker of a shard.  Assert that the shard gets another goal, and free the disk."""
    _, target = begin_move(scene)
    assert target == SMALL_BROKER
    with full_disk(scene.cluster, SMALL_BROKER, 0):
        end_move(scene)
        wait_until_elsewhere(scene, SMALL_BROKER)
        scene.load.wait_for_progress()


def without_heavy(scene: ElasticScene) -> int:
    """Return the broker that is to have no replica of the heavy shard.  The planner may choose another one any time."""
    (target,) = {*BROKERS} - {*scene.planned()[scene.heavy_shard]}
    return target


def is_free(scene: ElasticScene, target: int) -> bool:
    """Return whether the heavy shard can be moved to a broker, and its files have left it."""
    is_moving = scene.heavy_shard in {it["shard_id"] for it in scene.operator.moves()}
    return not is_moving and scene.operator.can_take_replicas(target) and not scene.has_heavy_files(target)


def begin_move(scene: ElasticScene) -> tuple[int, int]:
    """
    Begin to move the heavy shard, and return the broker that leads it and is to leave, and the new one.  The copy does
    not end before `end_move`.
    """
    wait_until(lambda: is_free(scene, without_heavy(scene)), "a broker without files", check_seconds=CHECK_SECONDS)
    scene.cluster.configure({THROTTLE_KEY: SLOW})
    replicas, target = scene.planned()[scene.heavy_shard], without_heavy(scene)
    source = scene.leader(HEAVY_SHARD)
    scene.operator.move(scene.heavy_shard, [*(it for it in replicas if it != source), target])
    wait_until(lambda: scene.is_copying(target), f"a copy to broker {target}", check_seconds=CHECK_SECONDS)
    return source, target


def end_move(scene: ElasticScene) -> None:
    scene.cluster.configure({THROTTLE_KEY: FAST})


def wait_until_elsewhere(scene: ElasticScene, number: int) -> None:
    """Wait until the heavy shard is planned on other brokers."""
    wait_until(
        lambda: number not in scene.planned()[scene.heavy_shard],
        f"a goal without broker {number}",
        check_seconds=CHECK_SECONDS,
    )
