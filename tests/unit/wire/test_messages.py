"""Compares every message in every version with two independent libraries, and tests malformed input."""

import tracemalloc
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wire import kafka_python_oracle, kio_oracle
from tests.unit.wire.random_messages import draw
from tidemill.wire import api as apis
from tidemill.wire.messages import metadata, share_acknowledge
from tidemill.wire.primitives import ProtocolError, uvarint
from tidemill.wire.schema import Api, Message

SIDES = [
    pytest.param(api, side, id=f"{api.name}-{side}") for api in apis.ALL.values() for side in ("request", "response")
]
SEEDS = st.integers(min_value=0, max_value=1 << 32)

quick = settings(max_examples=3, deadline=None)  # random seeds for each message


def body(api: Api, side: str, version: int, message: Message) -> bytes:
    if side == "response":
        return b"".join(api.encode_response_body(version, message))
    frame = b"".join(api.encode_request(version, message, correlation_id=7))
    return frame[15:] if version >= api.flexible_from else frame[14:]


def decode(api: Api, side: str, version: int, data: bytes) -> Any:
    return (api.decode_request if side == "request" else api.decode_response)(version, memoryview(data))


def spoken(api: Api) -> range:
    return range(3, api.versions.stop) if api.name == "produce" else api.versions  # no library has Produce 0-2


@pytest.mark.parametrize(("api", "side"), SIDES)
@quick
@given(seed=SEEDS)
def test_bytes_are_those_of_kio(api: Api, side: str, seed: int) -> None:
    """
    Our encoding equals, byte for byte, that of a library generated from Kafka's own schemas.
    """
    random = Random(seed)
    messages = [(version, draw(random, getattr(api, side), version)) for version in spoken(api)]

    encoded = [body(api, side, version, message) for version, message in messages]

    assert [kio_oracle.written(api, side, version, message) for version, message in messages] == encoded


@pytest.mark.parametrize(("api", "side"), [it for it in SIDES if kafka_python_oracle.knows(it.values[0])])
@quick
@given(seed=SEEDS)
def test_bytes_are_those_of_kafka_python(api: Api, side: str, seed: int) -> None:
    """
    Our encoding equals, byte for byte, that of a widely used client.
    """
    random = Random(seed)
    messages = [(version, draw(random, getattr(api, side), version, tagged=0)) for version in spoken(api)]

    encoded = [body(api, side, version, message) for version, message in messages]

    assert [kafka_python_oracle.written(api, side, version, message) for version, message in messages] == encoded


@pytest.mark.parametrize(("api", "side"), SIDES)
@quick
@given(seed=SEEDS)
def test_a_decoded_message_equals_the_encoded_one(api: Api, side: str, seed: int) -> None:
    """
    Decoding restores the fields of the version and sets the others to their defaults.
    """
    random = Random(seed)
    messages = [(version, draw(random, getattr(api, side), version)) for version in api.versions]

    decoded = [decode(api, side, version, body(api, side, version, message)) for version, message in messages]

    assert [message for _, message in messages] == decoded


@pytest.mark.parametrize(("api", "side"), SIDES)
def test_a_truncated_or_overlong_message_is_refused(api: Api, side: str) -> None:
    """
    A message truncated at any byte raises ProtocolError and nothing else.  So does a surplus byte, except in requests
    to which some client is known to add bytes.
    """
    random = Random(1)
    accepted = []
    too_long = [] if side == "request" and api.ignores_trailing_bytes else [b"\0"]

    for version in api.versions:
        whole = body(api, side, version, draw(random, getattr(api, side), version))
        cuts = range(len(whole)) if len(whole) < 300 else sorted(random.sample(range(len(whole)), 60))
        for damaged in [*(whole[:cut] for cut in cuts), *(whole + more for more in too_long)]:
            try:
                decode(api, side, version, damaged)
            except ProtocolError:
                continue
            accepted.append((version, damaged))

    assert accepted == []


def test_surplus_bytes_in_librdkafkas_metadata_request_are_ignored() -> None:
    """
    librdkafka 2 sends Metadata v13 with null topics, two flags and no tags.  Three surplus bytes follow, which it had
    reserved for a longer encoding of a length.
    """
    sent = bytes.fromhex("00 00 00 00 01 00 00")

    request = metadata.API.decode_request(13, memoryview(sent))

    assert (None, False) == (request.topics, request.allow_auto_topic_creation)


@pytest.mark.parametrize(("api", "side"), SIDES)
def test_random_bytes_are_decoded_or_refused(api: Api, side: str) -> None:
    """
    Random bytes are decoded or raise ProtocolError, and never another exception.
    """
    random = Random(2)
    outcomes: set[type] = set()

    for version in api.versions:
        whole = body(api, side, version, draw(random, getattr(api, side), version))
        for _ in range(30):
            damaged = bytearray(whole) or bytearray(8)
            for _ in range(random.choice([1, 1, 3, 10])):
                damaged[random.randrange(len(damaged))] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)])
            try:
                outcomes.add(type(decode(api, side, version, bytes(damaged))))
            except ProtocolError:
                outcomes.add(ProtocolError)

    assert outcomes <= {getattr(api, side), ProtocolError}


@pytest.mark.parametrize(("api", "side"), SIDES)
def test_unknown_tagged_fields_are_skipped(api: Api, side: str) -> None:
    """
    Unknown tagged fields are skipped, because a newer client may send fields that this version does not know.
    """
    random = Random(3)
    versions = range(max(api.flexible_from, api.versions.start), api.versions.stop)
    messages = [(version, draw(random, getattr(api, side), version, tagged=0)) for version in versions]
    unknown = uvarint(2) + uvarint(77) + uvarint(3) + b"abc" + uvarint(9_000) + uvarint(0)

    decoded = [
        decode(api, side, version, body(api, side, version, message)[:-1] + unknown) for version, message in messages
    ]

    assert [message for _, message in messages] == decoded


HOSTILE_SIZES = [0x7FFFFFFF, -1, -2, -0x80000000, 100 * 1024 * 1024 + 1]
HOSTILE_VARINTS = [
    uvarint(0xFFFFFFFF),
    uvarint(0x80000000),
    uvarint(100 * 1024 * 1024 + 1),
    uvarint(20_000_000),
    b"\x80\x80\x80\x80\x80\x80\x01",  # a varint longer than 5 bytes
    b"\xff\xff\xff\xff\x7f",  # a varint with more than 32 bits
]


def hostile_bodies() -> list[tuple[Api, int, bytes]]:
    """Return messages that are valid up to a hostile length or count, for every kind of length and count."""
    bodies = []
    for size in HOSTILE_SIZES:
        raw = size.to_bytes(4, "big", signed=True)
        short = (size & 0xFFFF | 0x8000).to_bytes(2, "big")
        bodies += [
            (apis.ALL[0], 7, short),  # length of a string
            (apis.ALL[0], 7, b"\xff\xff" + b"\0\1" + bytes(4) + raw),  # count of an array of structs
            (
                apis.ALL[0],
                7,
                b"\xff\xff" + b"\0\1" + bytes(4) + b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\0" + raw + b"x",
            ),  # length of the records of a Produce request
            (apis.ALL[9], 5, b"\0\1g\0\0\0\1\0\1t" + raw + bytes(64)),  # count of an array of numbers
            (apis.ALL[11], 0, b"\0\1g\0\0\0\0\0\0\0\1c\0\0\0\1\0\1p" + raw),  # length of a field of type bytes
        ]
    for varint in HOSTILE_VARINTS:
        bodies += [
            (apis.ALL[0], 9, varint + bytes(64)),  # length of a string
            (apis.ALL[0], 9, b"\0" + b"\0\1" + bytes(4) + varint + bytes(64)),  # count of an array of structs
            (apis.ALL[0], 9, b"\0" + b"\0\1" + bytes(4) + b"\2\2t\2\0\0\0\0" + varint + bytes(64)),  # length of records
            (apis.ALL[9], 6, b"\2g\2\2t" + varint + bytes(64)),  # count of an array of numbers
            (apis.ALL[18], 3, b"\2a\2b" + varint + bytes(64)),  # number of tagged fields
            (apis.ALL[18], 3, b"\2a\2b\1" + varint + bytes(64)),  # a tag number
            (apis.ALL[18], 3, b"\2a\2b\1\5" + varint + bytes(64)),  # size of a tagged field
        ]
    return bodies


@pytest.mark.parametrize(("api", "version", "data"), hostile_bodies())
def test_a_hostile_length_allocates_nothing(api: Api, version: int, data: bytes) -> None:
    """
    The decoder compares a length with the remaining bytes before it allocates memory.
    """
    with pytest.raises(ProtocolError):
        decode(api, "request", version, data)  # compiles the decoder, so that only decoding is measured below
    tracemalloc.start()

    try:
        with pytest.raises(ProtocolError):
            decode(api, "request", version, data)
        allocated = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert allocated < 64 * 1024


def test_the_number_of_small_elements_is_limited() -> None:
    """
    An element of two bytes becomes an object of a hundred, so the number of elements is limited by the message's size.
    """
    names = b"\1\0" * 100_000  # empty names without tags

    with pytest.raises(ProtocolError, match="too many"):
        decode(apis.ALL[75], "request", 0, uvarint(100_001) + names + bytes(6))


@pytest.mark.parametrize("count", [5_000, 100_000])
def test_an_acknowledgement_may_have_a_type_for_each_of_many_offsets(count: int) -> None:
    """
    A share consumer sends one byte for each offset if neighbouring records differ, as after releases at random.  These
    bytes become no objects, so a request may consist of them.
    """
    api = apis.ALL[79]
    version = api.versions[-1]
    partition = share_acknowledge.Request.Topic.Partition
    batch = partition.AcknowledgementBatch(
        first_offset=0, last_offset=count - 1, acknowledge_types=[1, 2] * (count // 2)
    )
    topic = share_acknowledge.Request.Topic(
        topic_id=b"t" * 16, partitions=[partition(partition_index=0, acknowledgement_batches=[batch])]
    )
    request = share_acknowledge.Request(group_id="g", member_id="m", share_session_epoch=1, topics=[topic])

    assert request == decode(api, "request", version, body(api, "request", version, request))
