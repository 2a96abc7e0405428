"""
This version and a newer one in one cluster: brokers are replaced one by one under load, in both directions, until the
feature level is raised, and from then on the older version is refused.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault.cluster_processes import ClusterProcesses, wait_until
from tests.fault.cluster_scene import ClusterScene
from tests.fault.elastic.group_members import GroupMembers
from tests.fault.elastic.majority_watch import MajorityWatch
from tests.fault.elastic.newer_version import HEARD, NEWER
from tests.fault.elastic.restart_plan import ask
from tests.fault.extent import times
from tests.fault.judgement import judge_stops, show_kept
from tests.integration.cli.command import Finished
from tidemill.metadata.feature_levels import NEWEST

TOPIC = "mixed"
NEW_PROGRAM = (sys.executable, "-m", "tests.fault.elastic.newer_version")
KNOWS_BROKERS = {"metadata.recovery.strategy": "none"}  # as in `tests/fault/test_cluster_crashes`
SETTINGS: dict[str, str | int] = {"leader.imbalance.check.interval.seconds": 1, "offsets.topic.num.partitions": 6}
ROUNDS = times(0, 4)  # in which all brokers are replaced by the newer version, and then by the older one again


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    """
    Run broker 1 with this version, whose level the cluster takes, and the others with the newer one from the start.
    """
    with ClusterProcesses(tmp_path, settings=SETTINGS) as cluster:
        cluster.programs.update(dict.fromkeys(cluster.numbers[1:], NEW_PROGRAM))
        cluster.start_all()
        yield cluster


@pytest.mark.timeout(times(120, 1_800))
def test_brokers_are_replaced_by_a_newer_version_and_back(
    cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Both versions serve in one cluster, whichever of them has the controller.  An upgrade is refused, and names the
    older brokers, until there is none; afterwards, an older version does not start, and is told why.
    """
    first, *others = cluster.numbers
    with ClusterScene(cluster, TOPIC, keys=KNOWS_BROKERS) as scene:
        watch = MajorityWatch(cluster, TOPIC, has_whole_plans=True)
        with watch, GroupMembers(cluster.bootstrap, TOPIC, "mixed") as group:
            assert [first] == older_in(refused_upgrade(cluster))
            for number in others:
                replace(scene, number, is_newer=False)
            for _ in range(ROUNDS):
                for is_newer, numbers in ((True, cluster.numbers), (False, cluster.numbers[::-1])):
                    for number in numbers:
                        replace(scene, number, is_newer=is_newer)
            replace(scene, first, is_newer=True)
            assert others == older_in(refused_upgrade(cluster))
            for number in others:
                replace(scene, number, is_newer=True)
            upgraded = ask(cluster, "upgrade")
            assert upgraded.exit_code == 0, upgraded.err
            assert f"It was raised to {NEWER}." in upgraded.out.splitlines()
            scene.calm()
            check_older_is_refused(cluster, others[-1])
            replace_down(scene, others[-1], is_newer=True)
            verdict = scene.finish()
            group_problems = group.finish(cluster.end_offsets(TOPIC))

    show_kept(verdict, capsys, f"\na group was assigned partitions {group.assignments} times")
    assert group_problems == []
    assert watch.seen and watch.broken == []
    judge_stops(verdict)
    scene.wait_until_equal()
    for number in cluster.numbers:
        assert HEARD in cluster.log_of(number), f"broker {number} never had the frames of the newer version"


def replace(scene: ClusterScene, number: int, *, is_newer: bool) -> None:
    """Stop a broker, and start it with another version."""
    what = f"replaced by the {'newer' if is_newer else 'older'} version"
    scene.strike(what, number, lambda: scene.cluster.stop(number))
    replace_down(scene, number, is_newer=is_newer)


def replace_down(scene: ClusterScene, number: int, *, is_newer: bool) -> None:
    cluster = scene.cluster
    if is_newer:
        cluster.programs[number] = NEW_PROGRAM
    else:
        cluster.programs.pop(number, None)
    cluster.start(number)
    scene.calm()


def refused_upgrade(cluster: ClusterProcesses) -> Finished:
    """Try to raise the level, which the cluster must refuse, once all brokers are heard."""
    tried: list[Finished] = []

    def are_all_heard() -> bool:
        tried[:] = [ask(cluster, "upgrade")]
        return "not live" not in tried[0].err

    wait_until(are_all_heard, "brokers that are live")
    assert tried[0].exit_code == 1, tried[0].out
    assert f"feature level {NEWER} is refused" in tried[0].err
    assert "upgrade Tidemill there and restart it" in tried[0].err
    return tried[0]


def older_in(refused: Finished) -> list[int]:
    """Return the brokers that a refused upgrade names, which must be the same in its table and in its message."""
    rows = [line.split("\t") for line in refused.out.splitlines()]
    listed = [int(row[0]) for row in rows if row[2:] == [str(NEWEST), "upgrade Tidemill there"]]
    assert all(f"broker {number} supports up to {NEWEST}" in refused.err for number in listed), refused.err
    assert refused.err.count("supports up to") == len(listed), refused.err
    return listed


def check_older_is_refused(cluster: ClusterProcesses, number: int) -> None:
    """
    The older version starts neither on the directory of a broker of the cluster nor on an empty one.  It ends by
    itself, and says which level the cluster has and what to do.
    """
    cluster.stop(number)
    del cluster.programs[number]
    known, aside = cluster.data_directory(number), cluster.directory / "aside"
    said = last_words(cluster, number)
    known.rename(aside)
    said_empty = last_words(cluster, number)
    cluster.wipe(number)
    aside.rename(known)

    assert f"the cluster is at feature level {NEWER}; this version supports up to {NEWEST}; upgrade Tidemill" in said
    where = f"the version of Tidemill on broker {number} supports up to {NEWEST}; upgrade Tidemill there"
    assert f"the cluster is at feature level {NEWER}, and {where}" in said_empty


def last_words(cluster: ClusterProcesses, number: int) -> str:
    """Start a broker that ends by itself, and return what it logs."""
    known_bytes = len(cluster.log_of(number))
    broker = cluster.begin(number)
    try:
        code = broker.wait_for_end()
    finally:
        cluster.brokers.pop(number).discard()
    assert code in (1, 2), f"exit code {code}"
    return cluster.log_of(number)[known_bytes:]
