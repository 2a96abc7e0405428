"""What operators ask of the controller, through any broker."""

from typing import Any
from unittest.mock import patch

import pytest

from tests.unit.broker.controller.healing_world import FIGURES_MS, HealingWorld
from tidemill.broker.connection.peer_requests import MISSED_MS
from tidemill.broker.controller import rebalance_host
from tidemill.broker.controller.operator_commands import DRAINS_MAX
from tidemill.metadata.feature_levels import NEWEST, OLDEST
from tidemill.metadata.reassignments import Move, PlanMoves
from tidemill.model import errors
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.move_reason import Reason
from tidemill.model.shard import METADATA_SHARD
from tidemill.peer import cluster_report
from tidemill.peer import join as peer_join
from tidemill.peer.cluster_operation import Operation


def flights(brokers: int = 4, *, on: tuple[int, ...] = (1, 2, 3), **more: object) -> HealingWorld:
    world = HealingWorld(brokers, **more)  # type: ignore[arg-type]
    world.create("flights", brokers=on)
    world.pass_time(FIGURES_MS)
    return world


def shard_id(world: HealingWorld) -> int:
    return world.running.broker.image.topics["flights"].shard_ids[0]


def test_a_drained_broker_is_emptied() -> None:
    """
    Its replicas go to others, it leads nothing, and it gets nothing until the drain ends.  The command may go to any
    broker.
    """
    world = flights(on=(3, 1, 2))
    follower = next(it.number for it in world.nodes if not it.broker.controller.leads)

    answer = world.command(Operation.DRAIN_ALL, 3, by=follower)
    world.until(lambda: 3 not in world.voters("flights"), "it is emptied")
    world.until(lambda: world[3].broker.shard_table.partition("flights", 0) is None, "it is closed")

    assert (errors.NONE, Drain.ALL) == (answer.error_code, world.drain(3))
    assert 3 not in world.replicas("flights") and len(world.replicas("flights")) == 3
    assert not [it for it in world[3].broker.shards.values() if it.replica.leads]
    assert errors.NONE == world.command(Operation.UNDRAIN, 3).error_code
    assert Drain.NONE is world.drain(3)


def test_a_drain_that_moves_nothing_says_so() -> None:
    """While re-placement is switched off, an operator would wait for ever."""
    world = flights(static={"tidemill.rebalance.enable": "false"})

    trial = world.command(Operation.DRAIN_ALL, 3, is_trial=True)
    done = world.command(Operation.DRAIN_ALL, 3)

    assert [["off"], ["off"]] == [[it.kind for it in answer.findings] for answer in (trial, done)]
    assert "tidemill.rebalance.enable is false" in done.findings[0].sentence
    assert Drain.ALL is world.drain(3)


def test_a_new_controller_takes_commands_at_once() -> None:
    """
    In a rolling restart, the next command may follow a change of the controller directly.  If it were refused until the
    next tick, the steps would end there.
    """
    world = flights()
    to = next(node for node in world.nodes if not node.broker.controller.leads)
    transfer = (METADATA_SHARD, to.broker.broker_id)
    assert [] == world.controller.broker.leadership_transfers.here([transfer])
    world.until(lambda: to.broker.controller.accepts_writes, "there is another controller")

    answer = world.command(Operation.DRAIN_LEADERS, 3, by=to.number)

    assert (errors.NONE, None) == (answer.error_code, answer.error_message)
    assert Drain.LEADERS is world.drain(3)


def test_a_drain_that_cannot_end_is_refused() -> None:
    """
    Three replicas on three brokers: each shard without a place is named.  A trial changes nothing; an operator may
    force the drain, for example before another broker joins.
    """
    world = flights(3)

    refused = world.command(Operation.DRAIN_ALL, 3)
    before = world.drain(3)
    trial = world.command(Operation.DRAIN_ALL, 3, is_forced=True, is_trial=True)
    still = world.drain(3)
    forced = world.command(Operation.DRAIN_ALL, 3, is_forced=True)

    assert errors.INVALID_REQUEST == refused.error_code
    assert f"shard {shard_id(world)} has no place: its 3 replicas need as many brokers" in (refused.error_message or "")
    assert {"replicas"} == {finding.kind for finding in refused.findings}
    assert shard_id(world) in [finding.shard_id for finding in refused.findings]
    assert (Drain.NONE, Drain.NONE, Drain.ALL) == (before, still, world.drain(3))
    assert (errors.NONE, errors.NONE) == (trial.error_code, forced.error_code)
    assert len(forced.findings) == len(trial.findings) == len(refused.findings)


def test_two_drains_at_once_do_not_count_on_each_other() -> None:
    """
    Each of two brokers of four may be emptied, but not both: three replicas need three brokers.  Both commands arrive
    before either is committed.
    """
    world = flights()
    commands, answers = world.controller.broker.operator_commands, []
    for number in (3, 4):
        commands.drain(world[number].broker.broker_id, Drain.ALL).then(answers.append)
    world.until(lambda: len(answers) == 2, "both are answered")

    problems = [answer.problem for answer in answers]

    assert problems[0] is None
    assert "draining broker 4 is refused" in (problems[1].message if problems[1] else "")
    assert (Drain.ALL, Drain.NONE) == (world.drain(3), world.drain(4))


def test_drains_take_effect_in_the_order_in_which_they_are_asked_for() -> None:
    """The check of the first takes longer than the second, which ends it."""
    world = flights()
    commands, answers = world.controller.broker.operator_commands, []
    for drain in (Drain.ALL, Drain.NONE):
        commands.drain(world[3].broker.broker_id, drain).then(answers.append)
    world.until(lambda: len(answers) == 2, "both are answered")

    assert [None, None] == [answer.problem for answer in answers]
    assert [] == [finding for answer in answers for finding in answer.findings]
    assert Drain.NONE is world.drain(3)


def test_no_more_than_some_drains_wait_for_their_turn() -> None:
    world = flights()
    commands, answers = world.controller.broker.operator_commands, []
    for _ in range(DRAINS_MAX + 1):
        commands.drain(world[3].broker.broker_id, Drain.ALL, is_trial=True).then(answers.append)
    refused = [*answers]
    world.until(lambda: len(answers) == DRAINS_MAX + 1, "all are answered")

    assert ["100 drains are being checked already; try again in a second"] == [it.problem.message for it in refused]
    assert [None] * DRAINS_MAX == [it.problem for it in answers[1:]]


def test_a_repeated_drain_says_how_far_it_is() -> None:
    """
    It is no error, and neither refused: an operator or a script that was interrupted runs it again.
    """
    world = flights(3, on=(3, 1, 2))
    world.command(Operation.DRAIN_ALL, 3, is_forced=True)
    stuck = world.command(Operation.DRAIN_ALL, 3)
    spare = flights()
    spare.command(Operation.DRAIN_ALL, 4)
    left = spare.controller.broker.rebalance
    spare.until(lambda: not (left.carrying(spare[4].broker.broker_id) or left.untold()), "it is empty")

    empty = spare.command(Operation.DRAIN_ALL, 4)
    not_drained = spare.command(Operation.UNDRAIN, 3)
    spare.command(Operation.DRAIN_LEADERS, 3)
    leaders = spare.command(Operation.DRAIN_LEADERS, 3)

    answers = (stuck, empty, not_drained, leaders)
    assert [errors.NONE] * 4 == [it.error_code for it in answers]
    assert ["already"] * 4 == [it.findings[-1].kind for it in answers]
    assert [
        "broker 3 is being drained already, and 2 shards may still be on it",
        "broker 4 is drained already, and is empty",
        "broker 3 is not drained",
        "broker 3 is drained of its leaders already",
    ] == [it.findings[-1].sentence for it in answers]


def test_a_drain_of_leaders_does_not_end_a_drain_of_all() -> None:
    """
    The steps of a restart drain the leaders of each broker, and one of them may be on its way out of the cluster.
    """
    world = flights()
    world.command(Operation.DRAIN_ALL, 4)

    answer = world.command(Operation.DRAIN_LEADERS, 4)

    assert "broker 4 is being drained of all that it has, and so of its leaders already" == answer.findings[-1].sentence
    assert Drain.ALL is world.controller.broker.image.brokers[world[4].broker.broker_id].drain


def test_a_broker_can_leave_a_cluster_of_five() -> None:
    """
    The metadata has five replicas there.  One of them is given up: no user has asked for five.
    """
    world = flights(5, on=(5, 1, 2))

    answer = world.command(Operation.DRAIN_ALL, 5)
    metadata = world[1].broker.shards[0]  # type: ignore[index]
    world.until(lambda: 5 not in [it.broker_id for it in metadata.replica.voters], "the metadata has left it")
    world.pass_time(5_000)

    assert (errors.NONE, 4) == (answer.error_code, len(metadata.replica.voters))
    assert 5 not in world.voters("flights")


@pytest.mark.parametrize("is_drained", [True, False])
def test_the_metadata_get_the_replica_again_that_was_given_up(is_drained: bool) -> None:
    """When the broker that was drained or gone is back, the metadata has a place for its fifth replica again."""
    world = flights(5, on=(5, 1, 2))
    if is_drained:
        world.command(Operation.DRAIN_ALL, 5)
    else:
        world.lose(5)
    metadata = world.controller.broker.shards[0]  # type: ignore[index]
    world.until(lambda: len(metadata.replica.voters) == 4, "the metadata has left it")
    world.pass_time(5_000)

    if is_drained:
        world.command(Operation.UNDRAIN, 5)
    else:
        world.find(5)

    world.until(lambda: len(metadata.replica.voters) == 5, "it is a voter again")


def test_the_metadata_grow_again_if_a_broker_came_while_a_replica_was_given_up() -> None:
    """The planner had decided before it knew the broker, and the broker has been counted before that was recorded."""
    world = flights(5)
    controller = world.controller.broker
    replicas = controller.image.shards[METADATA_SHARD].replicas
    goal = Move(shard_id=METADATA_SHARD, brokers=tuple(it.broker_id for it in replicas[:4]), reason=Reason.DRAIN)
    controller.controller.submit(PlanMoves(moves=(goal,)))
    world.until(lambda: len(controller.image.shards[METADATA_SHARD].replicas) == 4, "it is given up")

    world.until(lambda: len(controller.image.shards[METADATA_SHARD].replicas) == 5, "it is planned again")


def test_a_drain_is_checked_with_the_newest_plans() -> None:
    """
    A replica has just been moved away by a user, and no pass has run since.
    """
    world = flights()
    with patch.object(rebalance_host, "PASS_MS", 1_000_000):
        world.command(Operation.MOVE, shard_id=shard_id(world), brokers=[1, 2, 4])
        world.until(lambda: world.voters("flights") == {1, 2, 4}, "it is moved")

        answer = world.command(Operation.DRAIN_ALL, 3, is_trial=True)

    assert (errors.NONE, None) == (answer.error_code, answer.error_message)


def test_a_broker_without_leaders_keeps_its_replicas() -> None:
    """
    For maintenance.  The leaders come back when it ends, because the plans have not changed.
    """
    world = flights(on=(3, 1, 2), static={"leader.imbalance.check.interval.seconds": "2"})
    before = world.led_by("flights")

    world.command(Operation.DRAIN_LEADERS, 3)
    world.until(lambda: world.led_by("flights") in (1, 2), "another broker leads")
    world.pass_time(10_000)
    meanwhile = world.led_by("flights"), world.replicas("flights"), world.voters("flights")
    world.command(Operation.UNDRAIN, 3)
    world.until(lambda: world.led_by("flights") == 3, "it leads again")

    assert 3 == before
    assert meanwhile[0] != 3 and ([3, 1, 2], {1, 2, 3}) == meanwhile[1:]


def test_many_lost_brokers_are_replaced_by_command_only() -> None:
    """
    Two of six brokers are silent: a switch may have failed.  They stay SILENT until the operator decides.
    """
    world = flights(6, on=(1, 5, 6))
    world.lose(5)
    world.lose(6)
    world.pass_time(15_000)
    stalled = world.controller.broker.rebalance.report()
    before = world.presence(5), world.presence(6), world.replicas("flights")

    trial = world.command(Operation.REPLACE, is_trial=True)
    after_trial = world.presence(5)
    answer = world.command(Operation.REPLACE)

    assert (Presence.SILENT, Presence.SILENT, [1, 5, 6]) == before
    assert "or run `tidemill cluster replace`" in (stalled.why or "")
    assert (Presence.SILENT, [5, 6]) == (after_trial, [it.broker_id for it in trial.findings])
    assert (errors.NONE, [5, 6]) == (answer.error_code, [it.broker_id for it in answer.findings])
    assert (Presence.GONE, Presence.GONE) == (world.presence(5), world.presence(6))


@pytest.mark.parametrize(
    ("brokers", "why"),
    [((), "no broker is SILENT"), ((3,), "broker 3 is ACTIVE; drain it instead"), ((9,), "broker 9 is not in this")],
)
def test_only_silent_brokers_are_replaced(brokers: tuple[int, ...], why: str) -> None:
    world = flights()

    answer = world.command(Operation.REPLACE, brokers=brokers)

    assert answer.error_code and why in (answer.error_message or "")
    assert Presence.ACTIVE is world.presence(3)


def test_a_broker_may_stop_if_each_shard_keeps_an_in_sync_majority() -> None:
    world = flights()
    before = world.command(Operation.MAY_STOP, 2)
    world.lose(3)
    world.until(lambda: not world[1].broker.cluster.is_up(world[3].broker.broker_id), "it is not heard")
    world.pass_time(1_500)

    after = world.command(Operation.MAY_STOP, 2)

    assert (0, []) == (before.error_code, [*before.findings])
    assert shard_id(world) in [finding.shard_id for finding in after.findings]
    assert "1 of 3 replicas would be left in sync, and 2 are needed" in after.findings[-1].sentence


def test_a_user_moves_a_shard_and_cancels_that() -> None:
    """
    A move that is under way can be cancelled; nothing is left to cancel once it has ended.
    """
    world = flights()
    world.hold(to=[4])

    world.command(Operation.MOVE, shard_id=shard_id(world), brokers=[1, 2, 4])
    world.network.held = lambda source, destination: False
    world.until(lambda: bool(world.controller.broker.rebalance.report().moves), "it is under way")
    moved = world.replicas("flights")
    cancelled = world.command(Operation.CANCEL, shard_id=shard_id(world))
    world.until(lambda: world.voters("flights") == {1, 2, 3}, "it is back")
    world.pass_time(2_000)
    again = world.command(Operation.CANCEL, shard_id=shard_id(world))

    assert ([1, 2, 4], [1, 2, 3]) == (moved, world.replicas("flights"))
    assert (errors.NONE, errors.NO_REASSIGNMENT_IN_PROGRESS) == (cancelled.error_code, again.error_code)


def test_a_shard_is_not_moved_to_a_broker_that_is_down() -> None:
    """
    The move would wait without a word, and be undone when the broker is silent.  When it has just come back, and is
    still recorded as SILENT, the shard arrives there.
    """
    world = flights(static={"tidemill.replica.replacement.delay.ms": "600000", "tidemill.broker.return.ms": "4000"})
    world.lose(4)
    world.until(lambda: world.presence(4) is Presence.SILENT, "it is silent")
    refused = world.command(Operation.MOVE, shard_id=shard_id(world), brokers=[1, 2, 4])
    world.find(4)
    world.until(lambda: world.controller.broker.cluster.is_up(world[4].broker.broker_id), "it is heard")
    silent = world.presence(4)

    moved = world.command(Operation.MOVE, shard_id=shard_id(world), brokers=[1, 2, 4])
    world.until(lambda: world.voters("flights") == {1, 2, 4}, "it has arrived")

    assert errors.INVALID_REPLICA_ASSIGNMENT == refused.error_code
    assert "broker 4 is down, and nothing can be copied to it" in (refused.error_message or "")
    assert (Presence.SILENT, errors.NONE) == (silent, moved.error_code)
    assert [1, 2, 4] == world.replicas("flights")


def test_a_shard_is_not_moved_to_a_broker_whose_disk_is_full() -> None:
    """The planner would soon give the shard another goal.  A replica that is there already needs no room."""
    world = flights()
    world[3].disk.free_bytes = world[4].disk.free_bytes = 1 << 30
    world.pass_time(FIGURES_MS)

    refused = world.command(Operation.MOVE, shard_id=shard_id(world), brokers=[1, 2, 4])
    planned = world.replicas("flights")
    reordered = world.command(Operation.MOVE, shard_id=shard_id(world), brokers=[3, 2, 1])
    world[4].disk.free_bytes = None
    world.pass_time(FIGURES_MS)
    moved = world.command(Operation.MOVE, shard_id=shard_id(world), brokers=[1, 2, 4])

    assert errors.INVALID_REPLICA_ASSIGNMENT == refused.error_code
    assert "the disk of broker 4 is 100 % full, more than 95 %; free space on it" in (refused.error_message or "")
    assert ([1, 2, 3], errors.NONE, errors.NONE) == (planned, reordered.error_code, moved.error_code)


def test_a_cancelled_move_does_not_return_to_a_broker_that_is_gone() -> None:
    """
    A broker of the goal takes its place, as when Kafka's command cancels a move: a goal with a dead member is never
    reached.
    """
    world = flights()
    world.lose(3)
    moves = world.controller.broker.rebalance.report
    while not [it for it in moves().moves if it.shard_id == shard_id(world)]:
        world.pass_time(20)

    cancelled = world.command(Operation.CANCEL, shard_id=shard_id(world))
    planned = world.replicas("flights")
    world.until(lambda: world.voters("flights") == {1, 2, 4}, "the substitute has arrived")

    assert (errors.NONE, Presence.GONE) == (cancelled.error_code, world.presence(3))
    assert [1, 2, 4] == planned


def test_a_shard_of_several_keeps_the_number_of_replicas_of_its_topic() -> None:
    """A user who names too few brokers would have fewer copies, and writes be refused for one partition of many."""
    world = flights()
    world.create_assigned("delays", [(1, 2, 3), (2, 3, 4)])
    first = world.running.broker.image.topics["delays"].shard_ids[0]

    fewer = world.command(Operation.MOVE, shard_id=first, brokers=[1])
    elsewhere = world.command(Operation.MOVE, shard_id=first, brokers=[4, 2, 3])

    assert errors.INVALID_REPLICA_ASSIGNMENT == fewer.error_code
    assert "all together or not at all" in (fewer.error_message or "")
    assert errors.NONE == elsewhere.error_code


def test_a_leadership_is_transferred() -> None:
    world = flights()

    answer = world.command(Operation.TRANSFER, 2, shard_id=shard_id(world))
    refused = world.command(Operation.TRANSFER, 4, shard_id=shard_id(world))
    unknown = world.command(Operation.TRANSFER, 4, shard_id=99)

    assert (errors.NONE, 2) == (answer.error_code, world.led_by("flights"))
    assert errors.ELIGIBLE_LEADERS_NOT_AVAILABLE == refused.error_code
    assert errors.UNKNOWN_TOPIC_OR_PARTITION == unknown.error_code


def test_a_transfer_is_tried_again_until_the_command_has_to_answer() -> None:
    """
    A broker that has just lost contact is back before the command gives up; one that stays away is named.
    """
    world = flights(static={"tidemill.broker.silent.ms": "600000"})
    late = 2 if world.controller.number != 2 else 3
    world.cut_off(late)
    world.pass_time(2_000)

    failed = world.command(Operation.TRANSFER, late, shard_id=shard_id(world))
    answers: list[object] = []
    world.controller.broker.awaited_transfers.begin(shard_id(world), late, 5_000, answers.append)  # type: ignore[arg-type]
    world.pass_time(1_000)
    world.heal()
    world.until(lambda: bool(answers), "it is answered")

    assert errors.REQUEST_TIMED_OUT == failed.error_code
    assert f"broker {late} does not lead shard {shard_id(world)} yet: broker {late} is down" == failed.error_message
    assert ([None], late) == (answers, world.led_by("flights"))


def test_an_empty_broker_is_removed_when_it_is_down() -> None:
    world = flights(on=(1, 2, 3))
    live = world.command(Operation.REMOVE, 4)
    world.lose(4)
    world.until(lambda: 4 not in world.controller.broker.cluster.heard(), "nobody hears it")

    answer = world.command(Operation.REMOVE, 4)

    assert "it is live" in (live.error_message or "")
    assert (errors.NONE, None) == (answer.error_code, answer.error_message)
    assert 4 not in world.running.broker.image.brokers


def test_a_broker_is_not_removed_while_a_shard_has_told_no_members() -> None:
    """A new controller does not know the members of a shard that lost its only replica before, and says so."""
    world = flights(on=(3,))
    world.lose(3)
    world.lose(4)
    former = world.controller
    heir = next(it for it in world.nodes[:2] if it is not former)
    former.broker.shard_table.shards[METADATA_SHARD].transfer_leadership(heir.broker.identity.voter)
    world.until(lambda: world.controller is heir, "another controller")
    world.until(lambda: 4 not in heir.broker.cluster.heard(), "nobody hears broker 4")
    world.pass_time(FIGURES_MS)

    answer = world.command(Operation.REMOVE, 4)

    assert errors.INVALID_REQUEST == answer.error_code
    assert (answer.error_message or "").startswith(
        f"unregistering broker 4 is refused: it may be a member of shard {shard_id(world)} (flights, partition 0)"
    )


def test_a_broker_that_others_hear_is_neither_removed_nor_replaced() -> None:
    """
    The controller may have a bad network of its own.  An empty directory under the broker's id would take the place of
    replicas that are well.  At first, the others may only be later to miss it, so that the directory has to ask again.
    """
    world = flights(on=(1, 2, 3))
    far = [world.controller.address, world[4].address]
    world.network.held = lambda source, to: {source.hello().address, to.hello().address} == {*far}
    world.until(lambda: 4 not in world.controller.broker.cluster.live(), "the controller does not hear it")
    at_once = join(world, 4)
    world.pass_time(MISSED_MS)

    removed, joined = world.command(Operation.REMOVE, 4), join(world, 4)
    world.lose(4)
    world.until(lambda: 4 not in world.controller.broker.cluster.heard(), "nobody hears it")
    gone, anew = world.command(Operation.REMOVE, 4), join(world, 4)

    assert "2 brokers can hear it, although the controller does not" in (removed.error_message or "")
    assert (errors.REQUEST_TIMED_OUT, errors.DUPLICATE_BROKER_REGISTRATION) == (at_once.error_code, joined.error_code)
    assert (errors.NONE, errors.NONE) == (gone.error_code, anew.error_code)


def join(world: HealingWorld, broker_id: int) -> Any:
    """Ask the controller through another broker to admit an empty directory as `broker_id`."""
    controller, answers = world.controller.broker, list[Any]()
    peers = next(
        it for it in world.nodes if it.broker is not controller and it.number != broker_id
    ).broker.cluster.peers
    request = peer_join.Request(directory_id=b"empty" * 3 + b"!", broker_id=broker_id, level=NEWEST)
    assert peers.ask(controller.identity.voter, peer_join.API, request, answers.append)
    world.until(lambda: bool(answers), "the directory is admitted or refused")
    return answers[0]


def test_commands_are_refused_below_the_level_that_can_record_them() -> None:
    world = flights(newest_level=OLDEST)

    answer = world.command(Operation.DRAIN_ALL, 3)

    assert errors.UNSUPPORTED_VERSION == answer.error_code


def test_a_newer_operation_is_refused() -> None:
    world = flights()

    answer = world.command(77)  # type: ignore[arg-type]

    assert errors.UNSUPPORTED_VERSION == answer.error_code
    assert "operation 77 is unknown" in (answer.error_message or "")


def test_any_broker_reports() -> None:
    """
    The report is the controller's, whichever broker is asked.
    """
    world = flights()
    follower = next(it for it in world.nodes if not it.broker.controller.leads)
    api, version = follower.client.send(cluster_report.Request())
    world.pass_time(500)

    report = follower.client.answer(api, version)

    assert ("idle", 0) == (report.status, report.error_code)
    assert [1, 2, 3, 4] == [it.broker_id for it in report.brokers]
    assert [("active", "none", True, 3)] * 4 == [
        (it.presence, it.drain, it.is_ready, it.heard_by) for it in report.brokers
    ]
