"""Receipts as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.model.topic import TopicId
from tidemill.share.receipt import Receipt, decode_receipt

RECEIPT = Receipt(TopicId(bytes(range(16))), 2, 41, 7, 3, (1 << 63) - 1)


def numbers(bits: int, least: int = 0) -> st.SearchStrategy[int]:
    return st.integers(least, (1 << bits) - 1)


@given(
    st.builds(
        Receipt,
        st.binary(min_size=16, max_size=16),
        numbers(31),
        numbers(63),
        numbers(31),
        numbers(15, 1),
        numbers(63, 1),
    )
)
def test_a_receipt_is_read_as_it_was_written(receipt: Receipt) -> None:
    assert receipt == decode_receipt(receipt.encode())


def test_the_text_needs_no_quotes_in_a_url() -> None:
    text = RECEIPT.encode()
    assert (58, True) == (len(text), text.replace("-", "").replace("_", "").isalnum())


@given(st.text(max_size=70))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = decode_receipt(text)
    assert found is None or found.encode() == text


@pytest.mark.parametrize(
    "changed",
    [
        RECEIPT.encode()[:-1],
        RECEIPT.encode() + "A",
        RECEIPT.encode()[:-1] + "=",
        RECEIPT.encode()[:-1] + "x",  # bits behind the last byte
        "B" + RECEIPT.encode()[1:],  # another version
        RECEIPT._replace(offset=-1).encode(),
        RECEIPT._replace(delivery_count=0).encode(),
        RECEIPT._replace(lease=0).encode(),
        RECEIPT.encode()[:-1] + "é",
    ],
)
def test_what_is_no_receipt_is_refused(changed: str) -> None:
    assert decode_receipt(changed) is None
