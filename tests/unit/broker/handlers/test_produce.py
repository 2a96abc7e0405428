"""Produce appends valid batches and refuses all others."""

from typing import Any

from tests.unit.broker.broker_world import BEGIN_MS, BrokerWorld, Client
from tests.unit.broker.cluster_world import ClusterWorld
from tidemill.batches.builder import build_batch
from tidemill.model import errors
from tidemill.wire.messages import find_coordinator
from tidemill.wire.messages.produce import Request


def test_a_batch_has_its_offset_when_it_is_acknowledged() -> None:
    """
    Offsets are dense, and the high watermark is above the offset of every acknowledged record.
    """
    world = BrokerWorld()
    world.create("flights")

    offsets = [world.produce("flights", *values).base_offset for values in ((b"a", b"b"), (b"c",), (b"d",))]

    assert ([0, 2, 3], 4) == (offsets, world.partition("flights").high_watermark)


def test_a_partition_that_does_not_exist_is_unknown() -> None:
    """
    A batch for a partition that does not exist gets UNKNOWN_TOPIC_OR_PARTITION.  If the error were
    NOT_LEADER_OR_FOLLOWER, a client would look for the partition's leader forever.
    """
    world = BrokerWorld()
    world.create("flights", partitions=2)

    codes = [world.produce("flights", b"x", number=2).error_code, world.produce("tides", b"x").error_code]

    assert [errors.UNKNOWN_TOPIC_OR_PARTITION] * 2 == codes


def test_log_append_time_replaces_the_producer_s_timestamp() -> None:
    """
    With message.timestamp.type=LogAppendTime, the response and the stored records contain the time of the broker's
    clock.
    """
    world = BrokerWorld()
    world.create("flights", message_timestamp_type="LogAppendTime")
    world.pass_time(5_000)

    told = world.produce("flights", b"a", b"b", timestamp_ms=1)

    records = world.read("flights")
    assert (BEGIN_MS + 5_000, [BEGIN_MS + 5_000] * 2) == (
        told.log_append_time_ms,
        [record.timestamp for record in records],
    )


def test_a_default_of_min_insync_replicas_above_the_replica_count_demands_all_replicas() -> None:
    """
    A topic with fewer replicas than the broker's default of min.insync.replicas stays writable, as in Kafka since 3.7.
    """
    before = BrokerWorld()
    before.create("flights")
    world = before.restarted({**before.static, "min.insync.replicas": "2"})

    codes = [world.produce("flights", b"x", acks=acks).error_code for acks in (-1, 1)]

    assert ([errors.NONE] * 2, [b"x"] * 2) == (
        codes,
        [record.value for record in world.read("flights")],
    )


def test_invalid_acks_are_refused() -> None:
    """
    A request with other acks than -1, 0 and 1 is refused.
    """
    world = BrokerWorld()
    world.create("flights")

    answered = world.produce("flights", b"x", acks=2)

    assert (errors.INVALID_REQUIRED_ACKS, -1) == (answered.error_code, answered.base_offset)


def test_a_topic_is_named_by_its_id() -> None:
    """
    Requests name topics by id from version 13 on.  An unknown id is answered with UNKNOWN_TOPIC_ID, and the response
    repeats the id.
    """
    world = BrokerWorld()
    world.create("flights")
    known, unknown = world.partition("flights").log.topic_id, b"?" * 16
    asked = [
        Request.Topic(topic_id=topic_id, partition_data=[Request.Topic.Partition(index=0, records=records)])
        for topic_id, records in ((known, memoryview(build_batch([(None, b"x", (), BEGIN_MS)]))), (unknown, None))
    ]

    answered = world.ask(Request(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=asked), version=13)

    assert [(known, errors.NONE, 0), (unknown, errors.UNKNOWN_TOPIC_ID, -1)] == [
        (topic.topic_id, it.error_code, it.base_offset)
        for topic in answered.responses
        for it in topic.partition_responses
    ]
    assert [b"x"] == [record.value for record in world.read("flights")]


def test_a_refused_batch_has_no_place_and_is_counted() -> None:
    """
    Clients look for a new log start where the response names one, and operators for producers whose batches fail.
    """
    world = BrokerWorld()
    world.create("flights")
    world.ask(find_coordinator.Request(key_type=0, coordinator_keys=["pilots"]), 4)  # creates the internal topic
    counted = world.broker.metrics.produce_refusals
    request = sequenced(0)
    request.topic_data[0].partition_data[0].records = None

    nothing = world.ask(request, 12).responses[0].partition_responses[0]
    internal = world.produce("__consumer_offsets", b"x")
    missing = world.produce("tides", b"x")

    refused = (nothing, internal, missing)
    assert [errors.INVALID_RECORD, errors.INVALID_TOPIC_EXCEPTION, errors.UNKNOWN_TOPIC_OR_PARTITION] == [
        it.error_code for it in refused
    ]
    assert {(-1, -1)} == {(it.base_offset, it.log_start_offset) for it in refused}
    assert "no records for this partition" in (nothing.error_message or "")
    assert "internal topic" in (internal.error_message or "")
    assert counted + 3 == world.broker.metrics.produce_refusals


def test_a_batch_that_is_sent_again_is_counted_once() -> None:
    world = BrokerWorld()
    world.create("flights")

    places = [world.ask(sequenced(0), 12).responses[0].partition_responses[0].base_offset for _ in range(2)]

    metrics = world.broker.metrics
    assert [0, 0] == places
    assert (1, 1, 0) == (metrics.produce_batches, metrics.produce_records, metrics.produce_refusals)


def replicated(insync: int, timeout_ms: int = 1_500) -> tuple[ClusterWorld, Client, Request]:
    """Return a cluster with three replicas led by broker 1, a client of broker 1, and a Produce request."""
    world = ClusterWorld()
    world.create("flights", min_insync_replicas=str(insync))
    batch = build_batch([(None, b"a", (), BEGIN_MS)])
    data = Request.Topic.Partition(index=0, records=memoryview(batch))
    topics = [Request.Topic(name="flights", partition_data=[data])]
    return world, world[1].client, Request(acks=-1, timeout_ms=timeout_ms, topic_data=topics)


def code_of(answered: Any) -> int | None:
    return None if answered is None else int(answered.responses[0].partition_responses[0].error_code)


def test_min_insync_replicas_equal_to_the_replica_count_waits_for_all() -> None:
    """
    A majority has committed the batch and consumers can read it, but the response waits until the last replica has it
    on disk.
    """
    world, client, request = replicated(insync=3)
    world.hold(to=[3])
    sent = client.send(request, 12)
    world.stabilize()
    before, committed = client.answer(*sent), world[1].partition("flights").high_watermark

    world.hold()
    world.stabilize()

    assert (None, 1, errors.NONE) == (before, committed, code_of(client.answer(*sent)))


def test_a_majority_is_enough_for_min_insync_replicas_of_a_majority() -> None:
    """
    With min.insync.replicas=2, a write succeeds even if one of the three replicas is slow.
    """
    world, client, request = replicated(insync=2)
    world.hold(to=[3])

    assert errors.NONE == code_of(client.ask(request, 12))


def test_nothing_is_appended_while_too_few_replicas_are_up() -> None:
    """
    While fewer replicas than min.insync.replicas are up, a batch gets NOT_ENOUGH_REPLICAS.  This is a definite failure:
    no replica has the record.
    """
    world, client, request = replicated(insync=3)
    world.cut_off(3)

    answered = client.ask(request, 12)

    assert (errors.NOT_ENOUGH_REPLICAS, 0) == (code_of(answered), world[1].partition("flights").log.end_offset)


def test_a_timeout_distinguishes_committed_batches_from_unknown_outcomes() -> None:
    """
    When a request times out, its error is NOT_ENOUGH_REPLICAS_AFTER_APPEND if the record is committed, and
    REQUEST_TIMED_OUT otherwise.
    """
    codes = []
    for slow in ([3], [2, 3]):
        world, client, request = replicated(insync=3)
        world.hold(to=slow)
        sent = client.send(request, 12)
        world.pass_time(1_400)
        early = client.answer(*sent)
        world.pass_time(500)
        codes.append((early, code_of(client.answer(*sent))))

    assert [(None, errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND), (None, errors.REQUEST_TIMED_OUT)] == codes


def test_an_isolated_leader_answers_waiting_requests() -> None:
    """
    A leader that loses contact with the majority steps down after two seconds, and then answers waiting requests,
    however long their own timeouts are.
    """
    world, client, request = replicated(insync=1, timeout_ms=60_000)
    world.network.held = lambda _source, _destination: True
    sent = client.send(request, 12)
    world.pass_time(1_900)
    early = client.answer(*sent)

    world.pass_time(400)

    assert (None, errors.REQUEST_TIMED_OUT) == (early, code_of(client.answer(*sent)))


def test_leadership_is_not_transferred_before_everything_is_committed() -> None:
    """
    The next leader has every entry on its disk, but no other replica has, not even the current leader, so the entries
    are not committed.  The transfer waits until they are, so that the current leader can answer the waiting request.
    """
    world, client, request = replicated(insync=1)
    world.hold(to=[3])
    world[1].writes = False
    sent = client.send(request, 12)
    world.begin_to_lead("flights", by=2)
    world.stabilize()
    early = (client.answer(*sent), world[2].shard("flights").replica.leads)

    world[1].writes = True
    world.until(lambda: world[2].shard("flights").is_serving, "broker 2 leads")

    assert ((None, False), errors.NONE) == (early, code_of(client.answer(*sent)))


def test_a_leadership_transfer_loses_no_acknowledgement() -> None:
    """
    During a leadership transfer, batches that were already accepted are committed and answered before the next leader
    campaigns.  Batches that arrive in the meantime are refused.
    """
    world, client, request = replicated(insync=1)
    world.hold(to=[2, 3])
    before = client.send(request, 12)
    world.stabilize()
    world.begin_to_lead("flights", by=2)
    meanwhile = Client(world[1]).ask_only(request, 12)

    world.hold()
    world.until(lambda: world.led_by("flights") == 2, "broker 2 leads")

    assert (errors.NONE, errors.NOT_LEADER_OR_FOLLOWER) == (code_of(client.answer(*before)), code_of(meanwhile))
    assert 1 == world[2].partition("flights").high_watermark


def test_batches_behind_a_refused_batch_are_refused_until_it_is_sent_again() -> None:
    """
    A transfer has failed and the leader continues to lead: it must not append the second batch before the first one,
    which it refused during the transfer.
    """
    world = ClusterWorld()
    world.create("flights")
    world.pass_time(10_000)
    client = Client(world[1])
    world.hold(to=[2])
    world.begin_to_lead("flights", by=2)

    codes = [code_of(client.ask_only(sequenced(0), 12))]
    world.pass_time(2_000)
    assert world[1].shard("flights").accepts_writes
    codes += [code_of(client.ask_only(sequenced(number), 12)) for number in (3, 1)]
    answers = [client.ask_only(sequenced(number), 12) for number in (0, 1, 2, 3)]

    assert [errors.NOT_LEADER_OR_FOLLOWER] * 3 == codes
    assert [(errors.NONE, offset) for offset in range(4)] == [
        (code_of(answer), answer.responses[0].partition_responses[0].base_offset) for answer in answers
    ]


def test_batches_behind_one_of_an_unknown_outcome_are_refused_until_it_is_sent_again() -> None:
    """
    A leader steps down before a batch is committed, and leads again: a new leader may have removed the batch meanwhile,
    and a producer without state may begin with any sequence.
    """
    world = ClusterWorld()
    world.create("flights")
    world.pass_time(10_000)
    client = Client(world[1])
    world.hold(to=[1, 2, 3], sender=[1])
    sent = client.send(sequenced(0), 12)
    world.pass_time(2_500)
    unknown = code_of(client.answer(*sent))
    world.hold(to=[1], sender=[1])
    world.until(lambda: world[2].shard("flights").is_serving or world[3].shard("flights").is_serving, "another leads")
    world.hold()
    world.until(lambda: world.led_by("flights") not in (0, 1), "all know of it")
    world.lead("flights", by=1)

    codes = [code_of(client.ask_only(sequenced(number), 12)) for number in (1, 0, 1)]

    assert errors.REQUEST_TIMED_OUT == unknown
    assert [errors.REQUEST_TIMED_OUT, errors.NONE, errors.NONE] == codes
    assert 2 == world[1].partition("flights").high_watermark


def sequenced(number: int) -> Request:
    """Return a request with one record of an idempotent producer; `number` is its sequence."""
    batch = build_batch([(None, b"%d" % number, (), BEGIN_MS)], producer_id=7, producer_epoch=0, base_sequence=number)
    data = Request.Topic.Partition(index=0, records=memoryview(batch))
    topic = Request.Topic(name="flights", partition_data=[data])
    return Request(transactional_id=None, acks=-1, timeout_ms=5_000, topic_data=[topic])


def test_an_expired_request_leaves_no_waiter() -> None:
    """
    If waiters stayed, a replica that is up but accepts no entries would make the leader keep every request in memory.
    """
    world, client, request = replicated(insync=3)
    world.hold(to=[3])
    for _ in range(3):
        client.send(request, 12)
    world.pass_time(1_000)
    shard = world[1].shard("flights")
    waiting = [len(waiters) for waiters in shard.waiters.replicated.values()]

    world.pass_time(1_000)

    assert [3] == waiting
    assert world[1].shard("flights").is_serving
    assert not any(map(len, shard.waiters.replicated.values()))
