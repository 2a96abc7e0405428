"""Who a broker says it is, as bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.model.broker_id import ReplicaKey
from tidemill.peer.hello import Hello, MalformedHello, decode_hello, encode_hello

TEXTS = st.text(max_size=250)
HELLOS = st.builds(
    Hello,
    cluster_id=TEXTS,
    voter=st.none() | st.builds(ReplicaKey, st.integers(0, (1 << 31) - 1), st.binary(min_size=16, max_size=16)),
    incarnation=st.integers(0, (1 << 63) - 1),
    address=TEXTS,
)
JOINING = Hello(cluster_id="", voter=None, incarnation=1, address="broker:9094")


@settings(deadline=None)
@given(hello=HELLOS)
def test_a_hello_comes_as_it_went(hello: Hello) -> None:
    """
    Every field of it, also of one that asks to join; and it fits into the handshake's frame.
    """
    encoded = encode_hello(hello)

    assert hello == decode_hello(memoryview(encoded))
    assert len(encoded) < 4096 - 17


def test_bytes_that_do_not_add_up_are_refused() -> None:
    """
    Every truncation, a byte too many, texts that are no UTF-8, a flag that does not exist.
    """
    whole = encode_hello(JOINING)

    for wrong in [
        *(whole[:length] for length in range(len(whole))),
        whole + b"\0",
        whole[:-1] + b"\xff",
        b"\2" + whole[1:],
    ]:
        with pytest.raises(MalformedHello):
            decode_hello(wrong)


def test_a_text_that_is_too_long_is_refused_by_its_name() -> None:
    """
    Before it is sent; and when somebody else sends it.
    """
    with pytest.raises(ValueError, match="the address has 1025 bytes of UTF-8; choose one of at most 1024"):
        encode_hello(Hello(cluster_id="", voter=None, incarnation=1, address="b" * 1025))
    longest = encode_hello(Hello(cluster_id="", voter=None, incarnation=1, address="b" * 1024))
    with pytest.raises(MalformedHello):
        decode_hello(longest[:34] + (1025).to_bytes(2, "big") + longest[36:] + b"b")
