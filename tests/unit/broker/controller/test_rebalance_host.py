"""The controller plans once a second, and carries out what it has planned."""

from unittest.mock import patch

from tests.unit.broker.controller.healing_world import FIGURES_MS, HealingWorld
from tidemill.broker.controller import rebalance_host
from tidemill.metadata.feature_levels import OLDEST
from tidemill.model.broker_state import Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import METADATA_SHARD
from tidemill.rebalance.plan import Plan, Refusal, Status, Step
from tidemill.rebalance.slices import Slices


def test_replicas_of_a_lost_broker_are_placed_on_another() -> None:
    """
    The broker is recorded as SILENT and then as GONE; its replica goes to the one that has none, and every record is
    there.  The event log has the sentences.
    """
    world = HealingWorld()
    world.create("flights", brokers=(1, 2, 3))
    world[1].produce("flights", b"a", b"b")
    world.pass_time(FIGURES_MS)

    world.lose(3)
    seen = []
    for _ in range(12):
        world.pass_time(1_000)
        seen.append(world.presence(3))
    world.until(lambda: world.voters("flights") == {1, 2, 4}, "it is moved")

    assert [Presence.ACTIVE, Presence.SILENT, Presence.GONE] == [*dict.fromkeys(seen)]
    assert ([1, 2, 4], 2) == (world.replicas("flights"), world[4].partition("flights").log.end_offset)
    assert world.lines("broker presence", "broker=3", "presence=silent")
    assert world.lines("replicas planned", "→ broker 4: broker 3 silent for", "reason=replace")


def test_a_broker_that_comes_back_in_time_keeps_its_replicas() -> None:
    world = HealingWorld()
    world.create("flights", brokers=(1, 2, 3))
    world.pass_time(FIGURES_MS)
    world.lose(3)
    world.pass_time(4_000)
    before = world.presence(3)

    world.find(3)
    world.pass_time(6_000)

    assert (Presence.SILENT, Presence.ACTIVE) == (before, world.presence(3))
    assert [1, 2, 3] == world.replicas("flights")


def test_nothing_moves_while_others_hear_a_broker() -> None:
    """
    The controller has a bad connection to broker 3, and all others hear it.  A healthy cluster must not be re-placed.
    """
    world = HealingWorld()
    world.create("flights", brokers=(1, 2, 3))
    world.pass_time(FIGURES_MS)
    controller = world.controller

    def held(source: object, destination: object) -> bool:
        return {source.hello().address, destination.hello().address} == {controller.address, world[3].address}  # type: ignore[attr-defined]

    assert controller.number != 3
    world.network.held = held  # type: ignore[assignment]
    world.pass_time(20_000)

    assert not controller.broker.cluster.is_up(world[3].broker.broker_id)
    assert (Presence.ACTIVE, [1, 2, 3]) == (world.presence(3), world.replicas("flights"))
    assert not world.lines("broker presence")


def test_the_next_controller_goes_on() -> None:
    """
    The controller is lost while a broker is SILENT.  The next one knows since when, and does not begin at zero.
    """
    world = HealingWorld(5)
    world.create("flights", brokers=(4, 2, 3))
    world.pass_time(FIGURES_MS)
    world.lose(3)
    world.until(lambda: world.presence(3) is Presence.SILENT, "it is silent")
    first = world.controller
    to = next(it for it in world.nodes if it.number not in (first.number, 3))
    assert first.broker.leadership_transfers.here([(0, to.broker.broker_id)]) == []  # type: ignore[list-item]
    world.until(lambda: to.broker.controller.leads, "there is another controller")

    began_ms = world.clock.now_ms
    world.until(lambda: world.presence(3) is Presence.GONE, "it is gone")

    assert world.clock.now_ms - began_ms < 4_500, "5 s after the beginning of its silence, of which 2 s count"


def test_the_plan_is_off_below_the_level_that_can_record_it() -> None:
    """
    Brokers of an older version could not read what is planned.  The sentence names the command that raises the level.
    """
    world = HealingWorld(newest_level=OLDEST)
    world.create("flights", brokers=(1, 2, 3))

    world.lose(3)
    world.pass_time(15_000)

    report = world.controller.broker.rebalance.report()
    assert (Status.OFF, Presence.ACTIVE) == (report.status, world.presence(3))
    assert "run `tidemill cluster upgrade`" in (report.why or "")


def test_the_switch_keeps_replicas_where_they_are() -> None:
    world = HealingWorld(static={"tidemill.rebalance.enable": "false"})
    world.create("flights", brokers=(1, 2, 3))

    world.lose(3)
    world.pass_time(15_000)

    report = world.controller.broker.rebalance.report()
    assert (Status.OFF, "tidemill.rebalance.enable is false") == (report.status, report.why)
    assert ([1, 2, 3], Presence.GONE) == (world.replicas("flights"), world.presence(3))


def test_a_plan_anew_is_not_carried_out() -> None:
    """
    While the switch is off, an operator may look at what would be planned.
    """
    world = HealingWorld(static={"tidemill.rebalance.enable": "false"})
    world.create("flights", brokers=(1, 2, 3))
    world.lose(3)
    world.pass_time(15_000)
    plans: list[Plan] = []

    world.controller.broker.rebalance.plan_anew().then(plans.append)  # type: ignore[arg-type]
    world.pass_time(2_000)

    flights = world.running.broker.image.topics["flights"].shard_ids[0]
    assert [1, 2, 4] == [it.broker_id for step in plans[0].steps if step.shard_id == flights for it in step.replicas]
    assert [1, 2, 3] == world.replicas("flights")


def test_a_report_has_brokers_moves_and_recent_steps() -> None:
    world = HealingWorld()
    world.create("flights", brokers=(1, 2, 3))
    world.pass_time(FIGURES_MS)
    world.lose(3)
    host, moves = world.controller.broker.rebalance, []
    for _ in range(400):
        world.pass_time(50)
        moves += host.report().moves
    report = host.report()

    flights = world.running.broker.image.topics["flights"].shard_ids[0]
    (move, *_) = [it for it in moves if it.shard_id == flights]
    assert (Reason.REPLACE, (1, 2, 4)) == (move.reason, move.replicas)
    assert (1, 2, 4) == move.previous, "a cancelled move does not return to a broker that is gone"
    assert (Status.IDLE, 0) == (report.status, report.moves_count)
    assert [(flights, None)] == [(it.step.shard_id, it.problem) for it in report.recent if it.step.shard_id == flights]
    assert [3, 3] == [note.broker_id for note in report.notes]
    broker = report.brokers[world[4].broker.broker_id]
    assert (1, Presence.ACTIVE, True) == (broker.replicas - 1, broker.view.presence, broker.view.is_live)


def test_a_new_controller_reports_how_many_shards_it_was_not_told_of() -> None:
    """Until the leaders of all shards have reported, a report may lack moves."""
    world = HealingWorld()
    first = world.controller
    leader, to = (node for node in world.nodes[:3] if node is not first)
    world.create("flights", brokers=(leader.number, first.number, to.number))
    world.lead("flights", by=leader.number)
    world.pass_time(FIGURES_MS)
    before = first.broker.rebalance.report()

    assert [] == first.broker.leadership_transfers.here([(METADATA_SHARD, to.broker.broker_id)])
    world.until(lambda: to.broker.controller.leads, "there is another controller")
    world.network.held = lambda source, _: source.hello().address == leader.address  # type: ignore[assignment]
    world.until(lambda: bool(to.broker.rebalance.report().brokers), "it has made a plan")
    early = to.broker.rebalance.report()
    world.network.held = lambda *_: False  # type: ignore[assignment]
    world.pass_time(FIGURES_MS)

    assert (0, True, 0) == (before.untold_count, early.untold_count > 0, to.broker.rebalance.report().untold_count)


def test_the_new_leader_of_a_step_leads_at_once() -> None:
    """
    A step for LEADER changes only the order of the replicas.  The controller asks the leader to transfer, because the
    balance of preferred leaders is checked every five minutes only.
    """
    world = HealingWorld()
    world.create("flights", brokers=(1, 2, 3))
    world.pass_time(FIGURES_MS)
    image = world.running.broker.image
    shard = image.shards[image.topics["flights"].shard_ids[0]]
    replicas = (shard.replicas[1], shard.replicas[0], shard.replicas[2])
    steps = [(Step(shard.shard_id, replicas, Reason.LEADER, 0, "shard → led by broker 2: a test"),), ()]

    def decide(*_: object) -> Slices[Plan]:
        yield
        return Plan(steps.pop(0) if steps else (), (), Status.WORKING)

    with patch.object(rebalance_host, "decide", decide):
        world.pass_time(1_500)
        world.until(lambda: world.led_by("flights") == 2, "broker 2 leads")

    assert [2, 1, 3] == world.replicas("flights")


def test_a_transfer_that_does_not_happen_is_repeated_and_reported() -> None:
    """
    The new leader is cut off when the step is committed.  It leads as soon as it can, without another plan; meanwhile
    operators see why it does not.
    """
    world = HealingWorld(static={"tidemill.broker.silent.ms": "600000"})
    world.create("flights", brokers=(1, 2, 3))
    world.pass_time(FIGURES_MS)
    node = world.controller
    late = 2 if node.number != 2 else 3
    image = node.broker.image
    shard = image.shards[image.topics["flights"].shard_ids[0]]
    first = next(it for it in shard.replicas if it.broker_id == late)
    replicas = (first, *(it for it in shard.replicas if it != first))
    steps = [(Step(shard.shard_id, replicas, Reason.LEADER, 0, "shard → led by another: a test"),)]
    world.cut_off(late)
    world.pass_time(2_000)

    def decide(*_: object) -> Slices[Plan]:
        yield
        return Plan(steps.pop(0) if steps else (), (), Status.WORKING)

    with patch.object(rebalance_host, "decide", decide):
        world.pass_time(5_000)
        told = node.broker.rebalance.report().refusals
        world.heal()
        world.until(lambda: world.led_by("flights") == late, "the new leader leads")
        world.pass_time(1_000)

    assert [Refusal(f"shard {shard.shard_id}", f"broker {late} is down")] == [*told]
    assert () == node.broker.rebalance.report().refusals


def test_a_plan_that_is_older_than_the_image_is_dropped() -> None:
    """
    A user plans the replicas of a shard while a pass runs.  The user's plan stays.
    """
    world = HealingWorld(5)
    world.create("flights", brokers=(1, 2, 3))
    world.pass_time(FIGURES_MS)
    node = world.controller
    shard_id = node.broker.image.topics["flights"].shard_ids[0]

    keys = [broker.voter for broker in node.broker.image.registered()]

    def decide(*_: object) -> Slices[Plan]:
        yield
        node.broker.operator_commands.move(shard_id, [keys[0].broker_id, keys[1].broker_id, keys[4].broker_id])
        return Plan((Step(shard_id, (keys[0], keys[1], keys[3]), Reason.COUNT, 0, "too late"),), (), Status.WORKING)

    with patch.object(rebalance_host, "decide", decide):
        world.pass_time(1_000)
    world.pass_time(3_000)

    assert [1, 2, 5] == world.replicas("flights")
    assert world.lines("step dropped", "too late")


def test_a_bug_in_the_planner_ends_one_pass_only() -> None:
    """
    It is logged with its traceback, and the next pass plans anew; each controller in turn would die otherwise.
    """
    world = HealingWorld()
    world.pass_time(FIGURES_MS)
    host = world.controller.broker.rebalance

    def decide(*_: object) -> Slices[Plan]:
        yield
        raise ValueError("a bug")

    with patch.object(rebalance_host, "decide", decide):
        world.pass_time(3_000)
    failures = host.failures
    world.pass_time(3_000)

    assert failures >= 2 and host.failures == failures
    assert 1 == len(world.lines("planning failed", "a bug"))
