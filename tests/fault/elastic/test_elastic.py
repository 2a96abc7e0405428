"""
Brokers of a running cluster come, go and die for good, and the data follows them.  No acknowledged record is lost,
duplicated or reordered, and brokers that are only away for a while keep their replicas.

The delays are a tenth of the defaults in `make soak`, and shorter in the suite.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.fault.cluster_processes import ClusterProcesses, wait_until
from tests.fault.cluster_scene import Verdict
from tests.fault.elastic.elastic_scene import CHECK_SECONDS, HEAVY_SHARD, ElasticScene, Operator
from tests.fault.elastic.majority_watch import MajorityWatch
from tests.fault.extent import IS_WHOLE, SLACK, times
from tests.fault.judgement import KILLED_SECONDS_MAX, SILENT_SECONDS_MAX, show_kept
from tests.fault.small_disk import full_disk, small_disk

RUNS = times(1, 5)
SILENT_MS, RETURN_MS = times(1_000, 6_000), times(1_500, 3_000)
REPLACED_MS = times(3_000, 30_000)  # after so much silence, the replicas of a broker are placed elsewhere,
PATIENT_MS = times(60_000, 30_000)  # or after so much: a start takes seconds where the suite keeps both cores busy
SETTINGS = {
    "tidemill.broker.silent.ms": SILENT_MS,
    "tidemill.broker.return.ms": RETURN_MS,
    "tidemill.replica.replacement.delay.ms": REPLACED_MS,
    "tidemill.load.report.ms": times(500, 1_000),
    "tidemill.rebalance.disk.percent.max": 95,  # other work on this machine fills its disk, too
}
DELAY_KEY, THROTTLE_KEY = "tidemill.replica.replacement.delay.ms", "tidemill.replica.move.bytes.per.second"
FOUNDERS, NEWCOMER = (1, 2, 3), 4
BROKERS = (1, 2, 3, 4)
SMALL_BROKER = 4  # it has a small disk
AWAY_MS = times(2_000, 27_000)  # how long a broker is dead that is not replaced
FLAP_SECONDS = 1.0  # a broker that flaps is down for so long, and up for less than so long and RETURN_MS
FLAPS_MIN = 2
PASS_SECONDS = 1.0  # between two plans of the controller
HEAVY_BYTES = 16 << 20
SLOW, FAST = 64 << 10, 100 << 20  # bytes a second: a move that does not end, and one that does

KILLED = "kill -9 of a broker"


@pytest.fixture(scope="module")
def running_four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Run a cluster of four brokers that reach each other through proxies; one has a small disk if that is allowed."""
    directory = tmp_path_factory.mktemp("elastic")
    with (
        small_disk(directory / f"broker-{SMALL_BROKER}"),
        ClusterProcesses(directory, numbers=BROKERS, settings=SETTINGS, is_proxied=True) as cluster,
    ):
        begin(cluster, BROKERS)
        yield cluster


@pytest.fixture
def four(running_four: ClusterProcesses) -> ClusterProcesses:
    """Restore the cluster of four brokers, and wait until the controller counts on all of them and nothing moves."""
    cluster, operator = running_four, Operator(running_four)
    cluster.recover()
    cluster.configure({DELAY_KEY: PATIENT_MS, THROTTLE_KEY: FAST})
    for number in BROKERS:
        operator.wait_until_presence(number, "active")
    return cluster


def begin(cluster: ClusterProcesses, numbers: tuple[int, ...]) -> None:
    """Start the first brokers of a cluster, and wait until the metadata has three replicas."""
    cluster.start(*numbers)
    wait_until(lambda: len(cluster.voters()) == len(FOUNDERS), "metadata with three voters")


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


@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.timeout(times(180, 600))
def test_the_data_follows_brokers_that_come_go_and_die(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    A fourth broker joins and gets its share; one is killed and never comes back; a new one with an empty disk gets its
    number; one is drained, stopped and removed.  In the end, all shards have three replicas on the other three.
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
            scene.strike(KILLED, dying, lambda: cluster.kill(dying))
            cluster.wipe(dying)
            wait_until(lambda: not carries(scene, dying), "other replicas", check_seconds=CHECK_SECONDS)
            scene.wait_until_still()
            scene.operator.remove(dying)
            cluster.start(dying, joins=cluster.running())
            scene.during("a broker is drained and removed", lambda: retire(scene, leaving))
            cluster.wipe(leaving)
            assert cluster.voters() <= {*staying}
            scene.wait_until_whole(staying)
            finish(scene, watch, capsys)


def join(scene: ElasticScene, number: int) -> None:
    """Start a new broker, and wait until replicas move to it."""
    scene.cluster.start(number, joins=scene.cluster.running())
    wait_until(lambda: carries(scene, number), f"replicas on broker {number}", check_seconds=CHECK_SECONDS)


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


def carries(scene: ElasticScene, number: int) -> bool:
    """Return whether a shard of the topic is planned on a broker."""
    return any(number in replicas for replicas in scene.operator.planned(scene.topic).values())


@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.timeout(times(180, 900))
def test_a_broker_that_comes_back_in_time_keeps_its_replicas(
    seed: int, four: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Nothing moves while a broker is dead for a little less than the delay.  A broker that comes and goes is silent all
    the time: its replicas stay as long as that is less than the delay, and are placed elsewhere then.
    """
    random = Random(seed)
    victim, *others = random.sample(BROKERS, len(BROKERS))
    shards = [(victim, others[0], others[1]), (others[1], victim, others[2]), (others[2], others[0], others[1])]
    with (
        ElasticScene(four, "away", shards=shards) as scene,
        MajorityWatch(four, "away", has_whole_plans=True) as watch,
    ):
        operator = scene.operator
        before = operator.planned(scene.topic)

        began_ms = time.time() * 1_000
        scene.strike(KILLED, victim, lambda: four.kill(victim))
        operator.wait_until_presence(victim, "silent")
        wait_until(lambda: operator.broker(victim)["silent_ms"] >= AWAY_MS, "silence", check_seconds=CHECK_SECONDS)
        four.start(victim)
        operator.wait_until_presence(victim, "active")
        assert operator.planned(scene.topic) == before
        assert not replaced(operator, victim, since_ms=began_ms)

        flaps = 0
        while operator.presence(victim) != "gone":
            flap(scene, victim, before)
            flaps += 1
            if not IS_WHOLE and flaps == FLAPS_MIN:
                # Only the silence of all flaps together is so long.
                four.configure({DELAY_KEY: max(SILENT_MS, operator.broker(victim)["silent_ms"])})
        assert flaps >= FLAPS_MIN
        wait_until(lambda: not carries(scene, victim), "other replicas", check_seconds=CHECK_SECONDS)
        assert replaced(operator, victim, since_ms=began_ms)
        scene.wait_until_still()
        four.recover()
        operator.wait_until_presence(victim, "active")
        scene.wait_until_whole(BROKERS)
        finish(scene, watch, capsys)


def flap(scene: ElasticScene, victim: int, planned: dict[int, list[int]]) -> None:
    """Kill a broker and start it again.  Assert that its replicas stay as they are planned as long as it is not gone.

    The broker is dead at the end of the flap if it is gone.
    """
    cluster, operator = scene.cluster, scene.operator
    if victim in cluster.running():
        scene.strike(KILLED, victim, lambda: cluster.kill(victim))
    deadline = time.monotonic() + FLAP_SECONDS
    while time.monotonic() < deadline:
        found = operator.planned(scene.topic)
        if operator.presence(victim) == "gone":
            return
        assert found == planned, f"broker {victim} was replaced while it flapped"
        time.sleep(CHECK_SECONDS)
    cluster.start(victim)
    scene.load.run_for(FLAP_SECONDS / 2)


def replaced(operator: Operator, number: int, *, since_ms: float) -> list[str]:
    """Return the sentences of the controller's steps since a time that place replicas of a broker elsewhere."""
    steps = [it for it in operator.report()["recent"] if it["at_ms"] >= since_ms and it["reason"] == "replace"]
    return [it["sentence"] for it in steps if f": broker {number} silent" in it["sentence"]]


@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.timeout(times(180, 600))
def test_nothing_moves_while_others_hear_a_broker(
    seed: int, four: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    The controller and one broker cannot reach each other for longer than the delay, and the others hear both.  The
    controller stays, and re-places nothing.
    """
    assert four.proxies is not None
    controller = four.controller()
    others = [it for it in BROKERS if it != controller]
    unheard, *others = Random(seed).sample(others, len(others))
    shards = [(controller, unheard, others[0]), (unheard, others[1], controller), (others[0], others[1], unheard)]
    pairs = [(controller, unheard), (unheard, controller)]
    with (
        ElasticScene(four, "unheard", shards=shards) as scene,
        MajorityWatch(four, "unheard", has_whole_plans=True) as watch,
    ):
        four.configure({DELAY_KEY: REPLACED_MS})
        began_ms = time.time() * 1_000
        before = scene.operator.planned(scene.topic)

        four.proxies.hold(*pairs)
        scene.strike_all("the controller is cut from a broker", lambda: look_for_silence(scene, controller, unheard))
        assert four.controller() == controller
        four.proxies.heal()

        scene.calm()
        assert scene.operator.planned(scene.topic) == before
        assert not replaced(scene.operator, unheard, since_ms=began_ms)
        scene.wait_until_whole(BROKERS)
        finish(scene, watch, capsys)


def look_for_silence(scene: ElasticScene, controller: int, unheard: int) -> None:
    """
    Wait until the controller does not hear a broker, and for longer than the delay.  Assert that it counts on the
    broker all the time.
    """

    def state() -> dict[str, Any]:
        return next(it for it in scene.operator.report(at=controller)["brokers"] if it["broker_id"] == unheard)

    wait_until(lambda: not state()["is_live"], f"broker {controller} without broker {unheard}")
    deadline = time.monotonic() + REPLACED_MS / 1_000 + 2 * PASS_SECONDS
    while time.monotonic() < deadline:
        found = state()
        assert not found["is_live"] and found["heard_by"] > 0
        assert found["presence"] == "active", f"broker {unheard} is {found['presence']}, and others hear it: {found}"
        time.sleep(CHECK_SECONDS)


@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.timeout(times(180, 600))
def test_a_move_survives_kills(seed: int, four: ClusterProcesses, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A move ends although the leader that sends the copy and the controller are killed meanwhile.  If the new broker is
    killed, the shard gets another goal.  The files of the replicas that leave are removed.
    """
    order = Random(seed).sample(BROKERS, len(BROKERS))
    with (
        ElasticScene(four, "killed-moves", shards=placed_around(order)) as scene,
        MajorityWatch(four, "killed-moves", has_whole_plans=False) as watch,
    ):
        operator = scene.operator
        scene.write_heavy(HEAVY_BYTES)

        source, target = begin_move(scene)
        goal = operator.planned(scene.topic)[scene.heavy_shard]
        kill_and_start(scene, source)
        assert scene.is_copying(target)
        kill_and_start(scene, four.controller())
        assert scene.is_copying(target)
        four.configure({THROTTLE_KEY: FAST})
        scene.wait_until_still()
        assert operator.planned(scene.topic)[scene.heavy_shard] == goal

        _, target = begin_move(scene)
        scene.strike(KILLED, target, lambda: four.kill(target))
        wait_until(
            lambda: target not in operator.planned(scene.topic)[scene.heavy_shard],
            "another goal",
            check_seconds=CHECK_SECONDS,
        )
        four.configure({THROTTLE_KEY: FAST})
        four.start(target)
        operator.wait_until_presence(target, "active")
        scene.wait_until_whole(BROKERS)
        finish(scene, watch, capsys)


@pytest.mark.parametrize("seed", range(RUNS))
@pytest.mark.timeout(times(180, 600))
def test_a_move_to_a_full_disk_gets_another_goal(
    seed: int, four: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shard that moves to a broker whose disk is full gets another goal, and its files on that disk are removed."""
    order = [*Random(seed).sample(FOUNDERS, len(FOUNDERS)), SMALL_BROKER]
    with (
        ElasticScene(four, "full-moves", shards=placed_around(order)) as scene,
        MajorityWatch(four, "full-moves", has_whole_plans=False) as watch,
    ):
        operator = scene.operator
        scene.write_heavy(HEAVY_BYTES)

        _, target = begin_move(scene)
        assert target == SMALL_BROKER
        with full_disk(four, SMALL_BROKER, 0):
            four.configure({THROTTLE_KEY: FAST})
            wait_until(
                lambda: SMALL_BROKER not in operator.planned(scene.topic)[scene.heavy_shard],
                "another goal",
                check_seconds=CHECK_SECONDS,
            )
            scene.load.wait_for_progress()
        scene.wait_until_whole(BROKERS)
        finish(scene, watch, capsys)


def placed_around(order: list[int]) -> list[tuple[int, int, int]]:
    """Return the replicas of each shard, such that the last broker of `order` has none of the heavy shard."""
    first, second, third, last = order
    return [(second, third, last), (third, last, first), (first, second, third)]


def begin_move(scene: ElasticScene) -> tuple[int, int]:
    """
    Begin to move the heavy shard, and return the broker that leads it and is to leave, and the new one.  The copy does
    not end by itself.
    """
    operator = scene.operator
    scene.cluster.configure({THROTTLE_KEY: SLOW})
    replicas = operator.planned(scene.topic)[scene.heavy_shard]
    source = scene.leader(HEAVY_SHARD)
    (target,) = {*BROKERS} - {*replicas}
    operator.move(scene.heavy_shard, [*(it for it in replicas if it != source), target])
    wait_until(lambda: scene.is_copying(target), f"a copy to broker {target}")
    return source, target


def kill_and_start(scene: ElasticScene, victim: int) -> None:
    scene.strike(KILLED, victim, lambda: scene.cluster.kill(victim))
    scene.cluster.start(victim)
    scene.load.wait_for_progress()
