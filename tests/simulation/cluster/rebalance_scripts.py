"""Scripts for the rules of `docs/rebalance.md`: each brings about what one rule is for, and checks that it is kept."""

from collections.abc import Callable
from functools import partial
from typing import Final

from tests.simulation.cluster.directed_run import DISK, GIB, UNBALANCED, DirectedRun, Script
from tidemill.broker.controller.operator_commands import Answer
from tidemill.metadata.metadata_records import Endpoint
from tidemill.model.broker_state import Drain, Presence
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.rebalance.plan import Status
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.machine.links import PEER_PORT

PASSES_S: Final = 2.5  # in which a controller makes two plans, one at least with the newest figures
NEVER_GONE: Final = {"tidemill.replica.replacement.delay.ms": "600000"}
SLOW_REPORTS: Final = {"tidemill.load.report.ms": "3000"}
ONE_COPY: Final = {"tidemill.replica.move.concurrent.cluster": "1"}
STEADY: Final = {"tidemill.broker.return.ms": "4000", "tidemill.replica.replacement.delay.ms": "5000"}


# The states of brokers.


def bad_links(run: DirectedRun) -> None:
    """The controller and another broker do not hear each other, for longer than it takes to replace one."""
    controller = run.controller
    other = run.random.choice(run.away(controller))
    run.cut(controller, other)
    run.throughout(lambda: run.are(Presence.ACTIVE, *run.machines), 5, "a healthy broker is taken for silent")
    run.require(run.controller is controller, "the controller, which others hear, has changed")


def flapping(run: DirectedRun) -> None:
    """A broker comes and goes, and is never live for as long as it takes to count again."""
    broker = run.random.choice(run.away(run.controller))
    for _ in range(3):
        run.cut_off(broker)
        run.until(lambda: not run.is_heard(broker), f"{broker.name} is heard, and is cut off")
        run.network.heal()
        run.until(lambda: run.is_heard(broker), f"{broker.name} is not heard")
    run.cut_off(broker)
    run.until(lambda: run.are(Presence.GONE, broker), f"{broker.name}, which comes and goes, is not GONE", 5)


def many_silent(run: DirectedRun) -> None:
    """Two brokers are silent at once, and come back."""
    silent = run.random.sample(run.away(run.controller), 2)
    _stall(run, silent)


def a_rack_is_silent(run: DirectedRun) -> None:
    """All brokers of one rack are silent at once, which are few of the cluster, and come back."""
    rack = run.random.choice([it.rack for it in run.machines if it.rack != run.controller.rack])
    _stall(run, [machine for machine in run.machines if machine.rack == rack])


def _stall(run: DirectedRun, silent: list[BrokerMachine]) -> None:
    run.cut_off(*silent)
    run.until(lambda: run.are(Presence.SILENT, *silent), "brokers that are cut off are not SILENT")
    run.throughout(lambda: not any(run.are(Presence.GONE, it) for it in silent), 3, "a broker of many is GONE")
    run.require(run.report().status is Status.STALLED, "re-placement is not stalled")
    run.network.heal()
    run.until(lambda: run.are(Presence.ACTIVE, *silent), "brokers that are back do not count again")


def draining_leaders(run: DirectedRun) -> None:
    """A broker is drained of its leaders, and keeps its replicas."""
    (shard,) = run.shards
    broker = run.leader(shard) or run.machines[0]
    run.drain(broker, Drain.LEADERS)
    run.until(lambda: run.leader(shard) not in (broker, None), f"{broker.name}, which is drained, leads")
    run.require(run.carries(broker), f"{broker.name} is drained of its leaders, and loses its replicas")


def registering_again(run: DirectedRun) -> None:
    """A broker that was emptied restarts with another address, and registers that."""
    (shard,) = run.shards
    broker = next(it for it in run.goal(shard) if it is not run.controller)
    run.drain(broker, Drain.ALL)
    run.until(lambda: not run.carries(broker), f"{broker.name} is not emptied")
    known = next(it for it in run.machines if it is not broker)
    broker.kill()
    broker.move("moved", (f"{known.name}:{PEER_PORT}",))
    broker.start()
    run.until(lambda: broker.is_ready and _is_at(run.known(broker).endpoints, "moved"), "the address is not registered")
    run.throughout(
        lambda: run.known(broker).drain is Drain.ALL and not run.carries(broker),
        PASSES_S,
        f"{broker.name} has registered an address, and is not drained any more",
    )


def _is_at(endpoints: tuple[Endpoint, ...], host: str) -> bool:
    return all(endpoint.host == host for endpoint in endpoints)


# Replacing.


def lost_for_good(run: DirectedRun) -> None:
    """A broker dies for good, and later the one that has replaced it, too."""
    (shard,) = run.shards
    lost = next(it for it in run.goal(shard) if it is not run.controller)
    for _ in range(2):
        run.lose(lost)
        staying = [it for it in run.goal(shard) if it is not lost]
        run.until(
            lambda: not run.carries(lost) and run.votes(shard, *run.goal(shard)),  # noqa: B023
            f"{lost.name}, which is dead, is not replaced",
            15,
        )
        (lost,) = [it for it in run.goal(shard) if it not in staying]


def lost_majority(run: DirectedRun) -> None:
    """Two of three voters are lost, and an operator has them replaced; then one of them comes back."""
    (shard,) = run.shards
    goal = run.goal(shard)
    lost = [it for it in goal if it is not run.controller][:2]
    run.lose(*lost)
    run.until(lambda: run.are(Presence.SILENT, *lost), "brokers that are lost are not SILENT")
    run.throughout(lambda: run.are(Presence.SILENT, *lost), PASSES_S, "a broker of many is GONE")
    answer = run.ask(lambda it: it.operator_commands.replace())
    run.require(answer.problem is None, f"replacing is refused: {answer.problem}")
    run.until(lambda: run.are(Presence.GONE, *lost), "brokers that are replaced are not GONE")
    run.throughout(
        lambda: run.goal(shard) == goal, PASSES_S, f"shard {shard} has a new goal, and no majority that could reach it"
    )
    refusals = [it.sentence for it in run.report().refusals if it.what == f"shard {shard}"]
    run.require(any("must come back" in it for it in refusals), f"nothing says who must come back: {refusals}")
    lost[0].start()
    run.until(lambda: lost[1].voter not in run.voters(shard) and bool(run.voters(shard)), f"{lost[1].name} stays")


def back_in_time(run: DirectedRun) -> None:
    """A broker that has been replaced is back, and its substitute has little."""
    run.copied_percent = 40
    shard, goal, _ = _replaced_and_back(run)
    run.until(lambda: set(run.goal(shard)) == set(goal), f"the goal of shard {shard} does not go back", 3)
    run.is_copying_slow = False
    run.until(lambda: run.votes(shard, *goal), f"shard {shard} does not get its replica back")


def back_late(run: DirectedRun) -> None:
    """A broker that has been replaced is back, and its substitute has nearly everything."""
    run.copied_percent = 95
    shard, _, substitute = _replaced_and_back(run)
    run.throughout(lambda: substitute in run.goal(shard), PASSES_S, f"{substitute.name} has nearly everything in vain")
    run.is_copying_slow = False
    run.until(lambda: substitute.voter in run.voters(shard), f"{substitute.name} does not vote")


def _replaced_and_back(run: DirectedRun) -> tuple[ShardId, list[BrokerMachine], BrokerMachine]:
    """Lose a broker until it has a substitute that does not vote yet, and bring it back."""
    (shard,) = run.shards
    goal = run.goal(shard)
    lost = next(it for it in goal if it is not run.controller)
    run.is_copying_slow = True
    run.lose(lost)
    run.until(lambda: bool(run.newcomers(shard) - {lost}), f"{lost.name} has no substitute")
    (substitute,) = run.newcomers(shard)
    lost.start()
    run.until(lambda: run.are(Presence.ACTIVE, lost), f"{lost.name} is back, and does not count again")
    return shard, goal, substitute


def gone_and_live(run: DirectedRun) -> None:
    """A broker is back when one of its three replicas has been replaced, and the others wait for that copy."""
    lost = next(it for it in run.goal(run.shards[0]) if it is not run.controller)
    run.is_copying_slow = True
    run.lose(lost)

    def left() -> list[ShardId]:
        return [shard for shard in run.shards if lost in run.goal(shard)]

    run.until(lambda: len(left()) == 2, f"{lost.name}, which is dead, is not replaced", 15)
    (replaced,) = [shard for shard in run.shards if shard not in left()]
    lost.start()
    run.until(lambda: run.is_heard(lost), f"{lost.name} is not heard")
    run.require(run.are(Presence.GONE, lost), f"{lost.name} counts at once")
    run.is_copying_slow = False
    run.until(lambda: run.votes(replaced, *run.goal(replaced)), f"shard {replaced} is not copied")
    run.throughout(lambda: len(left()) == 2, PASSES_S, f"{lost.name} is live, and more of its replicas are replaced")


def copy_without_a_majority(run: DirectedRun) -> None:
    """A shard loses its majority while it is copied, the only copy allowed at a time; and a broker is drained."""
    first, second = run.shards
    stays, *lost = sorted(run.goal(first), key=lambda it: it is not run.controller)
    newcomer, drained, other = sorted(run.away(stays, *lost), key=lambda it: it is not run.controller)
    run.move(second, stays, drained, other)
    run.until(lambda: run.votes(second, stays, drained, other), f"shard {second} is not moved")
    run.is_copying_slow = True
    run.move(first, stays, lost[0], newcomer)
    run.until(lambda: run.newcomers(first) == {newcomer}, f"{newcomer.name} is not planned")
    run.lose(*lost)
    run.until(lambda: not run.voters(first), f"shard {first} has a leader without a majority")
    run.drain(drained, Drain.ALL, is_forced=True)
    run.until(lambda: drained not in run.goal(second), f"{drained.name} waits for a copy that never ends")
    refusals = [it.sentence for it in run.report().refusals if it.what == f"shard {first}"]
    run.require(any("must come back" in it for it in refusals), f"nothing says who must come back: {refusals}")


def new_controller_without_a_majority(run: DirectedRun) -> None:
    """The controller changes after a shard has lost its majority on its way, and no leader tells the next one of it."""
    (shard,) = run.shards
    stays, *lost = sorted(run.goal(shard), key=lambda it: it is not run.controller)
    newcomer, other = sorted(run.away(stays, *lost), key=lambda it: it is run.controller)[:2]
    after = next(it for it in (newcomer, other) if it in run.goal(METADATA_SHARD))
    run.is_copying_slow = True
    run.move(shard, stays, lost[0], newcomer)
    run.until(lambda: run.newcomers(shard) == {newcomer}, f"{newcomer.name} is not planned")
    run.lose(*lost)
    run.until(lambda: not run.voters(shard), f"shard {shard} has a leader without a majority")
    run.let_lead(after, METADATA_SHARD)

    def is_named() -> bool:
        sentences = [it.sentence for it in run.report().refusals if it.what == f"shard {shard}"]
        return any("former replicas is live" in it and "must come back" in it for it in sentences)

    run.until(is_named, "nothing says who must come back", 30)


def newcomer_lost(run: DirectedRun) -> None:
    """A broker dies while it gets a replica."""
    _spoil_newcomer(run, run.lose)


def newcomer_drained(run: DirectedRun) -> None:
    """A broker is drained while it gets a replica."""
    _spoil_newcomer(run, lambda newcomer: run.drain(newcomer, Drain.ALL, is_forced=True))


def newcomer_full(run: DirectedRun) -> None:
    """The disk of a broker gets full while it gets a replica."""
    _spoil_newcomer(run, lambda newcomer: run.other_bytes.update({newcomer: 96 * DISK // 100}))


def _spoil_newcomer(run: DirectedRun, spoil: Callable[[BrokerMachine], object]) -> None:
    (shard,) = run.shards
    goal = run.goal(shard)
    newcomer = run.random.choice([it for it in run.away(*goal) if it is not run.controller])
    leaves = next(it for it in goal if it is not run.controller)
    run.is_copying_slow = True
    run.move(shard, *[newcomer if it is leaves else it for it in goal])
    run.until(lambda: newcomer in run.newcomers(shard), f"{newcomer.name} is not planned")
    spoil(newcomer)
    run.until(lambda: newcomer not in run.goal(shard), f"{newcomer.name} stays planned, and cannot take a replica", 6)
    run.is_copying_slow = False
    run.until(lambda: run.votes(shard, *goal), f"shard {shard} does not keep its replicas")


# Draining.


def no_place(run: DirectedRun) -> None:
    """One of three brokers shall be drained, and each shard has three replicas."""
    (shard,) = run.shards
    broker = run.random.choice(run.machines)
    answer = run.ask(lambda it: it.operator_commands.drain(run.id_of(broker), Drain.ALL))
    named = "" if answer.problem is None else str(answer.problem.message)
    run.require(f"shard {shard} has no place" in named, f"a drain that cannot end is not refused: {answer}")


def maintenance(run: DirectedRun) -> None:
    """The only broker that could replace another one for good is drained of its leaders, and forgotten."""
    (shard,) = run.shards
    (drained,) = run.away(*run.goal(shard))
    lost = next(it for it in run.goal(shard) if it is not run.controller)
    run.drain(drained, Drain.LEADERS)
    run.lose(lost)

    def is_asked_for() -> bool:
        asked = f"broker {run.id_of(drained)} is drained: undrain it"
        return any(asked in it.sentence for it in run.report().refusals if it.what == f"shard {shard}")

    run.until(is_asked_for, f"{drained.name} is drained, and nothing asks to undrain it")
    run.require(not run.carries(drained), f"{drained.name}, which is drained, takes a replica")
    run.drain(drained, Drain.NONE)
    run.until(lambda: drained.voter in run.voters(shard), f"{drained.name} is undrained, and takes no replica")
    run.require(not is_asked_for(), f"{drained.name} is undrained, and something asks to undrain it")


def drains_at_once(run: DirectedRun) -> None:
    """Two of four brokers shall be drained at the same time, and each shard has three replicas."""
    controller, answers = run.controller, list[Answer]()
    broker, loop = controller.broker, controller.loop
    assert broker is not None and loop is not None, "the controller runs"
    for machine in run.away(controller)[:2]:
        drain = partial(broker.operator_commands.drain, run.id_of(machine), Drain.ALL)
        loop.after(0, lambda drain=drain: drain().then(answers.append))
    run.until(lambda: len(answers) == 2, "the controller has not answered")
    refused = [it for it in answers if it.problem is not None]
    run.require(len(refused) == 1, f"of two drains, {len(refused)} are refused: {answers}")


def two_drains(run: DirectedRun) -> None:
    """Two of the three brokers with a shard's replicas are drained at once."""
    (shard,) = run.shards
    drained = [it for it in run.goal(shard) if it is not run.controller][:2]

    def is_one_at_a_time() -> bool:
        return len(run.newcomers(shard)) <= 1 and len(run.voters(shard)) in (0, 3, 4)

    def is_emptied() -> bool:
        run.require(is_one_at_a_time(), f"shard {shard} changes in several ways at a time")
        return not any(map(run.carries, drained))

    run.is_copying_slow = True
    for broker in drained:
        run.drain(broker, Drain.ALL, is_forced=True)
    run.throughout(is_one_at_a_time, PASSES_S, f"shard {shard} changes in several ways at a time")
    run.is_copying_slow = False
    run.until(is_emptied, "drained brokers are not emptied", 20)


def draining_five(run: DirectedRun) -> None:
    """One of five brokers is drained, and the metadata has five replicas."""
    broker = run.random.choice(run.away(run.controller))
    run.drain(broker, Drain.ALL)
    run.until(lambda: not run.carries(broker), f"{broker.name} is not emptied")


def another_replica_is_away(run: DirectedRun) -> None:
    """A broker is drained while another one with a replica of the same shard is away."""
    (shard,) = run.shards
    goal = run.goal(shard)
    away, drained = [it for it in goal if it is not run.controller][:2]
    run.lose(away)
    run.until(lambda: not run.is_heard(away), f"{away.name} is heard")
    run.drain(drained, Drain.ALL, is_forced=True)
    run.throughout(lambda: run.goal(shard) == goal, PASSES_S, f"shard {shard} moves while {away.name} is away")
    away.start()
    run.until(lambda: not run.carries(drained), f"{drained.name} is not emptied")


# Targets.


def drained_target(run: DirectedRun) -> None:
    """The broker with the fewest replicas is drained of its leaders."""
    _avoid(run, lambda avoided, _: run.drain(avoided, Drain.LEADERS))


def unready_target(run: DirectedRun) -> None:
    """The broker with the fewest replicas starts, and does not serve clients yet."""

    def spoil(avoided: BrokerMachine, drained: BrokerMachine) -> None:
        avoided.kill()
        run.drain(drained, Drain.LEADERS)  # a change of the metadata, for which the avoided broker waits
        run.lagging = avoided
        avoided.start()
        run.until(lambda: avoided.broker is not None and run.is_heard(avoided), f"{avoided.name} is not heard")
        run.until(lambda: run.are(Presence.ACTIVE, avoided), f"{avoided.name} does not count")

    _avoid(run, spoil)


def unmeasured_target(run: DirectedRun) -> None:
    """The broker with the fewest replicas has never told how full its disk is."""

    def spoil(avoided: BrokerMachine, drained: BrokerMachine) -> None:
        run.unmeasured.add(avoided)
        run.let_lead(run.away(run.controller, avoided, drained)[0], METADATA_SHARD)  # it has no figures yet
        run.until(lambda: run.is_planning, "the next controller does not plan")

    _avoid(run, spoil)


def _avoid(run: DirectedRun, spoil: Callable[[BrokerMachine, BrokerMachine], None]) -> None:
    """Spoil the broker with the fewest replicas, and drain another one: a third one must take what that has."""
    shards = run.shards
    apart = [it for it in run.machines if not any(it in run.goal(shard) for shard in shards)]
    avoided = next(it for it in apart if it is not run.controller)
    taking = next(it for it in apart if it is not avoided)
    drained = next(it for it in run.goal(shards[0]) if it is not run.controller)
    # One replica more than the avoided one has, so that only the rule keeps that from being chosen.
    run.move(shards[1], taking, *[it for it in run.goal(shards[1]) if it is not drained][:2])
    run.until(lambda: taking.voter in run.voters(shards[1]), f"{taking.name} does not vote")
    spoil(avoided, drained)
    run.drain(drained, Drain.ALL, is_forced=True)
    run.until(lambda: taking in run.goal(shards[0]) or avoided in run.goal(shards[0]), f"{drained.name} is not emptied")
    run.require(avoided not in run.goal(shards[0]), f"{avoided.name} takes a replica")


# Limits and figures.


def full_disk(run: DirectedRun) -> None:
    """A disk is so full that one of its three replicas must leave, whose copy is slow."""
    broker = next(it for it in run.goal(run.shards[0]) if it is not run.controller)
    count = sum(broker in run.goal(shard) for shard in run.shards)
    run.is_copying_slow = True
    run.other_bytes[broker] = 62 * GIB

    def carried() -> int:
        return sum(broker in run.goal(shard) for shard in run.shards)

    run.until(lambda: carried() < count, f"the disk of {broker.name} is not relieved")
    run.throughout(lambda: carried() == count - 1, 2 * PASSES_S, f"the disk of {broker.name} is emptied")


def busy_shard(run: DirectedRun) -> None:
    """More is written to a shard than a broker may send for copies."""
    (shard,) = run.shards
    goal = run.goal(shard)
    newcomer = run.random.choice(run.away(*goal))
    leaves = next(it for it in goal if it is not run.leader(shard))
    run.is_copying_slow = True
    run.move(shard, *[newcomer if it is leaves else it for it in goal])
    run.throughout(lambda: newcomer.voter not in run.voters(shard), PASSES_S, f"{newcomer.name} votes before its time")
    run.is_copying_slow = False
    run.until(lambda: newcomer.voter in run.voters(shard), f"{newcomer.name} never catches up")


def hot_leader(run: DirectedRun) -> None:
    """One broker leads all shards, and the figures show only late that it does not any more."""
    busiest = run.controller
    for shard in run.shards:
        run.prefer(busiest, shard)
    run.let_lead(busiest, *run.shards)
    run.until(lambda: run.leader_counts() == [1, 1, 1], "the busiest broker is not relieved", 20)
    run.throughout(lambda: run.leader_counts() == [1, 1, 1], 6, "leaders move again, for figures that are old")


def balance_during_a_drain(run: DirectedRun) -> None:
    """A broker is drained of its leaders, and another one carries little."""
    apart = [it for it in run.machines if not any(it in run.goal(shard) for shard in run.shards)]
    drained = next(it for it in apart if it is not run.controller)
    empty = next(it for it in apart if it is not drained)
    run.drain(drained, Drain.LEADERS)
    run.until(lambda: any(empty in run.goal(it) for it in run.shards), f"{empty.name} gets nothing")


def new_controller(run: DirectedRun) -> None:
    """The controller changes during a copy, the only one allowed, of which the next controller hears late."""
    shards = run.shards
    drained = next(it for it in run.goal(shards[0]) if it is not run.controller)
    staying = [it for it in run.goal(shards[0]) if it is not drained]
    run.let_lead(staying[0], shards[0])
    run.let_lead(staying[1], *shards[1:])
    run.is_copying_slow = True
    run.drain(drained, Drain.ALL, is_forced=True)

    def moving() -> list[ShardId]:
        return [shard for shard in shards if run.newcomers(shard)]

    run.until(lambda: bool(moving()), f"{drained.name} is not emptied")
    (copied,) = moving()
    run.late = run.leader(copied)
    run.let_lead(run.random.choice(run.away(run.controller, drained, *staying)), METADATA_SHARD)
    run.throughout(lambda: moving() == [copied], 2.2, "a second copy begins")
    run.hear()
    run.throughout(lambda: moving() == [copied], PASSES_S, "a second copy begins")


BAD_LINKS: Final = Script(act=bad_links)
FLAPPING: Final = Script(act=flapping, settings=STEADY)
MANY_SILENT: Final = Script(act=many_silent)
A_RACK_IS_SILENT: Final = Script(
    act=a_rack_is_silent,
    brokers=6,
    racks=("a", "b", "c", "a", "b", "c"),
    limits={**UNBALANCED, "bulk_percent": 50},
)
DRAINING_LEADERS: Final = Script(act=draining_leaders, brokers=3)
REGISTERING_AGAIN: Final = Script(act=registering_again)
LOST_FOR_GOOD: Final = Script(act=lost_for_good)
LOST_MAJORITY: Final = Script(act=lost_majority)
BACK_IN_TIME: Final = Script(act=back_in_time)
BACK_LATE: Final = Script(act=back_late)
GONE_AND_LIVE: Final = Script(act=gone_and_live, shards=3, settings={**STEADY, **ONE_COPY})
COPY_WITHOUT_A_MAJORITY: Final = Script(
    act=copy_without_a_majority, brokers=6, shards=2, settings={**NEVER_GONE, **ONE_COPY}
)
NEW_CONTROLLER_WITHOUT_A_MAJORITY: Final = Script(act=new_controller_without_a_majority, brokers=6, settings=NEVER_GONE)
NEWCOMER_LOST: Final = Script(act=newcomer_lost, settings=NEVER_GONE)
NEWCOMER_DRAINED: Final = Script(act=newcomer_drained)
NEWCOMER_FULL: Final = Script(act=newcomer_full)
NO_PLACE: Final = Script(act=no_place, brokers=3)
MAINTENANCE: Final = Script(act=maintenance, brokers=4)
DRAINS_AT_ONCE: Final = Script(act=drains_at_once, brokers=4)
TWO_DRAINS: Final = Script(act=two_drains)
DRAINING_FIVE: Final = Script(act=draining_five)
ANOTHER_REPLICA_IS_AWAY: Final = Script(act=another_replica_is_away, settings=NEVER_GONE)
DRAINED_TARGET: Final = Script(act=drained_target, shards=2)
UNREADY_TARGET: Final = Script(act=unready_target, shards=2)
UNMEASURED_TARGET: Final = Script(act=unmeasured_target, shards=2)
FULL_DISK: Final = Script(act=full_disk, shards=3)
BUSY_SHARD: Final = Script(act=busy_shard, brokers=4, send_bytes_per_s=100, pause_s=0.02)
HOT_LEADER: Final = Script(
    act=hot_leader, brokers=3, shards=3, settings=SLOW_REPORTS, limits={**UNBALANCED, "leaders_percent": 100}
)
BALANCE_DURING_A_DRAIN: Final = Script(act=balance_during_a_drain, shards=3, limits={"bytes_floor": 1 << 60})
NEW_CONTROLLER: Final = Script(act=new_controller, shards=3, settings={**ONE_COPY, **SLOW_REPORTS})

SCRIPTS: Final = (
    BAD_LINKS,
    FLAPPING,
    MANY_SILENT,
    A_RACK_IS_SILENT,
    DRAINING_LEADERS,
    REGISTERING_AGAIN,
    LOST_FOR_GOOD,
    LOST_MAJORITY,
    BACK_IN_TIME,
    BACK_LATE,
    GONE_AND_LIVE,
    COPY_WITHOUT_A_MAJORITY,
    NEW_CONTROLLER_WITHOUT_A_MAJORITY,
    NEWCOMER_LOST,
    NEWCOMER_DRAINED,
    NEWCOMER_FULL,
    NO_PLACE,
    MAINTENANCE,
    DRAINS_AT_ONCE,
    TWO_DRAINS,
    DRAINING_FIVE,
    ANOTHER_REPLICA_IS_AWAY,
    DRAINED_TARGET,
    UNREADY_TARGET,
    UNMEASURED_TARGET,
    FULL_DISK,
    BUSY_SHARD,
    HOT_LEADER,
    BALANCE_DURING_A_DRAIN,
    NEW_CONTROLLER,
)
