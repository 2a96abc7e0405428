"""The encoding of requests between brokers (`docs/formats/peer.md`)."""

import pytest

from tidemill.model import errors
from tidemill.model.topic import TopicId
from tidemill.peer import (
    allocate_producer_ids,
    cluster_operation,
    cluster_report,
    create_internal_topic,
    image_offset,
    join,
    register,
    share_close,
    share_describe,
    share_letter,
    share_open,
    share_receipts,
    share_receive,
    share_reset,
    share_resolve,
    timer_list,
    timer_resolve,
    transfer_leadership,
)
from tidemill.wire.api import ALL
from tidemill.wire.primitives import ProtocolError
from tidemill.wire.schema import Api, Message

APIS = (
    join.API,
    register.API,
    allocate_producer_ids.API,
    create_internal_topic.API,
    transfer_leadership.API,
    image_offset.API,
    share_open.API,
    share_close.API,
    share_describe.API,
    share_reset.API,
    share_resolve.API,
    share_receive.API,
    share_letter.API,
    share_receipts.API,
    timer_resolve.API,
    timer_list.API,
    cluster_operation.API,
    cluster_report.API,
)
DIRECTORY = bytes(range(16))
TOPIC = TopicId(bytes(range(16, 32)))
ENDPOINT = register.Request.Endpoint(name="PEER", host="h", port=9093, security="PLAINTEXT")
NO_TAGS, NULL, FINE = "00", "00", "0000"

REQUESTS: list[tuple[Api, Message, str]] = [
    (join.API, join.Request(directory_id=DIRECTORY), DIRECTORY.hex() + "ffffffff" + NO_TAGS),
    (join.API, join.Request(directory_id=DIRECTORY, broker_id=3), DIRECTORY.hex() + "00000003" + NO_TAGS),
    (
        join.API,
        join.Request(directory_id=DIRECTORY, broker_id=3, was_admitted=True),
        DIRECTORY.hex() + "00000003" + "01" + "00" + "01" + "01",
    ),
    (
        join.API,
        join.Request(directory_id=DIRECTORY, broker_id=3, level=2),
        DIRECTORY.hex() + "00000003" + "01" + "01" + "02" + "0002",
    ),
    (
        register.API,
        register.Request(broker_id=3, directory_id=DIRECTORY, endpoints=[], level=2),
        "00000003" + DIRECTORY.hex() + "01" + NULL + "01" + "00" + "02" + "0002",
    ),
    (
        register.API,
        register.Request(broker_id=3, directory_id=DIRECTORY, endpoints=[ENDPOINT], rack="r"),
        "00000003" + DIRECTORY.hex() + "02" + "0550454552" + "0268" + "2385" + "0a504c41494e54455854" + NO_TAGS
        + "0272" + NO_TAGS,
    ),
    (allocate_producer_ids.API, allocate_producer_ids.Request(broker_id=3), "00000003" + NO_TAGS),
    (create_internal_topic.API, create_internal_topic.Request(name="__t"), "045f5f74" + NO_TAGS),
    (
        transfer_leadership.API,
        transfer_leadership.Request(moves=[transfer_leadership.Request.Move(shard_id=4, to=2)]),
        "02" + "0000000000000004" + "00000002" + NO_TAGS + NO_TAGS,
    ),
    (image_offset.API, image_offset.Request(), NO_TAGS),
    (
        share_open.API,
        share_open.Request(group_id="g", topic_id=TOPIC, partition=2),
        "0267" + TOPIC.hex() + "00000002" + NO_TAGS,
    ),
    (
        share_open.API,
        share_open.Request(group_id="g", topic_id=TOPIC, partition=2, may_create=True),
        "0267" + TOPIC.hex() + "00000002" + "01" + "0001" + "01",
    ),
    (
        share_close.API,
        share_close.Request(group_id="g", topic_id=TOPIC, incarnation=9, partitions=[2]),
        "0267" + TOPIC.hex() + "0000000000000009" + "0200000002" + NO_TAGS,
    ),
    (
        share_describe.API,
        share_describe.Request(
            group_id="g", partitions=[share_describe.Request.Partition(topic_id=TOPIC, partition=2)]
        ),
        "0267" + "02" + TOPIC.hex() + "00000002" + NO_TAGS + NO_TAGS,
    ),
    (
        share_reset.API,
        share_reset.Request(
            group_id="g",
            partitions=[share_reset.Request.Partition(topic_id=TOPIC, partition=2, incarnation=9, start=4)],
        ),
        "0267" + "02" + TOPIC.hex() + "00000002" + "0000000000000009" + "0000000000000004" + NO_TAGS + NO_TAGS,
    ),
    (
        share_resolve.API,
        share_resolve.Request(
            group_id="g",
            topic_id=TOPIC,
            partition=2,
            member_id="m",
            batches=[share_resolve.Request.Batch(first_offset=4, last_offset=5, acknowledge_types=[1])],
            delay_ms=7,
        ),
        "0267" + TOPIC.hex() + "00000002" + "026d" + "02" + "0000000000000004" + "0000000000000005" + "0201" + NO_TAGS
        + "ff" + "0000000000000007" + "00" + NO_TAGS,
    ),
    (
        share_receive.API,
        share_receive.Request(
            group_id="g", topic_id=TOPIC, partition=2, member_id="m", max_records=3, max_bytes=4, max_wait_ms=5
        ),
        "0267" + TOPIC.hex() + "00000002" + "026d" + "00000003" + "00000004" + "00000005" + NO_TAGS,
    ),
    (
        share_letter.API,
        share_letter.Request(topic_id=TOPIC, partition=2, records=memoryview(b"batch")),
        TOPIC.hex() + "00000002" + "06" + b"batch".hex() + NO_TAGS,
    ),
    (
        share_receive.API,
        share_receive.Request(
            group_id="g", topic_id=TOPIC, partition=2, member_id="m", max_records=3, max_bytes=4, max_wait_ms=5,
            lease=6, lock_ms=7,
        ),
        "0267" + TOPIC.hex() + "00000002" + "026d" + "00000003" + "00000004" + "00000005" + "02"
        + "00" + "08" + "0000000000000006" + "01" + "04" + "00000007",
    ),
    (
        share_receipts.API,
        share_receipts.Request(
            group_id="g",
            topic_id=TOPIC,
            partition=2,
            acknowledge_type=2,
            deliveries=[share_receipts.Request.Delivery(offset=4, term=5, delivery_count=6, lease=7)],
            delay_ms=8,
        ),
        "0267" + TOPIC.hex() + "00000002" + "02" + "02" + "0000000000000004" + "00000005" + "0006" + "0000000000000007"
        + NO_TAGS + "0000000000000008" + "ffffffff" + NO_TAGS,
    ),
    (
        timer_resolve.API,
        timer_resolve.Request(
            topic_id=TOPIC, partition=2, operation=timer_resolve.RESCHEDULE, due_ms=7, arrivals=[4], timer_ids=[b"id"],
        ),
        TOPIC.hex() + "00000002" + "01" + "0000000000000007" + "02" + "0000000000000004" + "02" + "036964" + "ff" + "00"
        + NO_TAGS,
    ),
    (
        timer_resolve.API,
        timer_resolve.Request(
            topic_id=TOPIC,
            partition=2,
            operation=timer_resolve.CANCEL,
            selection=timer_resolve.Selection(key=b"k", due_before_ms=9),
            is_trial=True,
        ),
        TOPIC.hex() + "00000002" + "00" + "ff" * 8 + "01" + "01" + "01" + "026b" + NULL + "ff" * 8 + "0000000000000009"
        + "00" + NO_TAGS + "01" + NO_TAGS,
    ),
    (
        timer_list.API,
        timer_list.Request(
            topic_id=TOPIC,
            partition=2,
            selection=timer_resolve.Selection(key_prefix=b"k", due_from_ms=8, is_recurring=True),
            timer_ids=[b"id"],
            after_due_ms=5,
            after_arrival=6,
            max_records=3,
            has_values=True,
            edges_ms=[9],
        ),
        TOPIC.hex() + "00000002" + "01" + NULL + "026b" + "0000000000000008" + "ff" * 8 + "01" + NO_TAGS
        + "02" + "036964" + "0000000000000005" + "0000000000000006" + "00" + "00000003" + "01"
        + "02" + "0000000000000009" + NO_TAGS,
    ),
    (
        timer_list.API,
        timer_list.Request(topic_id=TOPIC, partition=2, after_arrival=6, is_by_arrival=True, max_records=3),
        TOPIC.hex() + "00000002" + "ff" + "01" + "ff" * 8 + "0000000000000006" + "01" + "00000003" + "00" + "01"
        + NO_TAGS,
    ),
    (
        cluster_operation.API,
        cluster_operation.Request(operation=5, broker_id=3, shard_id=41, brokers=[7, 2], is_forced=True),
        "05" + "00000003" + "0000000000000029" + "03" + "00000007" + "00000002" + "01" + "00" + NO_TAGS,
    ),
    (cluster_report.API, cluster_report.Request(is_trial=True), "01" + NO_TAGS),
]  # fmt: skip
RESPONSES: list[tuple[Api, Message, str]] = [
    (join.API, join.Response(cluster_id="c", broker_id=2), FINE + NULL + "0263" + "00000002" + NO_TAGS),
    (
        join.API,
        join.Response(cluster_id="c", broker_id=2, peers=["h:1"]),
        FINE + NULL + "0263" + "00000002" + "01" + "00" + "05" + "02" + "04683a31",
    ),
    (
        join.API,
        join.Response(error_code=errors.NOT_CONTROLLER, live_peers=["h:1"]),
        "0029" + NULL + "01" + "ffffffff" + "01" + "01" + "05" + "02" + "04683a31",
    ),
    (
        join.API,
        join.Response(error_code=errors.DUPLICATE_BROKER_REGISTRATION, error_message="no"),
        "0065" + "036e6f" + "01" + "ffffffff" + NO_TAGS,
    ),
    (register.API, register.Response(), FINE + NULL + NO_TAGS),
    (register.API, register.Response(image_offset=9), FINE + NULL + "01" + "00" + "08" + "0000000000000009"),
    (
        allocate_producer_ids.API,
        allocate_producer_ids.Response(first=4_000, count=1_000),
        FINE + NULL + "0000000000000fa0" + "000003e8" + NO_TAGS,
    ),
    (create_internal_topic.API, create_internal_topic.Response(), FINE + NULL + NO_TAGS),
    (image_offset.API, image_offset.Response(offset=9), FINE + NULL + "0000000000000009" + NO_TAGS),
    (
        transfer_leadership.API,
        transfer_leadership.Response(refused=[4]),
        FINE + NULL + "02" + "0000000000000004" + NO_TAGS,
    ),
    (
        share_open.API,
        share_open.Response(incarnation=9, start_rule=share_open.BY_DURATION, start_duration_ms=7),
        FINE + NULL + "0000000000000009" + "02" + "0000000000000007" + NO_TAGS,
    ),
    (share_close.API, share_close.Response(refused=[2]), FINE + NULL + "0200000002" + NO_TAGS),
    (
        share_describe.API,
        share_describe.Response(shares=[share_describe.Response.Share(leader_epoch=3, start=4, lag=5)]),
        FINE + NULL + "02" + "0000" + "00000003" + "0000000000000004" + "0000000000000005" + "ff" * 8 + "00" * 40
        + "ff" * 8 + NULL + "00" * 8 + NO_TAGS + NO_TAGS,
    ),
    (
        share_reset.API,
        share_reset.Response(
            outcomes=[share_reset.Response.Outcome(error_code=errors.NON_EMPTY_GROUP, error_message="no")]
        ),
        FINE + NULL + "02" + "0044" + "036e6f" + NO_TAGS + NO_TAGS,
    ),
    (
        share_resolve.API,
        share_resolve.Response(resolved=1, finished=2, held=3),
        FINE + NULL + "0000000000000001" + "0000000000000002" + "0000000000000003" + NO_TAGS,
    ),
    (
        share_receive.API,
        share_receive.Response(
            lock_ms=9,
            acquired=[share_receive.Response.AcquiredRecords(first_offset=4, last_offset=5, delivery_count=1)],
        ),
        FINE + NULL + "00000009" + "02" + "0000000000000004" + "0000000000000005" + "0001" + NO_TAGS + "01" + NO_TAGS,
    ),
    (
        share_receive.API,
        share_receive.Response(is_exclusive=True, withheld_ms=7),
        FINE + NULL + "00000000" + "01" + "01" + "02" + "00" + "01" + "01" + "01" + "04" + "00000007",
    ),
    (
        share_receive.API,
        share_receive.Response(term=7),
        FINE + NULL + "00000000" + "01" + "01" + "01" + "02" + "04" + "00000007",
    ),
    (
        share_receipts.API,
        share_receipts.Response(lock_ms=9, outcomes=[0, 1]),
        FINE + NULL + "00000009" + "03" + "00" + "01" + NO_TAGS,
    ),
    (share_letter.API, share_letter.Response(error_code=3, error_message="no"), "0003" + "036e6f" + NO_TAGS),
    (
        timer_resolve.API,
        timer_resolve.Response(changed=1, over=2, unknown=3),
        FINE + NULL + "0000000000000001" + "0000000000000002" + "0000000000000003" + NO_TAGS,
    ),
    (
        timer_list.API,
        timer_list.Response(
            waiting=1,
            waiting_bytes=2,
            next_due_ms=3,
            end=4,
            limit_ms=5,
            records=[
                timer_list.Response.Record(
                    arrival=6,
                    due_ms=7,
                    timestamp_ms=8,
                    size_bytes=9,
                    timer_id=b"id",
                    key=b"k",
                    headers=[timer_list.Response.Record.Header(name="h", value=b"v")],
                )
            ],
            has_more=True,
            counts=[10],
        ),
        FINE + NULL + "".join(f"{number:016x}" for number in range(1, 6)) + "02" + "".join(
            f"{number:016x}" for number in range(6, 9)
        ) + "00000009" + "036964" + "026b" + NULL + "02" + "0268" + "0276" + NO_TAGS + NO_TAGS + "01" + "02"
        + "000000000000000a" + NO_TAGS,
    ),
    (
        cluster_operation.API,
        cluster_operation.Response(
            findings=[cluster_operation.Response.Finding(kind="disk", shard_id=41, sentence="s")]
        ),
        FINE + NULL + "02" + "056469736b" + "0000000000000029" + "ff" * 4 + "0273" + NO_TAGS + NO_TAGS,
    ),
    (
        cluster_report.API,
        cluster_report.Response(
            status="idle",
            why="w",
            planned_at_ms=1,
            steps=[
                cluster_report.Response.Step(at_ms=2, shard_id=3, reason="r", replicas=[4], size=5, sentence="s")
            ],
            refusals=[cluster_report.Response.Refusal(what="x", sentence="y")],
            notes=[cluster_report.Response.Note(at_ms=6, broker_id=7, sentence="n")],
            brokers=[
                cluster_report.Response.Broker(
                    broker_id=1,
                    rack=None,
                    presence="a",
                    drain="d",
                    is_live=True,
                    is_ready=False,
                    heard_by=2,
                    silent_ms=3,
                    live_ms=4,
                    disk_total=5,
                    disk_used=6,
                    cpu=7,
                    replicas=8,
                    leaders=9,
                    bytes=10,
                    not_in_sync=11,
                    untold=12,
                    leaving=13,
                )
            ],
            moves=[
                cluster_report.Response.Move(
                    shard_id=1, reason="r", voters=[2], replicas=[3], previous=[], size=4, remaining=5
                )
            ],
            moves_count=6,
            untold_count=7,
            untold=[8],
        ),
        FINE + NULL + "0569646c65" + "0277" + "0000000000000001"
        + "02" + "0000000000000002" + "0000000000000003" + "0272" + "02" + "00000004" + "0000000000000005" + "0273"
        + NULL + NO_TAGS
        + "02" + "0278" + "0279" + NO_TAGS
        + "01"
        + "02" + "0000000000000006" + "00000007" + "026e" + NO_TAGS
        + "02" + "00000001" + NULL + "0261" + "0264" + "01" + "00" + "00000002" + "0000000000000003"
        + "0000000000000004" + "0000000000000005" + "0000000000000006" + "00000007" + "00000008" + "00000009"
        + "000000000000000a" + "0000000b" + "02" + "00" + "04" + "0000000c" + "01" + "04" + "0000000d"
        + "02" + "0000000000000001" + "0272" + "02" + "00000002" + "02" + "00000003" + "01" + "0000000000000004"
        + "0000000000000005" + NO_TAGS
        + "00000006" + "02" + "00" + "04" + "00000007" + "01" + "09" + "02" + "0000000000000008",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("api", "request_", "golden"), REQUESTS)
def test_requests_encode_to_the_golden_bytes(api: Api, request_: Message, golden: str) -> None:
    """
    The encoding of a request version never changes, since brokers of different builds communicate during an upgrade.
    """
    header = f"{api.key:04x}" + "0000" + "00000007" + "ffff" + NO_TAGS  # version, correlation id, no client id

    frame = b"".join(api.encode_request(0, request_, correlation_id=7))

    assert header + golden == frame[4:].hex()  # without the four bytes of the frame's size
    assert request_ == api.decode_request(0, memoryview(bytes.fromhex(golden)))


@pytest.mark.parametrize(("api", "response", "golden"), RESPONSES)
def test_responses_encode_to_the_golden_bytes(api: Api, response: Message, golden: str) -> None:
    """Responses encode to the golden bytes; a refusal includes a sentence for the operator of the requesting broker."""
    body = b"".join(api.encode_response_body(0, response))

    assert golden == body.hex()
    assert response == api.decode_response(0, memoryview(body))


@pytest.mark.parametrize(("api", "request_", "golden"), REQUESTS)
def test_a_truncated_request_is_refused(api: Api, request_: Message, golden: str) -> None:
    """A request that is truncated at any byte is refused."""
    whole = bytes.fromhex(golden)

    for size in range(len(whole)):
        with pytest.raises(ProtocolError):
            api.decode_request(0, memoryview(whole)[:size])


def test_the_api_keys_are_not_kafkas() -> None:
    """The API keys between brokers are unique, far above Kafka's, and not among those that ApiVersions lists."""
    keys = [api.key for api in APIS]

    assert [*range(10_000, 10_010), *range(10_015, 10_023)] == keys
    assert not set(keys) & set(ALL)
