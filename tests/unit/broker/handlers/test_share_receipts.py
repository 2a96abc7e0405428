"""ShareReceive with a lease, and ShareReceipts, through a Kafka connection to a whole broker."""

from typing import Any, NamedTuple

import pytest

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.lone_consumer import ResolvesShares, received
from tests.unit.broker.share_member import STATIC, WAIT_MS, Got, ShareMember, configure_group
from tests.unit.broker.sharing_cluster import sharing_cluster
from tidemill.model import errors
from tidemill.model.back_off import DELAY_MS_MAX
from tidemill.peer import share_receipts, share_receive
from tidemill.share.acknowledged_receipts import Outcome
from tidemill.share.acknowledgement import Acknowledgement

ACCEPT, RELEASE, REJECT, RENEW = (
    Acknowledgement.ACCEPT,
    Acknowledgement.RELEASE,
    Acknowledgement.REJECT,
    Acknowledgement.RENEW,
)
OK, EXPIRED, UNKNOWN = Outcome
LOCK_MS = 10_000
LOCK_MS_MAX = 60_000  # the broker's default


class Batch(NamedTuple):
    got: list[Got]
    receipts: list[share_receipts.Request.Delivery]
    lock_ms: int


class Worker(ResolvesShares):
    """A consumer over HTTP, as the leader sees it."""

    lease = 0

    def take(self, **fields: Any) -> Batch:
        self.lease += 1
        response: share_receive.Response = self.client.ask(self.receive_request(lease=self.lease, **fields))
        got = received(response)
        receipts = [
            share_receipts.Request.Delivery(
                offset=it.offset, term=response.term, delivery_count=it.delivery_count, lease=self.lease
            )
            for it in got
        ]
        return Batch(got, receipts, response.lock_ms)

    def acknowledge_request(self, kind: int, *receipts: Any, **fields: Any) -> share_receipts.Request:
        given: dict[str, Any] = {
            "group_id": self.group,
            "topic_id": self.topic_id,
            "partition": 0,
            "acknowledge_type": kind,
            "deliveries": list(receipts),
        }
        return share_receipts.Request(**{**given, **fields})

    def acknowledge(self, kind: int, *receipts: Any, **fields: Any) -> list[int]:
        response = self.client.ask(self.acknowledge_request(kind, *receipts, **fields))
        assert not response.error_code, response.error_message
        return list(response.outcomes)


@pytest.fixture
def world() -> BrokerWorld:
    """A broker with the topic `jobs`, which has three records, and the configuration of the group `g`."""
    made = BrokerWorld(STATIC)
    made.create("jobs")
    configure_group(made, share_auto_offset_reset="earliest", share_record_lock_duration_ms=str(LOCK_MS))
    made.produce("jobs", b"a", b"b", b"c")
    return made


def pass_ms(world: BrokerWorld, duration_ms: int) -> None:
    for _ in range(duration_ms // 400 + 1):  # at most 500 ms between two ticks count
        world.pass_time(400)


def test_one_consumer_receives_again_before_it_has_acknowledged(world: BrokerWorld) -> None:
    """Each request gets other records, unlike without a lease."""
    worker = Worker(world, "w")
    first, second = worker.take(max_records=1), worker.take(max_records=1)

    assert ([Got(0, b"a", 1)], [Got(1, b"b", 1)]) == (first.got, second.got)
    assert [OK, OK] == worker.acknowledge(ACCEPT, *first.receipts, *second.receipts)
    assert 2 == worker.describe().start


def test_a_repeated_receive_with_its_lease_returns_the_same_records(world: BrokerWorld) -> None:
    """Its response was lost."""
    worker = Worker(world, "w")
    lost = worker.take(max_records=2)
    worker.lease -= 1

    assert lost == worker.take(max_records=2)


def test_locks_last_as_long_as_the_request_says(world: BrokerWorld) -> None:
    worker = Worker(world, "w")
    short, own = worker.take(max_records=1, lock_ms=2_000), worker.take(max_records=1)
    assert (2_000, LOCK_MS) == (short.lock_ms, own.lock_ms)

    pass_ms(world, 2_000)

    assert [EXPIRED, OK] == worker.acknowledge(ACCEPT, *short.receipts, *own.receipts)
    again = worker.take(max_records=1)
    assert [Got(0, b"a", 2)] == again.got
    for _ in range(3):
        assert [OK] == worker.acknowledge(RENEW, *again.receipts, lock_ms=LOCK_MS)
        pass_ms(world, LOCK_MS - 1_000)
    assert [OK] == worker.acknowledge(ACCEPT, *again.receipts)


def test_a_released_record_comes_back_after_its_delay(world: BrokerWorld) -> None:
    worker = Worker(world, "w")
    taken = worker.take(max_records=1)
    assert [OK] == worker.acknowledge(RELEASE, *taken.receipts, delay_ms=5_000)
    assert [OK] == worker.acknowledge(RELEASE, *taken.receipts, delay_ms=5_000), "a repeated request"

    assert [1, 2] == [it.offset for it in worker.take().got]
    pass_ms(world, 5_000)
    assert [Got(0, b"a", 2)] == worker.take().got
    assert [EXPIRED] == worker.acknowledge(ACCEPT, *taken.receipts)


def test_a_request_waits_for_the_decision_of_the_one_before(world: BrokerWorld) -> None:
    """The first response was lost, and the consumer asks again at once."""
    worker = Worker(world, "w")
    taken = worker.take()
    request = worker.acknowledge_request(REJECT, *taken.receipts)

    sent = [worker.client.send(request) for _ in range(2)]
    world.stabilize()

    answers = [worker.client.answer(*one) for one in sent]
    assert [[OK] * 3] * 2 == [list(answer.outcomes) for answer in answers]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, errors.INVALID_GROUP_ID),
        ({"acknowledge_type": 0}, errors.INVALID_REQUEST),
        ({"delay_ms": DELAY_MS_MAX + 1}, errors.INVALID_REQUEST),
        ({"lock_ms": 0}, errors.INVALID_REQUEST),
        ({"lock_ms": LOCK_MS_MAX + 1}, errors.INVALID_REQUEST),
        ({"topic_id": b"x" * 16}, errors.UNKNOWN_TOPIC_ID),
        ({"group_id": "unknown"}, errors.GROUP_ID_NOT_FOUND),
    ],
)
def test_invalid_requests_are_refused(world: BrokerWorld, fields: dict[str, object], code: int) -> None:
    worker = Worker(world, "w")
    taken = worker.take()
    response = worker.client.ask(worker.acknowledge_request(ACCEPT, *taken.receipts, **fields))
    assert (code, True) == (response.error_code, bool(response.error_message))


def test_a_lock_that_is_too_long_is_refused(world: BrokerWorld) -> None:
    worker = Worker(world, "w")
    response = worker.client.ask(worker.receive_request(lease=1, lock_ms=LOCK_MS_MAX + 1))
    assert errors.INVALID_REQUEST == response.error_code
    assert "group.share.max.record.lock.duration.ms" in response.error_message


def test_requests_of_an_exclusive_consumer_share_its_turn(world: BrokerWorld) -> None:
    """All requests of one name are one consumer; another name gets nothing."""
    configure_group(world, tidemill_share_mode="exclusive")
    worker, other = Worker(world, "w"), Worker(world, "other")
    first, second = worker.take(max_records=1), worker.take(max_records=1)

    assert [[0], [1]] == [[it.offset for it in batch.got] for batch in (first, second)]
    assert [] == other.take(max_wait_ms=0).got


def test_members_and_workers_share_a_partition(world: BrokerWorld) -> None:
    member = ShareMember(world)
    member.join("jobs")
    worker = Worker(world, "w")
    taken = worker.take(max_records=1)

    assert [1, 2] == [it.offset for it in member.receive(max_wait_ms=WAIT_MS)]
    assert [OK] == worker.acknowledge(ACCEPT, *taken.receipts)


def test_a_receipt_is_valid_at_the_next_leader_until_the_record_is_delivered_again() -> None:
    cluster: ClusterWorld = sharing_cluster()
    configure_group(cluster.controller, share_auto_offset_reset="earliest")
    cluster[2].produce("jobs", b"a", b"b")
    worker = Worker(cluster[2], "w")
    (first, second) = worker.take().receipts
    cluster.lead("jobs", by=3)

    lost = worker.client.ask(worker.acknowledge_request(ACCEPT, first))
    assert errors.NOT_LEADER_OR_FOLLOWER == lost.error_code
    moved = Worker(cluster[3], "w")
    assert [OK] == moved.acknowledge(ACCEPT, first)
    moved.lease = 100
    assert [Got(1, b"b", 1)] == moved.take().got
    assert [EXPIRED, OK] == [*moved.acknowledge(ACCEPT, second), *moved.acknowledge(ACCEPT, first)]
