"""
The group coordinator on its host: everything that it has acknowledged is in the log, and the next leader loads it from
there.
"""

import pytest

from tests.unit.broker.broker_world import BrokerWorld, Client
from tests.unit.broker.group_member import SESSION_MS, STATIC, GroupMember, commit, committing, fetched
from tidemill.batches.builder import build_batch
from tidemill.broker.coordinators import hosted_partition
from tidemill.broker.coordinators.group_coordinator import GROUPS
from tidemill.broker.coordinators.hosted_topic import HostedTopic
from tidemill.coordinator.group.group_partition import partition_for
from tidemill.metadata.topics import DeleteTopics
from tidemill.model import errors
from tidemill.model.topic import OFFSETS_TOPIC
from tidemill.shard.append import append_own
from tidemill.shard.partition import Partition
from tidemill.wire.messages import heartbeat, join_group, list_groups

DAY_MS = 86_400_000

HEARTBEAT = heartbeat.Request(group_id="g", generation_id=1, member_id="m")


def grown_world(**static: str) -> BrokerWorld:
    world = BrokerWorld({**STATIC, **static})
    world.create("flights", partitions=4)
    return world


def restarted(world: BrokerWorld) -> BrokerWorld:
    """Start a new process on the same disk, and return it with its groups loaded."""
    again = world.restarted()
    again.stabilize()
    return again


def log_of(world: BrokerWorld, group_id: str = "g") -> Partition:
    return world.partition(OFFSETS_TOPIC, partition_for(group_id, 2))


def append(world: BrokerWorld, key: bytes, value: bytes | None) -> None:
    append_own(log_of(world), build_batch([(key, value, (), world.clock.now_ms)]), world.clock.now_ms)
    world.stabilize()


def delete(world: BrokerWorld, topic: str) -> None:
    world.broker.controller.submit(DeleteTopics(topics=(topic,)))
    world.stabilize()


def test_offsets_and_generations_survive_a_kill() -> None:
    """
    Everything that was acknowledged is in the log: the next process has the offsets, and the member continues in its
    generation.
    """
    world = grown_world()
    member = GroupMember(world).stabilize()
    commit(world, "flights", 3, 5, member=member)

    again = restarted(world)

    member.client = Client(again)
    assert {("flights", 0): 3, ("flights", 1): 5} == fetched(again)
    assert errors.NONE == member.heartbeat()


def test_a_reply_leaves_when_its_records_are_committed() -> None:
    """
    An offset commit is not answered before it is in the journal, and neither is a heartbeat that follows it.
    """
    world = grown_world()
    commit(world, "flights", 1)
    client, reader = Client(world), GroupMember(world)
    api, version = client.send(committing("flights", 2), 9)
    beat = reader.client.send(HEARTBEAT)
    before = (client.answer(api, version), reader.client.answer(*beat))

    world.stabilize()

    after = (client.answer(api, version), reader.client.answer(*beat))
    assert (None, None) == before
    assert (errors.NONE, errors.UNKNOWN_MEMBER_ID) == (
        after[0].topics[0].partitions[0].error_code,
        after[1].error_code,
    )


def test_a_silent_member_is_removed_when_its_session_expires() -> None:
    """
    The session expires although no request arrives, and after a restart of the broker every member has a full session
    again.
    """
    world = grown_world()
    member = GroupMember(world).stabilize()
    world.pass_time(SESSION_MS - 100)
    again = restarted(world)
    member.world, member.client = again, Client(again)

    again.pass_time(SESSION_MS - 100)
    in_time = member.heartbeat()
    again.pass_time(SESSION_MS + 100)

    assert (errors.NONE, errors.UNKNOWN_MEMBER_ID) == (in_time, member.heartbeat())


def test_committed_offsets_expire() -> None:
    """
    Offsets committed by a consumer that never joins its group expire offsets.retention.minutes after the commit, even
    if no request arrives.
    """
    world = grown_world(**{"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "1000"})
    commit(world, "flights", 3)
    world.pass_time(58_000)
    before = fetched(world)

    world.pass_time(3_000)

    assert ({("flights", 0): 3}, {}) == (before, fetched(world))


def test_a_clock_that_was_wrong_at_the_start_expires_no_offset() -> None:
    """
    The age of an offset is computed from the append time of its record, not from the wall clock at the broker's start:
    NTP may have corrected the clock before the commit.
    """
    world = grown_world()
    world.clock.wrong_ms = -30 * DAY_MS
    world = restarted(world)
    world.pass_time(60_000)
    world.clock.wrong_ms = 0
    world.pass_time(60_000)
    commit(world, "flights", 3)

    again = restarted(world)
    again.pass_time(10 * 60_000)

    assert {("flights", 0): 3} == fetched(again)


@pytest.mark.parametrize("is_group", [False, True], ids=["manual assignment", "an empty group"])
def test_a_clock_that_jumps_briefly_expires_no_offset(is_group: bool) -> None:
    """
    The clock is a month ahead for one second, during which another group commits.  Append times never go back, so that
    record and every later one have a wrong append time.  No offset may expire because of it.
    """
    world = grown_world()
    if is_group:
        member = GroupMember(world).stabilize()
        commit(world, "flights", 3, member=member)
        member.leave()
    else:
        commit(world, "flights", 3)
    other = next(name for name in map(str, range(99)) if partition_for(name, 2) == partition_for("g", 2))
    world.clock.wrong_ms = 30 * DAY_MS
    commit(world, "flights", 4, group_id=other)
    world.pass_time(1_000)
    world.clock.wrong_ms = 0

    world.pass_time(11 * 60_000)

    assert {("flights", 0): 3} == fetched(world)


def test_committed_offsets_go_with_their_topic() -> None:
    """
    Deleting a topic writes tombstones for its offsets.  A new topic with the same name starts without committed
    offsets, even after a restart.
    """
    world = grown_world()
    world.create("tides")
    commit(world, "flights", 3, 4)
    commit(world, "tides", 7)

    delete(world, "flights")
    world.create("flights", partitions=4)

    assert {("tides", 0): 7} == fetched(world)
    assert {("tides", 0): 7} == fetched(restarted(world))


def test_a_load_removes_offsets_of_topics_that_were_deleted_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    If a broker crashes after a topic was deleted and before the tombstones of its offsets are written, the next load of
    the groups writes them.
    """
    world = grown_world()
    commit(world, "flights", 3)
    monkeypatch.setattr(HostedTopic, "_forget", lambda *_: None)
    delete(world, "flights")
    end_offset = log_of(world).log.end_offset

    again = restarted(world)

    assert end_offset + 1 == log_of(again).log.end_offset
    assert {} == fetched(again)


def test_a_snapshot_moves_the_log_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    When enough records have accumulated after the log start, the coordinator writes a snapshot of its state and deletes
    all records before the snapshot.
    """
    monkeypatch.setattr(hosted_partition, "SNAPSHOT_RECORDS_MIN", 50)
    world = grown_world()
    world.create("tides")

    for offset in range(60):
        commit(world, "tides", offset)

    log = log_of(world)
    assert 50 <= log.log_start < 55 < log.log.end_offset
    again = restarted(world)
    assert {("tides", 0): 59} == fetched(again)
    assert log.log_start == log_of(again).log_start


def test_a_kill_at_any_step_of_a_snapshot_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A snapshot without its end record has no effect, and the log start moves only once the end record has committed.
    """
    monkeypatch.setattr(hosted_partition, "SNAPSHOT_RECORDS_MIN", 8)
    world = grown_world()
    commit(world, "flights", 1, 1, 1, 1)
    log = log_of(world)
    world.client.send(committing("flights", 2, 2, 2, 2), 9)
    states: list[dict[tuple[str, int], int]] = []
    starts: list[int] = []

    while world.step():
        again = restarted(world)
        states.append(fetched(again))
        starts.append(log_of(again).log_start)

    committed = [{("flights", number): offset for number in range(4)} for offset in (1, 2)]
    assert 8 == log.log_start
    assert committed == [state for at, state in enumerate(states) if not at or states[at - 1] != state]
    assert [0, 8] == [start for at, start in enumerate(starts) if not at or starts[at - 1] != start]


def test_a_group_that_is_created_while_a_snapshot_begins_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A snapshot does not contain a group that is created while the snapshot begins, so the new log start must not be
    after the group's record.
    """
    monkeypatch.setattr(hosted_partition, "SNAPSHOT_RECORDS_MIN", 8)
    world = grown_world()
    other = next(name for name in ("g1", "g2", "g3", "g4") if partition_for(name, 2) == partition_for("g", 2))
    commit(world, "flights", 1, 1, 1, 1)
    Client(world).send(committing("flights", 2, 2, 2, 2), 9)  # a snapshot is due now
    Client(world).send(committing("flights", 7, group_id=other), 9)  # arrives in the same turn

    world.stabilize()

    again = restarted(world)
    assert 8 <= log_of(again).log_start
    assert {("flights", 0): 7} == fetched(world, other) == fetched(again, other)


def test_a_member_is_served_between_two_chunks_of_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A commit that arrives during a snapshot is not overwritten by an older offset from the snapshot.
    """
    monkeypatch.setattr(hosted_partition, "SNAPSHOT_RECORDS_MIN", 8)
    world = grown_world()
    commit(world, "flights", 1, 1, 1, 1)
    Client(world).send(committing("flights", 2, 2, 2, 2), 9)
    other = Client(world)
    while log_of(world).log.end_offset < 9:
        assert world.step()

    other.send(committing("flights", 3), 9)
    world.stabilize()

    expected = {("flights", 0): 3, ("flights", 1): 2, ("flights", 2): 2, ("flights", 3): 2}
    assert expected == fetched(world) == fetched(restarted(world))


def test_requests_are_rejected_while_groups_load() -> None:
    """
    While groups load, requests get COORDINATOR_LOAD_IN_PROGRESS, which makes the client retry; answers from a partial
    state would be wrong.
    """
    world = grown_world()
    commit(world, "flights", 1)
    again = world.restarted(reads=False)

    early = [again.client.ask_only(HEARTBEAT).error_code, again.client.ask_only(list_groups.Request()).error_code]
    again.reads = True
    again.stabilize()
    late = [again.ask(HEARTBEAT).error_code, again.ask(list_groups.Request()).error_code]

    assert [errors.COORDINATOR_LOAD_IN_PROGRESS] * 2 == early
    assert [errors.UNKNOWN_MEMBER_ID, errors.NONE] == late


def test_a_long_load_does_not_delay_other_partitions() -> None:
    """
    A bounded number of records is replayed per turn of the event loop, and no record is skipped.
    """
    world = grown_world()
    for offset in range(150):
        commit(world, "flights", offset, offset, offset, offset)
    again = world.restarted(reads=False)
    again.reads = True
    other = again.broker.coordinators.of(GROUPS).hosted()[1 - partition_for("g", 2)]

    turns = 0
    while not all(hosted.is_loaded for hosted in again.broker.coordinators.of(GROUPS).hosted()):
        assert again.step()
        turns += other.is_loaded

    assert 2 <= turns
    assert {("flights", number): 149 for number in range(4)} == fetched(again)


def test_a_deadline_in_years_uses_timers_of_at_most_a_day() -> None:
    """
    A deadline that is years away, which the 64-bit offsets.retention.check.interval.ms permits, uses timers of at most
    a day, because event loops do not support timers that run for years.
    """
    world = grown_world(**{"offsets.retention.check.interval.ms": str(1 << 60)})
    commit(world, "flights", 1)
    begin_ms = world.clock.now_ms

    world.pass_time(3 * 24 * 3_600_000)

    assert all(timer.due_ms - begin_ms <= 4 * 24 * 3_600_000 for timer in world.timers)
    assert {("flights", 0): 1} == fetched(world)


@pytest.mark.parametrize("record", [(b"", None), (b"\x00\x01\x00", b""), (b"\x00\x02\x00\x01g", b"\x00\x63")])
def test_an_unknown_record_stops_the_load(record: tuple[bytes, bytes | None]) -> None:
    """
    If a partition's log contains an unknown record, none of its groups are served, because answers from a partial state
    would be wrong.  The event log names the offset of the record.
    """
    world = grown_world()
    commit(world, "flights", 1)
    append(world, *record)

    again = restarted(world)

    assert errors.COORDINATOR_NOT_AVAILABLE == again.ask(HEARTBEAT).error_code
    assert any("coordinator cannot be loaded" in line and "offset 1" in line for line in again.events)


def test_a_stop_answers_parked_requests() -> None:
    """
    When the broker stops, parked requests are answered with NOT_COORDINATOR, which makes each member look for the next
    coordinator.
    """
    world = grown_world(**{"group.initial.rebalance.delay.ms": "3000"})
    member = GroupMember(world)
    parked = member.join()

    world.broker.coordinators.stop()
    world.stabilize()

    answered = member.client.answer(join_group.API, join_group.API.versions[-1])
    assert parked is None
    assert errors.NOT_COORDINATOR == answered.error_code
    assert errors.NOT_COORDINATOR == world.ask(HEARTBEAT).error_code


def test_an_unknown_outcome_is_a_retriable_error() -> None:
    """
    A commit whose block has not been written when the broker stops may or may not be in the log, so the client gets
    COORDINATOR_NOT_AVAILABLE.
    """
    world = grown_world()
    commit(world, "flights", 1)
    api, version = world.client.send(committing("flights", 2), 9)

    world.writes = False
    world.broker.shard_table.stop()
    while (answered := world.client.answer(api, version)) is None:
        assert world.step()

    assert errors.COORDINATOR_NOT_AVAILABLE == answered.topics[0].partitions[0].error_code


def test_a_full_disk_rejects_commits_and_keeps_members() -> None:
    """
    While the disk is full, requests that would append are rejected before the core decides anything.  Heartbeats are
    answered, and no session expires.
    """
    world = grown_world()
    member = GroupMember(world).stabilize()
    commit(world, "flights", 1, member=member)
    world.disk.free_bytes = 1 << 20
    world.broker.tick()

    refused = commit(world, "flights", 2, member=member)
    beat = member.heartbeat()
    world.pass_time(2 * SESSION_MS)
    kept = fetched(world)
    world.disk.free_bytes = None
    world.broker.tick()
    world.pass_time(2_000)

    assert ([errors.COORDINATOR_NOT_AVAILABLE], errors.NONE) == (refused, beat)
    assert ({("flights", 0): 1}, errors.UNKNOWN_MEMBER_ID) == (kept, member.heartbeat())


def test_concurrent_requests_create_the_topic_once() -> None:
    """
    Requests that arrive while the topic is being created wait for it, and all of them are answered.
    """
    world = BrokerWorld(STATIC)
    clients = [Client(world) for _ in range(3)]
    sent = [client.send(HEARTBEAT) for client in clients]

    world.stabilize()

    codes = [client.answer(*it).error_code for client, it in zip(clients, sent, strict=True)]
    assert [errors.UNKNOWN_MEMBER_ID] * 3 == codes
    assert 2 == len(world.broker.coordinators.of(GROUPS).hosted())
