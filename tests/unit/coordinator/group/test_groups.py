"""Invariants of the coordinator under random sequences of requests, and examples of leader changes."""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.coordinator.group.group_world import FLIGHTS_ID, RANGE, TOPIC_IDS, World
from tidemill.coordinator.group.groups import Groups
from tidemill.coordinator.group.requests import (
    CommitOffsets,
    DeleteGroups,
    DescribeGroups,
    ForgetTopics,
    Heartbeat,
    Leave,
    LeavingMember,
    OffsetToCommit,
    Sync,
)
from tidemill.coordinator.group.responses import Joined
from tidemill.model import errors

GROUPS = ("g", "h")
STICKY = ("sticky", b"\x00\x00\x00\x00\x00\x01\x00\x05tides")
PROTOCOLS = st.sampled_from([RANGE, RANGE, (STICKY, *RANGE), (*RANGE, STICKY), (STICKY,)])
SESSIONS_MS = st.sampled_from([10_000, 100_000])
REBALANCES_MS = st.sampled_from([5_000, 60_000])


def test_a_new_coordinator_renews_the_sessions_of_a_stable_group():
    """
    When the coordinator changes, the members of a stable group keep their generation and assignments, and get new
    sessions of full length.
    """
    world = World()
    leader, follower = world.stable(2)
    world.wait(5_000)

    world.restart()
    world.wait(9_999)

    assert world.heartbeat(leader) == world.heartbeat(follower) == errors.NONE
    assert world.sync(follower).assignment == b"\x01"


def test_an_incomplete_generation_is_lost_with_the_coordinator():
    """If the coordinator changes before a generation is complete, the members of the generation have to join again."""
    world = World()
    parked = world.join()
    world.wait(3_000)

    world.restart()

    assert world.heartbeat(world.answer(parked)) == errors.UNKNOWN_MEMBER_ID
    assert world.state() == "Empty"


def test_losing_leadership_answers_all_parked_requests():
    """
    When a coordinator loses leadership, parked joins and syncs get NOT_COORDINATOR; all other requests have already
    been answered.
    """
    world = World()
    joins = [world.join() for _ in range(2)]
    world.wait(6_000)
    waits = world.sync(world.answer(joins[1]))
    parked = world.join(group_id="h")

    replies = dict(world.groups.drain(errors.NOT_COORDINATOR))

    assert {waiter: response.error_code for waiter, response in replies.items()} == {
        waits: errors.NOT_COORDINATOR,
        parked: errors.NOT_COORDINATOR,
    }
    assert world.groups.drain(errors.NOT_COORDINATOR) == ()


def test_a_group_above_a_lowered_size_limit_rebalances_at_load():
    """
    If a group has more members than a lowered limit permits, it rebalances when it is loaded.  All members can still
    commit before some of them are rejected.
    """
    world = World()
    first, *_ = world.stable(3)
    world.settings = type(world.settings)(size_max=2)

    world.restart()

    assert world.state() == "PreparingRebalance"
    assert world.commit(generation=1, member_id=first.member_id) == errors.NONE


def test_a_heartbeat_writes_no_record_and_sets_no_timer():
    """A heartbeat causes no work for the host: it neither appends nor arms a timer."""
    world = World()
    (member,) = world.stable()
    beat = Heartbeat(waiter="w", group_id="g", generation=member.generation, member_id=member.member_id)

    result = world.groups.decide(beat, world.timestamps._replace(now_ms=world.timestamps.now_ms + 5_000))

    assert (result.records, result.deadlines) == ((), ())


class LivesOfGroups(RuleBasedStateMachine):
    """Clients that may send any request at any time, a clock that jumps, and changes of leadership."""

    def __init__(self) -> None:
        super().__init__()
        self.begin(4)
        self.waiters: list[str] = []
        self.known: list[tuple[str, str, int, str | None]] = []  # (group, member id, generation, instance id)
        self.generations: dict[str, int] = {}

    @initialize(size_max=st.sampled_from([2, 3, 10]))
    def begin(self, size_max):
        self.world = World(size_max=size_max, offsets_retention_ms=2_000_000)

    def ask(self, request: Any) -> None:
        if getattr(request, "waiter", None) is not None:
            self.waiters.append(request.waiter)
        before = {waiter: len(answers) for waiter, answers in self.world.answers.items()}
        self.world.ask(request)
        self.learn(before)

    def learn(self, before: dict[Any, int]) -> None:
        for waiter, answers in self.world.answers.items():
            assert len(answers) == 1, "each request gets one reply"
            if waiter not in before and isinstance(answers[0], Joined) and answers[0].member_id:
                joined = answers[0]
                group_id, instance_id = self.asked[waiter]
                self.known.append((group_id, joined.member_id, joined.generation, instance_id))

    @property
    def asked(self) -> dict[Any, tuple[str, str | None]]:
        return self.__dict__.setdefault("_asked", {})

    def pick(self, data: st.DataObject) -> tuple[str, str, int, str | None]:
        """
        Return a known identity, usually one of the newest, so that groups make progress, but sometimes an older one.
        """
        return data.draw(st.sampled_from(self.known[-6:]))

    @rule(
        group_id=st.sampled_from(GROUPS),
        instance_id=st.sampled_from([None, None, "desk", "tower"]),
        protocols=PROTOCOLS,
        session_ms=SESSIONS_MS,
        rebalance_ms=REBALANCES_MS,
        two_steps=st.booleans(),
        can_skip=st.booleans(),
    )
    def join_anew(self, group_id, instance_id, protocols, two_steps, can_skip, session_ms, rebalance_ms):
        request = self.world.joining(
            group_id,
            instance_id=instance_id,
            protocols=protocols,
            must_know_member_id=two_steps,
            can_skip_assignment=can_skip,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
        )
        self.asked[request.waiter] = (group_id, instance_id)
        self.ask(request)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), protocols=PROTOCOLS, session_ms=SESSIONS_MS, rebalance_ms=REBALANCES_MS)
    def join_again(self, data, protocols, session_ms, rebalance_ms):
        group_id, member_id, _, instance_id = self.pick(data)
        request = self.world.joining(
            group_id,
            member_id=member_id,
            instance_id=instance_id,
            protocols=protocols,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
        )
        self.asked[request.waiter] = (group_id, instance_id)
        self.ask(request)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), assigns=st.booleans())
    def sync(self, data, assigns):
        group_id, member_id, generation, instance_id = self.pick(data)
        assignments = tuple((known[1], known[1].encode()) for known in self.known) if assigns else ()
        self.ask(
            Sync(
                waiter=self.world.waiter(),
                group_id=group_id,
                generation=generation,
                member_id=member_id,
                instance_id=instance_id,
                assignments=assignments,
            )
        )

    @rule(group_id=st.sampled_from(GROUPS), but_one=st.booleans(), goes_on=st.booleans())
    def everybody_joins(self, group_id, but_one, goes_on):
        """Let all members, or all but one, join again, which rarely happens through random requests."""
        group = self.world.groups._groups.get(group_id)
        for member in list(group.members.values())[but_one:] if group is not None else ():
            if member.member_id in group.members:
                again = self.world.joining(
                    group_id,
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    protocols=member.protocols,
                    session_timeout_ms=member.session_timeout_ms,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                )
                self.asked[again.waiter] = (group_id, member.instance_id)
                self.ask(again)
        if goes_on:
            self.wait(6_000)
            self.everybody_syncs(group_id, but_one)

    @rule(group_id=st.sampled_from(GROUPS), protocols=PROTOCOLS, can_skip=st.booleans())
    def a_static_member_is_restarted(self, group_id, protocols, can_skip):
        for protocols_then in (RANGE, protocols):
            request = self.world.joining(
                group_id, instance_id="desk", protocols=protocols_then, can_skip_assignment=can_skip
            )
            self.asked[request.waiter] = (group_id, "desk")
            self.ask(request)
            self.wait(6_000)
            self.everybody_syncs(group_id, but_one=False)

    @rule(group_id=st.sampled_from(GROUPS), but_one=st.booleans())
    def everybody_syncs(self, group_id, but_one):
        group = self.world.groups._groups.get(group_id)
        for member_id in list(group.members)[but_one:] if group is not None else ():
            if member_id not in group.members:
                continue  # The member was removed: the assignments made the group's record too large for the log.
            self.ask(
                Sync(
                    waiter=self.world.waiter(),
                    group_id=group_id,
                    generation=group.generation,
                    member_id=member_id,
                    assignments=tuple((name, name.encode()) for name in group.members),
                )
            )

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def heartbeat(self, data):
        group_id, member_id, generation, instance_id = self.pick(data)
        self.ask(
            Heartbeat(
                waiter=self.world.waiter(),
                group_id=group_id,
                generation=generation,
                member_id=member_id,
                instance_id=instance_id,
            )
        )

    @precondition(lambda self: self.known)
    @rule(data=st.data(), by_instance=st.booleans())
    def leave(self, data, by_instance):
        group_id, member_id, _, instance_id = self.pick(data)
        leaving = LeavingMember(member_id="" if by_instance else member_id, instance_id=instance_id)
        self.ask(Leave(waiter=self.world.waiter(), group_id=group_id, members=(leaving,)))

    @rule(data=st.data(), group_id=st.sampled_from(GROUPS), topic=st.sampled_from(sorted(TOPIC_IDS)))
    def commit(self, data, group_id, topic):
        member_id, generation = "", -1
        if self.known and data.draw(st.booleans()):
            group_id, member_id, generation, _ = self.pick(data)
        offset = OffsetToCommit(topic=topic, topic_id=TOPIC_IDS[topic], partition=0, offset=self.world.asked)
        self.ask(
            CommitOffsets(
                waiter=self.world.waiter(),
                group_id=group_id,
                member_id=member_id,
                generation=generation,
                offsets=(offset,),
            )
        )

    @rule(group_id=st.sampled_from(GROUPS), rarely=st.integers(0, 3))
    def delete(self, group_id, rarely):
        if not rarely:
            self.ask(DeleteGroups(waiter=self.world.waiter(), group_ids=(group_id,)))

    @rule()
    def forget_topic(self):
        self.ask(ForgetTopics(topic_ids=frozenset({FLIGHTS_ID})))

    @rule(group_id=st.sampled_from(GROUPS))
    def describe(self, group_id):
        self.ask(DescribeGroups(waiter=self.world.waiter(), group_ids=(group_id,)))

    @rule(ms=st.sampled_from([0, 1_000, 3_000, 3_000, 6_000, 6_000, 9_999]))
    def wait_a_little(self, ms):
        self.wait(ms)

    @rule(ms=st.sampled_from([30_000, 60_000, 700_000, 3_000_000]), rarely=st.integers(0, 3))
    def wait_long(self, ms, rarely):
        if not rarely:
            self.wait(ms)

    def wait(self, ms):
        before = {waiter: len(answers) for waiter, answers in self.world.answers.items()}
        self.world.wait(ms)
        self.learn(before)

    @rule(rarely=st.integers(0, 3))
    def another_leader(self, rarely):
        if rarely:
            return
        for waiter, response in self.world.groups.drain(errors.NOT_COORDINATOR):
            self.world.answers.setdefault(waiter, []).append(response)
        self.world.restart()
        self.generations.clear()  # The number of an incomplete generation may be reused.

    @rule()
    def snapshot(self):
        first_offset = len(self.world.log)
        chunks = self.world.groups.snapshot_chunks(records_max=2)
        for chunk in chunks:
            for record in chunk:
                self.world.log.append(record)
                self.world.groups.replay(*record)
        self.world.log.append(chunks.end_record(first_offset, self.world.now_ms))
        self.world.groups.replay(*self.world.log[-1])
        del self.world.log[:first_offset]

    @invariant()
    def the_log_says_what_the_coordinator_says(self):
        assert self.world.replayed()._state == self.world.groups._state

    @invariant()
    def generations_only_grow(self):
        groups = self.world.groups._groups
        for group_id in list(self.generations):
            if group_id not in groups:
                del self.generations[group_id]  # it was deleted: a new group of that name starts at generation 0
        for group_id, group in groups.items():
            assert group.generation >= self.generations.get(group_id, 0)
            self.generations[group_id] = group.generation

    @invariant()
    def at_most_one_member_is_told_to_lead_a_generation(self):
        for group in self.world.groups._groups.values():
            assert group.leader is None or list(group.members).count(group.leader) == 1

    def teardown(self):
        """
        Each request gets exactly one response: immediately, after a later request, at a deadline, or when leadership is
        lost.
        """
        self.world.wait(1_000_000)
        for waiter, response in self.world.groups.drain(errors.NOT_COORDINATOR):
            self.world.answers.setdefault(waiter, []).append(response)
        assert dict.fromkeys(self.waiters, 1) == {w: len(answers) for w, answers in self.world.answers.items()}


LivesOfGroups.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLivesOfGroups = LivesOfGroups.TestCase


def test_a_coordinator_decides_nothing_before_it_is_loaded():
    """Until the coordinator is loaded, its responses could be based on an outdated state."""
    world = World()
    groups = Groups(world.settings, world.entropy, world.cluster)

    try:
        groups.decide(DescribeGroups(waiter="w", group_ids=("g",)), world.timestamps)
    except AssertionError:
        return
    raise AssertionError("an unloaded coordinator answered")
