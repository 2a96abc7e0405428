"""
A rolling restart by the printed plan: clients hardly notice it, and it goes no further while another broker is down.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.fault.cluster_processes import ClusterProcesses, wait_until
from tests.fault.cluster_scene import PARTITIONS, ClusterScene
from tests.fault.elastic.group_members import GroupMembers, RestingGroup
from tests.fault.elastic.majority_watch import MajorityWatch
from tests.fault.elastic.restart_plan import PlannedRestart, ask, read_plan, run_commands
from tests.fault.extent import times
from tests.fault.judgement import judge_stops, show_kept
from tests.integration.cli.command import Finished

TOPIC = "planned"
OFFSETS = "__consumer_offsets"
KNOWS_BROKERS = {"metadata.recovery.strategy": "none"}  # as in `tests/fault/test_cluster_crashes`


@pytest.mark.timeout(times(120, 1_800))
def test_clients_hardly_notice_a_restart_by_the_plan(
    cluster: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Every line of the plan is followed.  Nothing acknowledged is lost, duplicated or reordered, a consumer group goes on
    where it was, and writes pause no longer than after the death of a leader.  While a broker is down, neither the plan
    nor the check before a stop lets another one go.
    """
    with ended_drains(cluster), ClusterScene(cluster, TOPIC, keys=KNOWS_BROKERS) as scene:
        watch = MajorityWatch(cluster, TOPIC, has_whole_plans=True)
        resting = RestingGroup(
            cluster.bootstrap, TOPIC, "resting", {partition: partition for partition in range(PARTITIONS)}
        )
        with closing(resting), watch, GroupMembers(cluster.bootstrap, TOPIC, "restarted") as group:
            for number in range(times(1, 5)):
                for place, restart in enumerate(planned(cluster)):
                    follow(scene, restart, are_refusals_checked=place == number % len(cluster.numbers))
                    resting.check()
            scene.calm()
            wait_until(lambda: {*cluster.leaders(TOPIC).values()} == {*cluster.numbers}, "leaders on every broker")
            verdict = scene.finish()
            group_problems = group.finish(cluster.end_offsets(TOPIC))

    show_kept(verdict, capsys, f"\na group was assigned partitions {group.assignments} times")
    assert group_problems == []
    assert watch.seen and watch.broken == []
    judge_stops(verdict)
    scene.wait_until_equal()


@contextmanager
def ended_drains(cluster: ClusterProcesses) -> Iterator[None]:
    """End all drains if the test fails: other tests use the same cluster."""
    try:
        yield
    except BaseException:
        for number in cluster.numbers:
            ask(cluster, "undrain", str(number))
        raise


def planned(cluster: ClusterProcesses) -> list[PlannedRestart]:
    """Return the plan, once the cluster is healthy.  It has every broker once, and the controller last."""
    printed: list[Finished] = []
    controllers = [cluster.controller()]

    def is_printed() -> bool:
        printed[:] = [ask(cluster, "restart", "--plan")]
        return printed[0].exit_code == 0

    wait_until(is_printed, "a plan")
    controllers.append(cluster.controller())  # it may have changed meanwhile
    plan = read_plan(printed[0].out)
    assert sorted(restart.broker_id for restart in plan) == sorted(cluster.numbers)
    assert plan[-1].broker_id in controllers
    return plan


def follow(scene: ClusterScene, restart: PlannedRestart, *, are_refusals_checked: bool) -> None:
    cluster, victim = scene.cluster, restart.broker_id
    scene.strike_all("drain of a broker's leaders", lambda: run_commands(restart.before))
    check_may_stop(cluster, victim)

    def restart_broker() -> None:
        cluster.stop(victim)
        if are_refusals_checked:
            check_refusals(cluster, victim)
        cluster.start(victim)

    scene.strike_all("restart of a drained broker", restart_broker)
    scene.strike_all("end of a drain", lambda: run_commands(restart.after))
    assert cluster.is_in_sync(TOPIC), f"the plan goes on, and broker {victim} is not in sync"


def check_may_stop(cluster: ClusterProcesses, victim: int) -> None:
    """The broker leads nothing, and every partition has a majority of three in sync without it, as its leader says."""
    for topic in cluster.ask_any([TOPIC, OFFSETS]).topics:
        for it in topic.partitions:
            others = {*it.isr_nodes} - {victim}
            assert it.leader_id != victim, f"broker {victim} leads {topic.name}-{it.partition_index}"
            assert len(others) == 2, f"without broker {victim}, {topic.name}-{it.partition_index} has {others} in sync"
    assert cluster.controller() != victim


def check_refusals(cluster: ClusterProcesses, down: int) -> None:
    """No other broker may stop while one is down, and there is no plan."""
    other = next(number for number in cluster.numbers if number != down)
    refused = ask(cluster, "may-stop", str(other))
    assert refused.exit_code == 1, f"broker {other} may stop, and broker {down} is down: {refused.out}"
    assert f"broker {down} not in sync" in refused.out
    assert f"broker {other} must not stop now" in refused.err

    def has_no_plan() -> bool:
        return f"no restart now: broker {down} is down" in ask(cluster, "restart", "--plan").err

    wait_until(has_no_plan, f"a plan that is refused because broker {down} is down")
