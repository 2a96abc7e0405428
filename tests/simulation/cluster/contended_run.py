"""A simulated cluster in which one replica leaves, comes back, and meets the faults against which a rule protects it.

Random moves under random faults seldom meet what a single rule of `docs/raft.md` (M4 to M8) or of
`docs/formats/journal.md` (D2, D4, D5) is for: that needs a plan, a message and a crash within the same few
milliseconds.  A `Focus` brings them together: a script of plans and faults, over and over, with the brokers, delays and
crashes drawn from the seed.  Nothing else disturbs the cluster.
"""

from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from functools import partial
from random import Random
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.cluster.brief_knobs import brief
from tests.simulation.cluster.moving_run import MovingRun, asking_often
from tidemill.broker.shards.shard_table import ShardTable
from tidemill.metadata.image import Shard as PlannedShard
from tidemill.metadata.reassignments import Move
from tidemill.model.broker_id import ReplicaKey
from tidemill.model.move_reason import Reason
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.raft.messages import AppendEntriesResponse, Message, Released
from tidemill.shard.shard import Shard
from tidemill.simulation.cluster.broker_machine import BrokerMachine
from tidemill.simulation.cluster.cluster import TOPIC
from tidemill.simulation.cluster.cluster_faults import ClusterFaults
from tidemill.simulation.cluster.cluster_knobs import ClusterKnobs
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.simulation.machine.crash_fate import ALL_LOST, Mix
from tidemill.simulation.machine.machine import seconds
from tidemill.storage.journal.journal import Journal
from tidemill.storage.store import Store

BROKERS: Final = 4  # three replicas, and a broker that is not concerned
DURATION_S: Final = 14
BEGIN_S: Final = 1.0
RESTART_S: Final = 0.5  # after a process has ended, unless the script keeps it down
STEP_S_MAX: Final = 6.0  # a script that waits for longer begins again
ELECTION_S: Final = 6.0  # within which the voters that are up must have a leader

Script = Generator[Callable[[], bool], None, None]


class Focus(StrEnum):
    UNAWARE_NEWCOMER = "a replica is added on a broker that has not heard of the plan, and the leader is lost"
    LOST_REMOVAL = "the leader is lost while the removal of a member is not committed"
    LATE_RELEASE = "a release arrives when the replica is planned again"
    OLD_RELEASE = "a release arrives when the replica has been added and is to be removed again"
    LATE_ANSWER = "an answer of the replica arrives when it has been closed and added again"
    REMOVED_CANDIDATE = "a replica comes back empty and meets a candidate that was removed"
    LATE_REMOVAL = "the files of a closed replica go late, and it is planned again"
    ENTRIES_WAIT = "the journal has no room for the entries of a replica that is closed"
    OPENING_WAITS = "the journal has no room for anything when a replica is opened again, and its process ends"
    CLOSING_WAITS = "the journal has no room for anything when a replica is closed, and its process ends"
    FORGOTTEN_ADDITION = "as OLD_RELEASE, when the entry that has added the replica is no longer in memory"


class _NoOtherFaults(ClusterFaults):
    def begin(self) -> None:
        """Inject nothing: the script does."""


class ContendedRun(MovingRun):
    def __init__(self, seed: int, focus: Focus, *, is_brief: bool = False) -> None:
        """A brief run ends when its script has run once; any other one repeats it."""
        drawn = ClusterKnobs.draw(Random(seed), BROKERS).without_faults()
        knobs = replace(drawn, duration_s=DURATION_S, partitions=1, delay_us=min(drawn.delay_us, 1_000))
        if focus is Focus.FORGOTTEN_ADDITION:
            knobs = replace(knobs, options=replace(knobs.options, tail_entries=1))
        if is_brief:
            knobs = brief(knobs, DURATION_S)
        super().__init__(seed, knobs)
        self.focus = focus
        self._is_brief = is_brief
        self.faults = _NoOtherFaults(
            self.timeline, self.network, self.machines, self.knobs, self._fork(), self._may_lose
        )
        self.shard_id: ShardId | None = None
        self._script: Script | None = None
        self._is_due: Callable[[], bool] = lambda: True
        self._is_stepping = False
        self._kept_down: BrokerMachine | None = None
        # Messages that are late: whether to keep one back, and those that wait, with the table that receives them.
        self._is_late: Callable[[ReplicaKey, ReplicaKey, Message], bool] = lambda sender, receiver, message: False
        self._late: list[tuple[ShardTable, ReplicaKey, Message]] = []
        self._lagging: BrokerMachine | None = None  # it receives no metadata
        self._full: BrokerMachine | None = None  # its journal has no room for entries
        self._is_reserve_full = False  # nor for control rows
        self._busy: BrokerMachine | None = None  # its disk does not get to removing files

    def run(self) -> None:
        receive, steps = ShardTable.receive, Store.removal_steps
        free, free_for_entries = Journal.free.fget, Journal.free_for_entries.fget  # type: ignore[attr-defined]

        def receive_late(table: Any, sender: ReplicaKey, shard_id: ShardId, message: Message) -> None:
            if shard_id == METADATA_SHARD and self._lagging is not None and table._me == self._lagging.voter:
                return  # lost: the controller sends it again
            if shard_id == self.shard_id and self._is_late(sender, table._me, message):
                self._late.append((table, sender, message))
            else:
                receive(table, sender, shard_id, message)

        def is_full(journal: Journal) -> bool:
            broker = None if self._full is None else self._full.broker
            return broker is not None and broker.store.journal is journal

        def removal_steps(store: Store) -> Any:
            broker = None if self._busy is None else self._busy.broker
            return [] if broker is not None and broker.store is store else steps(store)

        with ExitStack() as patches:
            patches.enter_context(asking_often())
            patches.enter_context(patch.object(ShardTable, "receive", receive_late))
            patches.enter_context(patch.object(Store, "removal_steps", removal_steps))
            full = property(lambda journal: 0 if is_full(journal) and self._is_reserve_full else free(journal))
            no_room = property(lambda journal: 0 if is_full(journal) else free_for_entries(journal))
            patches.enter_context(patch.object(Journal, "free", full))
            patches.enter_context(patch.object(Journal, "free_for_entries", no_room))
            super().run()

    def _pass_faults(self) -> None:
        end_us = self.timeline.now_us + seconds(self.knobs.duration_s)
        self.timeline.run_until(end_us, lambda: self._is_brief and self.happened[self.focus.name] > 0)

    # Running the script.

    def _plan(self) -> None:
        """Begin the script, instead of random plans, as soon as there is a topic."""
        controller = self._controller()
        topic = None if controller is None else controller.broker.image.topic(TOPIC)  # type: ignore[union-attr]
        if topic is None:
            self.timeline.after(seconds(BEGIN_S), self._plan)
            return
        self.shard_id = topic.shard_ids[0]
        self._script = self._repeat()
        self._restart()

    def _repeat(self) -> Script:
        script = {
            Focus.UNAWARE_NEWCOMER: self._unaware_newcomer,
            Focus.LOST_REMOVAL: self._lost_removal,
            Focus.LATE_RELEASE: self._late_release,
            Focus.OLD_RELEASE: self._old_release,
            Focus.LATE_ANSWER: self._late_answer,
            Focus.REMOVED_CANDIDATE: self._removed_candidate,
            Focus.LATE_REMOVAL: self._late_removal,
            Focus.ENTRIES_WAIT: self._entries_wait,
            Focus.OPENING_WAITS: self._opening_waits,
            Focus.CLOSING_WAITS: self._closing_waits,
            Focus.FORGOTTEN_ADDITION: self._forgotten_addition,
        }[self.focus]
        while True:
            self._heal()
            voters = self._moves.sample(self.machines, 3)
            self._want(*voters)
            yield self._within(lambda: self._are_voters(voters) and self._leader() is not None)  # noqa: B023
            leader = self._leader()
            if leader is None or not self._are_voters(voters) or leader not in voters:
                continue
            stays, goes = self._moves.sample([it for it in voters if it is not leader], 2)
            yield self._pause(self._moves.uniform(0, 0.5))
            if self._leader() is leader:
                yield from script(leader, stays, goes)
                self.happened[self.focus.name] += 1

    def _heal(self) -> None:
        self.network.blocked.clear()
        self._kept_down = self._lagging = self._full = self._busy = None
        self._is_reserve_full = False
        self._is_late = lambda sender, receiver, message: False
        self._late.clear()

    def _restart(self) -> None:
        """Start the processes that have ended, unless the script keeps them down."""
        if self.faults.is_over:
            return
        for machine in self.machines:
            if machine.loop is None and machine is not self._kept_down:
                machine.start()
        self.timeline.after(seconds(RESTART_S), self._restart)

    def _after_turn(self, machine: BrokerMachine) -> None:
        super()._after_turn(machine)
        if self.faults.is_over:
            if self._script is not None:
                self._script = None
                self._heal()
        elif self._script is not None and not self._is_stepping and self._is_due():
            self._is_stepping = True
            self._is_due = next(self._script)
            self._is_stepping = False

    def _pause(self, duration_s: float) -> Callable[[], bool]:
        until_us = self.timeline.now_us + seconds(duration_s)
        return lambda: self.timeline.now_us >= until_us

    def _within(self, holds: Callable[[], bool], duration_s: float = STEP_S_MAX) -> Callable[[], bool]:
        is_over = self._pause(duration_s)
        return lambda: holds() or is_over()

    # The state of the shard.

    def _controller(self) -> BrokerMachine | None:
        return next((it for it in self.machines if it.broker is not None and it.broker.controller.leads), None)

    def _on(self, machine: BrokerMachine) -> Shard | None:
        assert self.shard_id is not None, "the script has begun"
        return None if machine.broker is None else machine.broker.shard_table.shards.get(self.shard_id)

    def _leader(self) -> BrokerMachine | None:
        led = [it for it in self.machines if (shard := self._on(it)) is not None and shard.is_serving]
        return max(led, key=lambda it: self._on(it).replica.term, default=None)  # type: ignore[union-attr]

    def _are_voters(self, machines: list[BrokerMachine]) -> bool:
        leader = self._leader()
        shard = None if leader is None else self._on(leader)
        return shard is not None and set(shard.replica.voters) == {it.voter for it in machines}

    def _planned(self, machine: BrokerMachine) -> PlannedShard | None:
        """Return the shard as the image of `machine` has it."""
        assert self.shard_id is not None, "the script has begun"
        return None if machine.broker is None else machine.broker.image.shards[self.shard_id]

    def _is_planned(self, member: BrokerMachine, image_of: BrokerMachine | None) -> bool:
        planned = None if image_of is None else self._planned(image_of)
        return planned is not None and member.voter in planned.replicas

    def _is_member(self, member: BrokerMachine, leader: BrokerMachine) -> bool:
        shard = self._on(leader)
        return shard is not None and member.voter in shard.replica.membership.members

    def _is_closed(self, machine: BrokerMachine) -> bool:
        return machine.broker is not None and self.shard_id in machine.broker.store.closed

    # What scripts do.

    def _want(self, *machines: BrokerMachine) -> None:
        """Have the controller plan the replicas on `machines`."""
        controller = self._controller()
        if controller is None or controller.loop is None or any(it.voter is None for it in machines):
            return
        assert self.shard_id is not None and controller.broker is not None, "the script has begun"
        brokers = tuple(it.voter.broker_id for it in machines if it.voter is not None)
        move = Move(shard_id=self.shard_id, brokers=brokers, reason=Reason.USER)
        controller.loop.after(0, partial(self._submit, controller.broker, move))

    def _cut(self, one: BrokerMachine, other: BrokerMachine) -> None:
        self.network.blocked |= {(one.name, other.name), (other.name, one.name)}

    def _join(self, one: BrokerMachine, other: BrokerMachine) -> None:
        self.network.blocked -= {(one.name, other.name), (other.name, one.name)}

    def _end(self, machine: BrokerMachine) -> None:
        """End the process of `machine`, or the power of the machine."""
        if machine.loop is not None:
            kind = self._moves.randrange(3)
            if kind == 0:
                machine.kill()
            else:
                machine.lose_power(ALL_LOST if kind == 1 else Mix(self._moves.getrandbits(32)))

    def _deliver(self) -> None:
        """Deliver the messages that were kept back, to the processes that still run."""
        self._is_late = lambda sender, receiver, message: False
        for table, sender, message in self._late:
            for machine in self.machines:
                if machine.loop is not None and machine.broker is not None and machine.broker.shard_table is table:
                    machine.loop.after(0, partial(table.receive, sender, self.shard_id, message))
        self._late.clear()

    def _check_led(self) -> None:
        """
        Check that the shard has a leader if enough voters are up and connected.  The up-to-date ones know whether
        others have been removed.
        """
        up = [it for it in self.machines if it.broker is not None and it is not self._kept_down]
        shards = [shard for it in up if (shard := self._on(it)) is not None]
        newest = max(shards, key=lambda it: (it.log.term_at(it.log.last_index), it.log.last_index), default=None)
        if newest is None or self._leader() in up:
            return
        voters = newest.replica.voters
        is_taking_part = all(it.replica.installing is None and not it.replica.is_damaged for it in shards)
        if is_taking_part and len({it.voter for it in up}.intersection(voters)) > len(voters) // 2:
            raise InvariantViolation(
                f"shard {self.shard_id} has no leader, although a majority of {voters} is up: {self.check.describe()}"
            )

    # The scripts.

    def _unaware_newcomer(self, leader: BrokerMachine, stays: BrokerMachine, goes: BrokerMachine) -> Script:
        self._lagging = newcomer = next(it for it in self.machines if it not in (leader, stays, goes))
        if self._controller() is newcomer:
            yield self._pause(0.5)
            return
        self._want(leader, stays, newcomer)
        yield self._within(lambda: self._is_member(newcomer, leader))
        yield self._pause(self._moves.uniform(0.5, 2.5))
        yield from self._without(leader)

    def _lost_removal(self, leader: BrokerMachine, stays: BrokerMachine, goes: BrokerMachine) -> Script:
        self._want(leader, stays)
        yield self._within(lambda: not self._is_member(goes, leader))
        self._cut(leader, stays)  # which has not received the removal yet
        yield self._pause(self._moves.uniform(0.5, 1.8))
        yield from self._without(leader)

    def _without(self, leader: BrokerMachine) -> Script:
        """End the leader, and let the others elect another one."""
        self._kept_down = leader
        self._end(leader)  # what it has sent to brokers from which it is cut off does not arrive while it is down
        yield self._pause(ELECTION_S)
        self._check_led()

    def _hold_releases(self, leader: BrokerMachine, stays: BrokerMachine, goes: BrokerMachine) -> Script:
        """Keep back releases of `goes`, and plan it again.  They may be of a later term than its removal."""
        self._is_late = lambda sender, receiver, message: receiver == goes.voter and isinstance(message, Released)
        self._want(leader, stays)
        yield self._within(lambda: bool(self._late))
        shard = self._on(leader)
        if shard is not None and leader.loop is not None and self._moves.random() < 0.5:
            leader.loop.after(0, shard.begin_term)
            yield self._pause(self._moves.uniform(0.5, 1.5))
        self._want(leader, stays, goes)

    def _late_release(self, leader: BrokerMachine, stays: BrokerMachine, goes: BrokerMachine) -> Script:
        yield from self._hold_releases(leader, stays, goes)
        yield self._within(lambda: self._is_planned(goes, goes))
        self._deliver()
        yield self._pause(3)

    def _old_release(self, leader: BrokerMachine, stays: BrokerMachine, goes: BrokerMachine) -> Script:
        yield from self._hold_releases(leader, stays, goes)
        yield self._within(lambda: self._are_voters([leader, stays, goes]))
        if self._are_voters([leader, stays, goes]):
            self._want(leader, stays)
            yield self._within(lambda: not self._is_planned(goes, goes))
            self._deliver()
            yield self._pause(self._moves.uniform(0, 0.1))
            if self._is_member(goes, leader):
                yield from self._without(leader)

    def _forgotten_addition(self, leader: BrokerMachine, stays: BrokerMachine, goes: BrokerMachine) -> Script:
        """Do the same as `_old_release`, but keep the plan from the leader until it has appended more records."""
        yield from self._hold_releases(leader, stays, goes)
        yield self._within(lambda: self._are_voters([leader, stays, goes]))
        if self._are_voters([leader, stays, goes]):
            self._lagging = leader
            self._want(leader, stays)
            yield self._within(lambda: not self._is_planned(goes, goes))
            yield self._pause(self._moves.uniform(0.5, 1.5))
            self._deliver()
            yield self._pause(self._moves.uniform(0, 0.1))
            if self._is_member(goes, leader):
                yield from self._without(leader)

    def _late_answer(self, leader: BrokerMachine, stays: BrokerMachine, goes: BrokerMachine) -> Script:
        self._is_late = lambda sender, receiver, message: (
            sender == goes.voter and isinstance(message, AppendEntriesResponse) and not self._is_closed(goes)
        )
        self._want(leader, stays)
        yield self._within(lambda: self._is_closed(goes))
        late, self._late = self._late, []
        self._want(leader, stays, goes)
        yield self._within(lambda: self._is_member(goes, leader) and self._on(goes) is not None)
        self._late = late
        self._deliver()
        yield self._pause(1)

    def _removed_candidate(self, leader: BrokerMachine, stays: BrokerMachine, goes: BrokerMachine) -> Script:
        """`goes` is removed unnoticed; `stays` is closed, comes back, and hears only `goes`, which campaigns."""
        self._cut(leader, goes)
        self._cut(stays, goes)
        self._want(leader, stays)
        yield self._within(lambda: not self._is_member(goes, leader))
        yield self._pause(self._moves.uniform(0.5, 1))
        self._want(leader)
        yield self._within(lambda: self._is_closed(stays))
        self._want(leader, stays)
        yield self._within(lambda: self._on(stays) is not None)
        self._cut(leader, stays)
        self._join(stays, goes)
        yield self._pause(5)

    def _late_removal(self, leader: BrokerMachine, stays: BrokerMachine, goes: BrokerMachine) -> Script:
        self._busy = goes
        self._want(leader, stays)
        yield self._within(lambda: self._is_closed(goes))
        self._want(leader, stays, goes)
        yield self._pause(self._moves.uniform(1, 3))
        self._busy = None
        yield self._pause(self._moves.uniform(0.3, 1))
        self._end(goes)
        yield self._pause(2)

    def _entries_wait(self, leader: BrokerMachine, stays: BrokerMachine, goes: BrokerMachine) -> Script:
        self._full = goes
        self._want(leader, stays)
        yield self._within(lambda: self._is_closed(goes))
        self._want(leader, stays, goes)
        yield self._within(lambda: self._on(goes) is not None)
        yield self._pause(self._moves.uniform(0, 0.5))
        self._full = None
        yield self._pause(self._moves.uniform(0, 0.5))
        self._end(goes)
        yield self._pause(2)

    def _opening_waits(self, leader: BrokerMachine, stays: BrokerMachine, goes: BrokerMachine) -> Script:
        self._want(leader, stays)
        yield self._within(lambda: self._is_closed(goes))
        yield self._pause(self._moves.uniform(0.5, 1))
        self._want(leader, stays, goes)
        yield self._within(lambda: self._on(goes) is not None)
        yield from self._end_full(goes)

    def _closing_waits(self, leader: BrokerMachine, stays: BrokerMachine, goes: BrokerMachine) -> Script:
        self._want(leader, stays)
        yield self._within(lambda: self._is_closed(goes))
        yield from self._end_full(goes)

    def _end_full(self, machine: BrokerMachine) -> Script:
        """Let the journal write nothing from now on, but take checkpoints, and end the process."""
        self._full, self._is_reserve_full = machine, True
        yield self._pause(self._moves.uniform(0, 1))
        self._end(machine)
        self._full, self._is_reserve_full = None, False
        yield self._pause(2)
