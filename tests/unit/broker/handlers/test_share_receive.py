"""ShareReceive, ShareResolve and ShareDescribe, through a Kafka connection to a whole broker."""

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.group_member import GroupMember
from tests.unit.broker.lone_consumer import ResolvesShares, received
from tests.unit.broker.share_member import STATIC, WAIT_MS, Got, ShareMember, configure_group
from tidemill.broker.request.lone_consumer import LoneConsumer
from tidemill.model import errors
from tidemill.model.back_off import DELAY_MS_MAX
from tidemill.model.topic import METADATA_TOPIC_ID
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.share.share_session import FINAL_EPOCH
from tidemill.wire.messages import api_versions, delete_groups

ACCEPT, RELEASE, REJECT, RENEW = (
    Acknowledgement.ACCEPT,
    Acknowledgement.RELEASE,
    Acknowledgement.REJECT,
    Acknowledgement.RENEW,
)
LOCK_MS = 10_000


@pytest.fixture
def world() -> BrokerWorld:
    """A broker with the topic `jobs`.  The group `g`, which nothing has created yet, would read it from the start."""
    made = BrokerWorld({**STATIC, "group.initial.rebalance.delay.ms": "0"})
    made.create("jobs")
    configure_group(made, share_auto_offset_reset="earliest", share_record_lock_duration_ms=str(LOCK_MS))
    return made


def pass_locks(world: BrokerWorld) -> None:
    for _ in range(LOCK_MS // 400 + 1):  # at most 500 ms between two ticks count
        world.pass_time(400)


def test_a_first_receive_creates_the_group(world: BrokerWorld) -> None:
    """
    A consumer without a session needs no member of the group: its first request creates the group and opens the share.
    """
    world.produce("jobs", b"a", b"b")
    consumer = ResolvesShares(world, "w")

    assert [Got(0, b"a", 1), Got(1, b"b", 1)] == consumer.receive()
    assert (2, 0, 0) == consumer.counts((0, 1, ACCEPT))
    assert 2 == consumer.describe().start


def test_a_repeated_receive_returns_what_the_consumer_holds(world: BrokerWorld) -> None:
    """
    A consumer gets its records again, with renewed locks, and no others, until it has resolved them.
    """
    world.produce("jobs", b"a", b"b", b"c")
    consumer, other = ResolvesShares(world, "w"), ResolvesShares(world, "other")
    first = consumer.receive(max_records=2)
    assert [Got(0, b"a", 1), Got(1, b"b", 1)] == first
    for _ in range(LOCK_MS // 800 + 1):
        world.pass_time(400)

    assert first == consumer.receive()
    for _ in range(LOCK_MS // 800 + 1):
        world.pass_time(400)

    assert [Got(2, b"c", 1)] == other.receive(), "the renewed locks are still valid"
    assert (1, 0, 0) == consumer.counts((0, 0, ACCEPT))
    assert [Got(1, b"b", 1)] == consumer.receive()
    assert (1, 0, 0) == consumer.counts((1, 1, ACCEPT))
    assert [] == consumer.receive(max_wait_ms=0)


@pytest.mark.parametrize("max_bytes", [0, 1 << 20])
def test_what_a_consumer_held_before_stays_held_if_the_response_is_lost(
    world: BrokerWorld, max_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    If a repeated receive cannot be answered, the records are not given to others, and the delivery still counts.
    """
    world.produce("jobs", b"a")
    consumer, other = ResolvesShares(world, "w"), ResolvesShares(world, "other")
    first = consumer.receive()

    with monkeypatch.context() as broken:
        broken.setattr(LoneConsumer, "response", lambda self, fetched, failures: fetched["missing"])
        assert ResolvesShares(world, "w").client.ask(consumer.receive_request(max_bytes=max_bytes)).error_code

    assert [] == other.receive(max_wait_ms=0)
    assert [Got(0, b"a", 1)] == first == consumer.receive()


def test_a_receive_without_bytes_acquires_records_that_are_fetched_later(world: BrokerWorld) -> None:
    """
    With max_bytes 0, records are acquired as usual, and the response has their offsets only.
    """
    world.produce("jobs", b"a", b"b", b"c")
    consumer = ResolvesShares(world, "w")

    for _ in range(2):
        response = consumer.client.ask(consumer.receive_request(max_bytes=0, max_records=2))
        acquired = [(it.first_offset, it.last_offset, it.delivery_count) for it in response.acquired]
        assert ([(0, 1, 1)], LOCK_MS, b"") == (acquired, response.lock_ms, bytes(response.records or b""))
    assert (2, 0, 0) == consumer.counts((0, 1, ACCEPT))


def test_a_receive_of_no_records_returns_what_the_consumer_holds(world: BrokerWorld) -> None:
    """
    With max_records 0, nothing is acquired, and the locks of what the consumer holds are renewed.
    """
    world.produce("jobs", b"a", b"b")
    consumer = ResolvesShares(world, "w")

    def held() -> list[tuple[int, int]]:
        response = consumer.client.ask(consumer.receive_request(max_bytes=0, max_records=0))
        assert not response.error_code
        return [(it.first_offset, it.last_offset) for it in response.acquired]

    assert [] == held()
    consumer.receive(max_records=1)
    for _ in range(2):
        for _ in range(LOCK_MS // 800 + 1):
            world.pass_time(400)
        assert [(0, 0)] == held(), "the lock was renewed by the request before"
    assert 1 == consumer.describe().available


def test_a_receive_of_no_records_opens_the_share(world: BrokerWorld) -> None:
    """
    The group starts at that moment, here at the end of the log; a group of another type is refused.
    """
    configure_group(world, share_auto_offset_reset="latest")
    world.produce("jobs", b"before")
    consumer = ResolvesShares(world, "w")

    assert not consumer.client.ask(consumer.receive_request(max_records=0)).error_code
    world.produce("jobs", b"after")

    assert [Got(1, b"after", 1)] == consumer.receive()


def test_a_response_says_whether_the_group_is_exclusive(world: BrokerWorld) -> None:
    """
    A consumer that takes a new name for each receive would wait for its former self, so it has to know.
    """
    consumer = ResolvesShares(world, "w")

    for mode in ("shared", "exclusive", "shared"):
        configure_group(world, tidemill_share_mode=mode)
        for max_records in (0, 1):
            response = consumer.client.ask(consumer.receive_request(max_records=max_records, max_wait_ms=0))
            assert (errors.NONE, mode == "exclusive") == (response.error_code, response.is_exclusive)


def test_a_receive_of_no_records_refuses_a_consumer_group(world: BrokerWorld) -> None:
    GroupMember(world, "classic").join()
    consumer = ResolvesShares(world, "w", group="classic")

    assert errors.GROUP_ID_NOT_FOUND == consumer.client.ask(consumer.receive_request(max_records=0)).error_code


def test_locks_at_the_limit_do_not_hide_what_is_held(world: BrokerWorld) -> None:
    """
    A consumer whose records use up the group's locks gets them again.
    """
    configure_group(world, share_partition_max_record_locks="100")
    world.produce("jobs", *[b"x"] * 101)
    consumer = ResolvesShares(world, "w")
    assert 100 == len(consumer.receive())
    assert 100 == len(consumer.receive())


def test_locks_end_by_time_only(world: BrokerWorld) -> None:
    """
    Neither the end of the connection nor that of a session of a member with the same name releases the records.
    """
    world.produce("jobs", b"a")
    consumer, member = ResolvesShares(world, "m"), ShareMember(world, "m")
    consumer.receive()
    member.join("jobs")
    assert [] == member.receive()
    assert [] == member.receive(share_session_epoch=FINAL_EPOCH)
    consumer.client.connection.lost(None)
    world.stabilize()
    other = ResolvesShares(world, "other")

    assert [] == other.receive(max_wait_ms=0)
    pass_locks(world)
    assert [Got(0, b"a", 2)] == other.receive()
    again = ResolvesShares(world, "m")
    assert (0, 0, 1) == again.counts((0, 0, ACCEPT))


def test_a_receive_waits_for_records(world: BrokerWorld) -> None:
    """
    A receive that finds nothing is answered when a record is committed.  After a disconnect it acquires nothing.
    """
    consumer, other = ResolvesShares(world, "w"), ResolvesShares(world, "other")
    assert [] == received(_after_wait(consumer))
    sent = consumer.client.send(consumer.receive_request())
    world.stabilize()
    world.produce("jobs", b"a")
    assert [Got(0, b"a", 1)] == received(consumer.client.answer(*sent))

    other.client.send(other.receive_request())
    world.stabilize()
    other.client.connection.lost(None)
    world.produce("jobs", b"b")
    described = ResolvesShares(world).describe()
    assert (1, 1) == (described.available, described.held)


def _after_wait(consumer: ResolvesShares) -> object:
    sent = consumer.client.send(consumer.receive_request())
    consumer.world.stabilize()
    consumer.world.pass_time(WAIT_MS)
    answer = consumer.client.answer(*sent)
    assert answer is not None, "the wait is over"
    return answer


def test_a_resolve_can_be_repeated(world: BrokerWorld) -> None:
    """
    A repeated resolve counts what is finished.  One that arrives before the first is committed waits for it.
    """
    world.produce("jobs", b"a", b"b")
    consumer, again = ResolvesShares(world, "w"), ResolvesShares(world, "w")
    consumer.receive()
    world.writes = False
    first = consumer.client.send(consumer.resolve_request((0, 1, ACCEPT)))
    second = again.client.send(again.resolve_request((0, 1, ACCEPT)))
    world.stabilize()
    assert consumer.client.answer(*first) is None
    world.writes = True
    world.stabilize()

    assert 2 == consumer.client.answer(*first).resolved
    response = again.client.answer(*second)
    assert (0, 2, 0) == (response.resolved, response.finished, response.held)
    assert (0, 2, 0) == again.counts((0, 1, ACCEPT))


def test_one_resolve_can_name_all(world: BrokerWorld) -> None:
    """
    `held_as` resolves all that the consumer holds, and a release may delay the next delivery.
    """
    world.produce("jobs", b"a", b"b", b"c")
    consumer = ResolvesShares(world, "w")
    consumer.receive()

    assert (3, 0, 0) == consumer.counts((1, 1, ACCEPT), held_as=RELEASE, delay_ms=2_000)
    assert (0, 2) == (consumer.describe().available, consumer.describe().delayed)
    assert [] == consumer.receive(max_wait_ms=0)
    for _ in range(6):
        world.pass_time(400)
    assert [Got(0, b"a", 2), Got(2, b"c", 2)] == consumer.receive()


def test_an_operator_resolves_what_no_consumer_holds(world: BrokerWorld) -> None:
    """
    An operator opens the share if necessary, and leaves the records that a consumer holds.
    """
    world.produce("jobs", b"a", b"b", b"c", b"d")
    operator, consumer = ResolvesShares(world), ResolvesShares(world, "w")
    assert (1, 0, 0) == operator.counts((0, 0, ACCEPT))
    assert [Got(1, b"b", 1)] == consumer.receive(max_records=1)

    assert (2, 1, 1) == operator.counts((0, 3, REJECT))

    described = operator.describe()
    assert (1, 4, 1, 0, 1) == (described.start, described.end, described.held, described.available, described.lag)
    assert (1, 0, 0) == consumer.counts((1, 1, ACCEPT))
    assert 4 == operator.describe().start


def test_a_trial_counts_and_changes_nothing(world: BrokerWorld) -> None:
    """
    A trial counts what the same request would resolve, also before the group has used the partition.
    """
    world.produce("jobs", b"a", b"b", b"c", b"d")
    operator, consumer = ResolvesShares(world), ResolvesShares(world, "w")
    assert (3, 0, 0) == operator.counts((1, 3, REJECT), is_trial=True) == operator.counts((1, 9, REJECT), is_trial=True)
    assert -1 == operator.describe().start, "the trial has opened a share"
    operator.counts((0, 0, ACCEPT))
    consumer.receive(max_records=1)
    before = operator.describe()

    trial = operator.counts((0, 3, REJECT), is_trial=True)

    assert (2, 1, 1) == trial
    assert before == operator.describe()
    assert trial == operator.counts((0, 3, REJECT))


def test_an_operators_release_wakes_a_consumer(world: BrokerWorld) -> None:
    """
    A delayed record that an operator releases is delivered to the consumer that waits, with its count unchanged.
    """
    world.produce("jobs", b"a")
    operator, consumer = ResolvesShares(world), ResolvesShares(world, "w")
    operator.counts((0, 0, RELEASE), delay_ms=60_000)
    sent = consumer.client.send(consumer.receive_request())
    world.stabilize()
    assert consumer.client.answer(*sent) is None

    assert (1, 0, 0) == operator.counts((0, 0, RELEASE))

    assert [Got(0, b"a", 1)] == received(consumer.client.answer(*sent))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, errors.INVALID_GROUP_ID),
        ({"delay_ms": DELAY_MS_MAX + 1}, errors.INVALID_REQUEST),
        ({"held_as": 9}, errors.INVALID_REQUEST),
        ({"member_id": "", "held_as": 1}, errors.INVALID_REQUEST),
        ({"is_trial": True}, errors.INVALID_REQUEST),
        ({"topic_id": b"x" * 16}, errors.UNKNOWN_TOPIC_ID),
        ({"partition": 7}, errors.UNKNOWN_TOPIC_OR_PARTITION),
        ({"group_id": "unknown"}, errors.GROUP_ID_NOT_FOUND),
    ],
)
def test_invalid_resolves_are_refused(world: BrokerWorld, fields: dict[str, object], code: int) -> None:
    """
    The error names the problem.  A consumer that names a group without records creates no group.
    """
    world.produce("jobs", b"a")
    consumer = ResolvesShares(world, "w")
    consumer.receive()
    response = consumer.client.ask(consumer.resolve_request((0, 0, ACCEPT), **fields))
    assert (code, True) == (response.error_code, bool(response.error_message))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": ""}, errors.INVALID_REQUEST),
        ({"max_records": -1}, errors.INVALID_REQUEST),
        ({"topic_id": b"x" * 16}, errors.UNKNOWN_TOPIC_ID),
        ({"group_id": "x" * 40_000}, errors.INVALID_GROUP_ID),
        ({"group_id": "__redrive"}, errors.INVALID_GROUP_ID),
    ],
)
def test_invalid_receives_are_refused(world: BrokerWorld, fields: dict[str, object], code: int) -> None:
    consumer = ResolvesShares(world, "w")
    response = consumer.client.ask(consumer.receive_request(**fields))
    assert (code, True) == (response.error_code, bool(response.error_message))


def test_no_group_reads_the_metadata(world: BrokerWorld) -> None:
    """
    The state of its share would enter the log of the controller.
    """
    consumer = ResolvesShares(world, "w")

    answer = world.ask(consumer.receive_request(topic_id=METADATA_TOPIC_ID))

    assert errors.TOPIC_AUTHORIZATION_FAILED == answer.error_code
    assert "__tidemill_metadata is for brokers only" in answer.error_message
    resolved = world.ask(
        consumer.resolve_request((0, 0, Acknowledgement.ACCEPT), topic_id=METADATA_TOPIC_ID, held_as=0, delay_ms=-1)
    )
    assert errors.TOPIC_AUTHORIZATION_FAILED == resolved.error_code


def test_a_group_of_another_type_is_refused(world: BrokerWorld) -> None:
    """
    A consumer group has no shares, and no request changes its type.
    """
    assert errors.NONE == GroupMember(world, "classic").join().error_code
    consumer, operator = ResolvesShares(world, "w", group="classic"), ResolvesShares(world, group="classic")

    answer = consumer.client.ask(consumer.receive_request())

    assert errors.GROUP_ID_NOT_FOUND == answer.error_code == operator.resolve((0, 0, ACCEPT)).error_code
    assert "another type" in answer.error_message


def test_a_deleted_group_begins_anew(world: BrokerWorld) -> None:
    """
    After its deletion, what a consumer holds of the group is forgotten, and a receive creates the group again.
    """
    world.produce("jobs", b"a")
    consumer = ResolvesShares(world, "w")
    consumer.receive()
    (deleted,) = world.ask(delete_groups.Request(groups_names=["g"])).results
    assert errors.NONE == deleted.error_code
    world.pass_time(3_000)

    assert errors.GROUP_ID_NOT_FOUND == consumer.resolve((0, 0, ACCEPT)).error_code
    assert [Got(0, b"a", 1)] == consumer.receive()


def test_what_is_described(world: BrokerWorld) -> None:
    """
    Without a share, only the end is known.  The oldest unfinished record gives the age.
    """
    world.produce("jobs", b"a", b"b")
    consumer = ResolvesShares(world, "w")
    unread = consumer.describe()
    assert (0, -1, 2, -1) == (unread.error_code, unread.start, unread.end, unread.oldest_ms)
    consumer.receive(max_records=1)

    described = consumer.describe()

    assert (0, 2, 1, 1, 2) == (described.start, described.end, described.available, described.held, described.lag)
    assert described.oldest_ms > 0
    assert described.blocked_by is None
    consumer.counts((0, 0, ACCEPT))
    ResolvesShares(world).counts((1, 1, ACCEPT))
    assert (2, -1) == (consumer.describe().start, consumer.describe().oldest_ms)
    assert errors.UNKNOWN_TOPIC_OR_PARTITION == consumer.describe(7).error_code


def test_the_requests_are_not_listed(world: BrokerWorld) -> None:
    """
    ApiVersions lists Kafka's APIs only.
    """
    answer = world.ask(api_versions.Request(client_software_name="x", client_software_version="1"))
    assert not [it.api_key for it in answer.api_keys if it.api_key >= 10_000]
