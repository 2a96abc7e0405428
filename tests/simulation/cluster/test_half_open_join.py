"""A broker asks to join, and the only broker that it can reach falls silent before answering."""

from collections.abc import Callable

import pytest

from tests.simulation.cluster.test_scenarios import knobs, pass_time
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.cluster.cluster import ClusterRun
from tidemill.simulation.machine.crash_fate import ALL_KEPT
from tidemill.simulation.machine.machine import seconds

AGAIN_S = 40.0  # in seconds; by then, the silence has been noticed and the link has been dialled again


def wait(run: ClusterRun, duration_s: float) -> None:
    run.timeline.run_until(run.timeline.now_us + seconds(duration_s))


def killed(run: ClusterRun, one: BrokerMachine, _: BrokerMachine) -> None:
    one.kill()
    wait(run, 1)
    one.start()


def without_power(run: ClusterRun, one: BrokerMachine, _: BrokerMachine) -> None:
    one.lose_power(ALL_KEPT)
    wait(run, 1)
    one.start()


def cut_off(run: ClusterRun, one: BrokerMachine, two: BrokerMachine) -> None:
    run.network.blocked |= {(one.name, two.name), (two.name, one.name)}
    wait(run, 30)
    run.network.heal()


@pytest.mark.parametrize("silence", [killed, without_power, cut_off])
def test_a_joining_broker_asks_again_when_the_asked_broker_returns(
    silence: Callable[[ClusterRun, BrokerMachine, BrokerMachine], None],
) -> None:
    """
    The joining broker repeats its request even though it cannot know that its link is dead: it gets no notification,
    and sends nothing else that could fail.
    """
    run = ClusterRun(1, knobs(2).without_faults())
    one, two = run.machines
    one.start()
    pass_time(run, lambda: one.is_ready)
    wait(run, 2)
    one.pace.stalled_until_us = run.timeline.now_us + seconds(3)  # the asked broker does not answer yet
    two.start()
    wait(run, 1)
    assert two.broker is None

    silence(run, one, two)

    pass_time(run, lambda: two.is_ready, AGAIN_S)
