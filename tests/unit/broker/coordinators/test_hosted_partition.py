"""The host of one replicated core, tested with a toy core on a `BrokerWorld`."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.toy.member_sets import MEMBER_SETS, Add, Await, MemberSets, Read, Rejected, Request
from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.batches.batch import spans
from tidemill.batches.builder import build_batch
from tidemill.broker.coordinators import hosted_partition
from tidemill.broker.coordinators.hosted_partition import HostedPartition
from tidemill.model import errors
from tidemill.shard.append import append_own
from tidemill.shard.partition import Partition
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown
from tidemill.shard.shard import Shard

TOPIC = "sets"


class Owner:
    """A `PartitionOwner` that counts how often it is called."""

    def __init__(self) -> None:
        self.problem: str | None = None
        self.is_stale = False
        self.commits = 0
        self.loads = 0

    def rejection(self, request: Request, reason: int | OutcomeUnknown) -> Rejected:
        return Rejected(reason)

    def storage_problem(self) -> str | None:
        return self.problem

    def has_stale_metadata(self) -> bool:
        return self.is_stale

    def committed(self) -> None:
        self.commits += 1

    def loaded(self, hosted: HostedPartition[Any, Any]) -> None:
        self.loads += 1


class Hosted:
    """A partition of an ordinary topic that is hosted by a test: nothing else appends to it."""

    def __init__(self, world: BrokerWorld, *, core: MemberSets | None = None) -> None:
        self.world = world
        self.owner = Owner()
        self.host = HostedPartition(
            world.partition(TOPIC), MemberSets() if core is None else core, world.broker.machine, self.owner
        )
        self.host.load()

    @property
    def core(self) -> MemberSets:
        return self.host.core

    def begin(self, request: Request) -> list[Any]:
        """Pass a request to the host, and return the list that will receive the reply.  No pending work is executed."""
        replies: list[Any] = []
        self.host.ask(request, replies.append)
        return replies

    def ask(self, request: Request) -> Any:
        replies = self.begin(request)
        self.world.stabilize()
        (reply,) = replies
        return reply


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    world = BrokerWorld()
    world.create(TOPIC)
    yield world


@pytest.fixture
def hosted(world: BrokerWorld) -> Hosted:
    hosted = Hosted(world)
    world.stabilize()
    return hosted


def batch_sizes(partition: Partition) -> list[int]:
    """Return the number of records in each batch of the partition's log."""
    found = partition.log.read(partition.log_start, 1 << 20, partition.log.end_offset, may_wait=True)
    assert found is not None
    return [span.header.record_count for buffer in found[0] for span in spans(buffer)]


def test_the_next_host_loads_what_was_appended(world: BrokerWorld, hosted: Hosted) -> None:
    """
    A new host of a partition restores the state of its core by replaying the log.
    """
    hosted.ask(Add("k", ("a", "b")))

    again = Hosted(world)
    world.stabilize()

    assert {"k": {"a": None, "b": None}} == again.core.sets
    assert (1, ("a", "b")) == (again.owner.loads, again.ask(Read("k")))


def test_requests_are_rejected_while_the_log_loads_in_slices(
    world: BrokerWorld, hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The host replays a bounded number of records per event-loop turn, and answers no request while the state is partial.
    """
    monkeypatch.setattr(hosted_partition, "TURN_RECORDS_MAX", 10)
    hosted.ask(Add("k", tuple(map(str, range(35)))))
    again = Hosted(world)
    sizes = [0]

    rejections = dict[Any, None]()
    while not again.host.is_loaded:
        rejections |= dict.fromkeys(again.begin(Read("k")))
        assert world.step()
        sizes.append(len(again.core.sets.get("k", ())))

    assert [0, 10, 20, 30, 35] == sorted(set(sizes))
    assert [Rejected(errors.COORDINATOR_LOAD_IN_PROGRESS)] == [*rejections]


def test_a_malformed_record_stops_the_load(world: BrokerWorld) -> None:
    """
    If the log contains a malformed record, all requests are rejected from then on, and the event log names the offset
    of the record.
    """
    append_own(world.partition(TOPIC), build_batch([(b"no slash", b"", (), 0)]), world.clock.now_ms)
    world.stabilize()

    hosted = Hosted(world)
    world.stabilize()

    assert Rejected(errors.COORDINATOR_NOT_AVAILABLE) == hosted.ask(Read("k"))
    assert any("coordinator cannot be loaded" in line and "offset 0" in line for line in world.events)


def test_a_reply_leaves_when_its_records_are_committed(world: BrokerWorld, hosted: Hosted) -> None:
    """
    If the reply to a read was computed from uncommitted records, it also waits until they commit.  The owner is
    notified of the commit first.
    """
    world.writes = False
    replies = [hosted.begin(Add("k", ("a",))), hosted.begin(Read("k"))]
    world.stabilize()
    early = [*replies[0], *replies[1]]
    commits = hosted.owner.commits

    world.writes = True
    world.stabilize()

    assert ([], 0) == (early, commits)
    assert [[1], [("a",)]] == replies
    assert 2 == hosted.owner.commits


def test_one_result_may_answer_an_earlier_request(hosted: Hosted) -> None:
    """
    A result can contain the reply to a parked request.  That reply, too, waits for the commit of the records from which
    it was computed.
    """
    parked = hosted.begin(Await("k", "b"))
    hosted.ask(Add("k", ("a",)))
    early = [*parked]

    hosted.ask(Add("k", ("b",)))

    assert ([], [("a", "b")]) == (early, parked)


def test_a_read_is_answered_when_leadership_is_confirmed() -> None:
    """
    A read waits until a majority has confirmed the leader, because a leader that does not yet know that it has been
    replaced must not answer from its old state.
    """
    world = ClusterWorld()
    world.create(TOPIC)
    hosted = Hosted(world[1])
    world.stabilize()
    hosted.ask(Add("k", ("a",)))
    world.network.held = lambda _source, _destination: True

    replies = hosted.begin(Read("k"))
    world.stabilize()
    while_it_believes_to_lead = (world[1].shard(TOPIC).is_serving, [*replies])
    world.pass_time(3_000)

    assert (True, []) == while_it_believes_to_lead
    assert [Rejected(OUTCOME_UNKNOWN)] == replies


def test_an_append_whose_commit_is_not_known_has_an_unknown_outcome(world: BrokerWorld, hosted: Hosted) -> None:
    """
    If the shard stops before a record has committed, the request has an unknown outcome: the record may or may not be
    in the log of the next leader.
    """
    world.writes = False
    replies = hosted.begin(Add("k", ("a",)))

    shard = world.partition(TOPIC).shard
    assert isinstance(shard, Shard)
    shard.stop()

    assert [Rejected(OUTCOME_UNKNOWN)] == replies


def test_a_dropped_partition_answers_what_is_parked_and_keeps_no_timer(world: BrokerWorld, hosted: Hosted) -> None:
    """
    When a partition is dropped, parked and later requests are rejected, because another broker is now the coordinator,
    and its timers are cancelled.
    """
    parked = hosted.begin(Await("k", "b"))
    hosted.ask(Add("k", ("a",), lifetime_ms=1_234))
    timers = [timer for timer in world.timers if timer.due_ms == world.clock.now_ms + 1_234]

    hosted.host.drop(errors.NOT_COORDINATOR)
    end_offset = world.partition(TOPIC).log.end_offset
    world.pass_time(2_000)

    assert ([Rejected(errors.NOT_COORDINATOR)], [True]) == (parked, [timer.is_cancelled for timer in timers])
    assert Rejected(errors.NOT_COORDINATOR) == hosted.ask(Read("k"))
    assert end_offset == world.partition(TOPIC).log.end_offset


def test_a_deadline_fires_and_waits_while_nothing_may_be_appended(world: BrokerWorld, hosted: Hosted) -> None:
    """
    A full disk only delays expiry: the deadline fires again once appends are possible.
    """
    hosted.ask(Add("k", ("a",), lifetime_ms=1_000))
    hosted.owner.problem = "the disk is full"
    world.pass_time(5_000)
    kept = hosted.ask(Read("k"))

    hosted.owner.problem = None
    world.pass_time(1_000)

    assert (("a",), ()) == (kept, hosted.ask(Read("k")))


def test_requests_that_append_are_rejected_while_nothing_may_be_appended(hosted: Hosted) -> None:
    """
    While nothing may be appended, the host rejects requests that would append, before the core decides anything.
    Requests that only read are answered.
    """
    hosted.owner.problem = "the disk is full"

    assert Rejected(errors.COORDINATOR_NOT_AVAILABLE) == hosted.ask(Add("k", ("a",)))
    assert () == hosted.ask(Read("k"))


def test_requests_that_need_current_metadata_are_rejected_while_it_may_be_stale(hosted: Hosted) -> None:
    """
    While the metadata may be stale, requests that need current metadata are rejected, and all others are answered.
    """
    hosted.owner.is_stale = True

    assert Rejected(errors.COORDINATOR_NOT_AVAILABLE) == hosted.ask(Await("k", "a"))
    assert () == hosted.ask(Read("k"))


@pytest.mark.parametrize(("is_atomic", "expected"), [(False, [3, 3, 1]), (True, [7])])
def test_the_records_of_a_result_are_split_unless_they_belong_together(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, is_atomic: bool, expected: list[int]
) -> None:
    """
    Batches are bounded, so the records of one result may need several batches.  If the core is
    atomic, all records of one result form a single batch, which is committed as a whole or not at all.
    """
    monkeypatch.setattr(hosted_partition, "BATCH_RECORDS_MAX", 3)
    hosted = Hosted(world, core=MemberSets(is_atomic=is_atomic))
    world.stabilize()

    hosted.ask(Add("k", tuple("abcdefg")))

    assert expected == batch_sizes(world.partition(TOPIC))


def test_batches_are_bounded_by_bytes_too(world: BrokerWorld, hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The records of a result are divided into batches of a bounded number of bytes.  A batch has at least one record,
    however large the record is.
    """
    monkeypatch.setattr(hosted_partition, "BATCH_BYTES_MAX", 10)

    hosted.ask(Add("k", ("aaa", "bbb", "c" * 20, "d")))

    assert [2, 1, 1] == batch_sizes(world.partition(TOPIC))


def test_a_snapshot_moves_the_log_start(world: BrokerWorld, hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    When enough records have accumulated after the log start, the host writes a snapshot in chunks, followed by a record
    that ends it.  The log start moves when that record commits.
    """
    monkeypatch.setattr(hosted_partition, "SNAPSHOT_RECORDS_MIN", 6)
    log = world.partition(TOPIC)
    hosted.ask(Add("k", tuple("abcde")))
    before = log.log_start

    hosted.ask(Add("k", ("f",)))

    again = Hosted(world)
    world.stabilize()
    assert (0, 6) == (before, log.log_start)
    assert [2, 2, 2, 1] == batch_sizes(log)
    assert (tuple("abcdef"), 7, 6) == (
        again.ask(Read("k")),
        again.core.snapshot_size,
        again.core.snapshot_first_offset,
    )


def test_requests_are_decided_between_the_chunks_of_a_snapshot(
    world: BrokerWorld, hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Records appended during a snapshot come after its first offset, so they are not deleted together with the records
    before the snapshot.
    """
    monkeypatch.setattr(hosted_partition, "SNAPSHOT_RECORDS_MIN", 6)
    hosted.begin(Add("k", tuple("abcdef")))
    hosted.begin(Add("k", ("g",)))
    while world.partition(TOPIC).log.end_offset < 9:
        assert world.step()

    hosted.ask(Add("k", ("h",)))

    again = Hosted(world)
    world.stabilize()
    assert 6 == world.partition(TOPIC).log_start
    assert tuple("abcdefgh") == again.ask(Read("k"))


def test_a_snapshot_is_taken_again_when_the_log_has_grown_by_a_multiple(
    world: BrokerWorld, hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The next snapshot is taken when the log is a multiple of the last snapshot's size, so a large state is not written
    again after only a few changes.
    """
    monkeypatch.setattr(hosted_partition, "SNAPSHOT_RECORDS_MIN", 6)
    hosted.ask(Add("k", tuple("abcdef")))
    size = hosted.core.snapshot_size
    starts = dict[int, int]()  # log start → the largest number of records that followed it

    for _ in range(40):
        hosted.ask(Add("k", ("a",)))
        log = world.partition(TOPIC)
        starts[log.log_start] = max(starts.get(log.log_start, 0), log.log.end_offset - log.log_start)

    assert 7 == size
    assert 2 <= len(starts)
    assert 4 * size - 1 == starts[6]


def test_a_load_moves_the_log_start_to_a_closed_snapshot(
    world: BrokerWorld, hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    If a leader is lost after it has completed a snapshot and before it has moved the log start, the next leader moves
    the log start when it loads the log.
    """
    monkeypatch.setattr(hosted_partition, "SNAPSHOT_RECORDS_MIN", 6)
    monkeypatch.setattr(HostedPartition, "_snapshot_ended", lambda *_, **__: None)
    hosted.ask(Add("k", tuple("abcdef")))
    before = world.partition(TOPIC).log_start

    Hosted(world)
    world.stabilize()

    assert (0, 6) == (before, world.partition(TOPIC).log_start)


def test_a_registered_topic_is_created_and_found() -> None:
    """
    The topic has the name in its registration, and its configuration comes from the keys that the registration names.
    """
    world = BrokerWorld({"offsets.topic.num.partitions": "3"}, extra_coordinators=(MEMBER_SETS,))
    replies: list[Any] = []

    world.broker.coordinators.of(MEMBER_SETS).ask("k", Add("k", ("a",)), replies.append)
    world.stabilize()

    topic = world.broker.image.topic(MEMBER_SETS.topic.name)
    assert topic is not None
    assert ([1], 3, True) == (replies, topic.partition_count, topic.is_internal)
