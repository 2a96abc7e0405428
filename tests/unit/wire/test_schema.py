"""The classes and codecs that are generated from message declarations."""

import pytest

from tidemill.wire.messages import fetch, produce
from tidemill.wire.primitives import INT32, STRING, Records, read_uvarint, uvarint
from tidemill.wire.schema import Message, field


class Example(Message):
    name: str = field(STRING)
    count: int = field(INT32, since=2, default=-1)


def test_a_message_is_constructed_by_keyword_with_defaults() -> None:
    """
    A message is constructed by keyword: required fields must be given, and the others have the protocol's default.
    """
    example = Example(name="a")

    assert (example.name, example.count, repr(example)) == ("a", -1, "Example(name='a', count=-1)")
    with pytest.raises(TypeError):
        Example(count=1)  # type: ignore[call-arg]


def test_messages_with_equal_fields_are_equal() -> None:
    """
    Messages with equal fields are equal; a list and a tuple of the same elements count as equal.
    """
    forgotten = fetch.Request.ForgottenTopic

    made = [forgotten(topic="t", partitions=[1, 2]), forgotten(topic="t", partitions=(1, 2))]

    assert made[0] == made[1] != forgotten(topic="t", partitions=(1, 3))


def test_a_message_has_no_other_fields() -> None:
    """
    Assigning a misspelt field raises an error instead of sending the default.
    """
    example = Example(name="a")

    with pytest.raises(AttributeError):
        example.nmae = "b"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "records", [memoryview(b"batches"), [memoryview(b"bat"), b"ches"], (b"bat", bytearray(b"ches"))]
)
def test_records_are_sent_without_copying(records: Records) -> None:
    """
    Record batches are sent without a copy: the encoded parts include their buffers.
    """
    partition = fetch.Response.Topic.Partition(partition_index=0, error_code=0, high_watermark=1, records=records)
    response = fetch.Response(responses=[fetch.Response.Topic(partitions=[partition, partition])])
    buffers = list(records) if isinstance(records, (list, tuple)) else [records]

    parts = fetch.API.encode_response(16, response, correlation_id=1)

    assert [id(buffer) for buffer in buffers + buffers] == [id(part) for part in parts if part in buffers]
    assert len(b"".join(parts)) - 4 == int.from_bytes(parts[0][:4], "big")


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_456, 0xFFFFFFFF])
def test_a_varint_is_read_as_it_was_written(value: int) -> None:
    """
    Varints of every encoded length survive a round trip.
    """
    encoded = uvarint(value)

    assert (value, len(encoded)) == read_uvarint(memoryview(encoded + b"more"), 0)


def test_produce_before_version_3_can_be_read_and_refused() -> None:
    """
    Versions of Produce before 3 are advertised because librdkafka requires it.  Such a request can be read, and is
    refused with a response that the client can read.
    """
    response = produce.Response(
        responses=[
            produce.Response.Topic(
                name="t", partition_responses=[produce.Response.Topic.Partition(index=0, error_code=35, base_offset=-1)]
            )
        ]
    )

    sent = b"".join(produce.API.encode_response(0, response, correlation_id=1))

    assert response == produce.API.decode_response(0, sent, 8)
