"""The encoding of a frame between two brokers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.peer.loads import LOADS
from tests.unit.peer.session_pair import joined
from tidemill.model.broker_id import BrokerId
from tidemill.model.shard import ShardId
from tidemill.peer.frame import (
    Heartbeat,
    Leaders,
    Message,
    Request,
    Response,
    Section,
    encode_heartbeat,
    encode_leaders,
    encode_load_section,
    encode_message,
    encode_request,
    encode_response,
    sections,
)
from tidemill.peer.link import Buffer
from tidemill.peer.load import Load
from tidemill.peer.tagged_fields import MalformedFrame

U64 = st.integers(0, (1 << 64) - 1)
SHARDS = U64.map(ShardId)
U32 = st.integers(0, (1 << 32) - 1)
DATA = st.binary(max_size=60).map(memoryview)
SECTIONS: st.SearchStrategy[Section] = st.one_of(
    st.builds(
        Heartbeat,
        U64,
        st.integers(0, 255),
        st.lists(st.tuples(SHARDS, U64.map(BrokerId)), max_size=4).map(tuple),
        st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        unheard=st.lists(U32.map(BrokerId), max_size=4).map(tuple),
        level=st.integers(1, (1 << 16) - 1),
    ),
    st.builds(Leaders, U64, U64, st.lists(st.tuples(SHARDS, U64), max_size=4).map(tuple)),
    st.builds(Message, SHARDS, DATA),
    st.builds(Request, U32, DATA),
    st.builds(Response, U32, DATA),
    LOADS,
)


def encode(section: Section) -> list[Buffer]:
    match section:
        case Heartbeat():
            return encode_heartbeat(section)
        case Leaders():
            return encode_leaders(section)
        case Message():
            return encode_message(section.shard, [section.data[:5], section.data[5:]])
        case Request():
            return encode_request(section.correlation, [section.data])
        case Response():
            return encode_response(section.correlation, [section.data])
        case Load():
            return encode_load_section(section)


def frame(*of: Section) -> memoryview:
    return memoryview(bytearray(b"".join(joined(encode(section)) for section in of)))


@settings(deadline=None)
@given(sent=st.lists(SECTIONS, max_size=6))
def test_sections_survive_a_round_trip(sent: list[Section]) -> None:
    """Encoding and decoding preserve the order of the sections and every field."""
    assert sent == list(sections(frame(*sent)))


@pytest.mark.parametrize("section", [Message(ShardId(7), memoryview(b"data")), Request(7, memoryview(b"data"))])
def test_bytes_are_not_copied(section: Message | Request) -> None:
    """The encoder writes the given parts without a copy, and received data is a writable view of the frame."""
    parts: list[Buffer] = [bytearray(b"head"), memoryview(b"batch")]
    _, *sent = encode_message(ShardId(7), parts)
    received = frame(section)

    (taken,) = sections(received)

    assert all(given is written for given, written in zip(parts, sent, strict=True))
    assert isinstance(taken, Message | Request)
    taken.data[0] = ord("D")
    assert bytes(received).endswith(b"Data")


def test_every_truncation_within_a_section_is_refused() -> None:
    """A frame truncated at any byte within a section is refused, after its complete sections have been delivered."""
    last = Message(ShardId(7), memoryview(b"data"))
    whole = frame(Heartbeat(3, 0, ((ShardId(4), BrokerId(2)),)), Leaders(0, 2, ((ShardId(5), 6),)), last)
    borders = {0, 45, 45 + 37}

    for length in range(len(whole)):
        if length in borders:
            assert len(list(sections(whole[:length]))) == sorted(borders).index(length)
        else:
            with pytest.raises(MalformedFrame):
                list(sections(whole[:length]))


@pytest.mark.parametrize(
    "section",
    [(2, 0), (2, 8), (2, 24), (3, 7), (4, 3), (5, 0)],
)
def test_a_section_with_an_impossible_length_is_refused(section: tuple[int, int]) -> None:
    """
    A section is refused if its body is too short for its fields or ends within a row.
    """
    kind, length = section

    with pytest.raises(MalformedFrame, match=f"a section of kind {kind} cannot have {length} bytes"):
        list(sections(memoryview(bytes([kind]) + length.to_bytes(4, "big") + bytes(length))))


def test_a_malformed_report_of_the_load_is_refused() -> None:
    """A section with figures that cannot be read is refused like every other section, so the link ends."""
    with pytest.raises(MalformedFrame, match="the figures of a broker"):
        list(sections(memoryview(b"\x07" + (6).to_bytes(4) + b"\x01" + (1).to_bytes(4) + b"x")))


@pytest.mark.parametrize("kind", [0, 6, 8, 255])
def test_a_section_of_an_unknown_kind_is_skipped(kind: int) -> None:
    """
    A section of an unknown kind is skipped, so that a newer broker can add kinds without a new protocol version.
    """
    known = Message(ShardId(7), memoryview(b"data"))
    unknown = bytes([kind]) + (9).to_bytes(4, "big") + bytes(9)

    received = memoryview(bytes(frame(known)) + unknown + bytes(frame(known)))

    assert [known, known] == list(sections(received))


def heartbeat_of(*fields: tuple[int, bytes]) -> memoryview:
    body = b"".join(bytes([tag]) + len(field).to_bytes(4, "big") + field for tag, field in fields)
    return memoryview(b"\x01" + len(body).to_bytes(4, "big") + body)


def test_an_unknown_field_of_a_heartbeat_is_skipped() -> None:
    """
    An unknown field is skipped, the fields around it are read, and a missing field has its default.
    """
    received = heartbeat_of((2, b"\x03"), (9, b"of a later version"), (1, (5).to_bytes(8, "big")))

    assert [Heartbeat(5, 3, ())] == list(sections(received))
    assert [Heartbeat(0, 0, (), None, unheard=(), level=1)] == list(sections(heartbeat_of()))


@pytest.mark.parametrize(
    "field", [(1, b"short"), (2, b""), (2, b"ab"), (3, bytes(15)), (4, bytes(7)), (5, bytes(6)), (6, bytes(1))]
)
def test_a_field_with_an_impossible_length_is_refused(field: tuple[int, bytes]) -> None:
    """
    A field is refused, instead of being misread, if it ends within a row or if its number has the wrong size.
    """
    with pytest.raises(MalformedFrame, match=f"field {field[0]} of a heartbeat cannot have {len(field[1])} bytes"):
        list(sections(heartbeat_of(field)))


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_heartbeat_that_ends_within_a_field_is_refused(cut: int) -> None:
    """
    A heartbeat that ends within a field is refused, even if the field's tag is unknown.
    """
    body = heartbeat_of((9, b"seven b"))[5:-cut]

    with pytest.raises(MalformedFrame):
        list(sections(memoryview(b"\x01" + len(body).to_bytes(4, "big") + bytes(body))))
