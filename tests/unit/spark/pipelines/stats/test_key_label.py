"""Short labels for keys."""

import pytest

from tidemill.spark.pipelines.stats.key_label import LABEL_CHARACTERS_MAX, label


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"UA", "UA"),
        (b"", '""'),
        ("Zürich".encode(), "Zürich"),
        (b"\x00\x01", "0x0001"),
        (b"\xff", "0xff"),
        (b"a\nb", "0x610a62"),
    ],
)
def test_a_key_is_text_or_hexadecimal(key: bytes, text: str) -> None:
    """
    A key is shown as text if it is printable, and otherwise in hexadecimal.
    """
    assert text == label(key)


def test_a_long_key_is_cut_in_the_middle() -> None:
    """
    The label of a long key contains both of its ends, because keys with a common prefix differ at their ends.
    """
    text = label(b"customer-" + b"0" * 100 + b"-41")

    assert text.startswith("customer-") and text.endswith("-41") and "…" in text
    assert len(text) <= LABEL_CHARACTERS_MAX
