"""Shows a key as a short text."""

from typing import Final

LABEL_CHARACTERS_MAX: Final = 28  # a longer label would leave too little room for the bars


def label(key: bytes) -> str:
    """
    Return the key as text if it is printable UTF-8, and otherwise as hexadecimal digits after "0x".

    An empty key is shown as two quotation marks.  A long key is cut in the middle, because keys often differ at their
    ends.
    """
    if not key:
        return '""'
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = ""
    if not text.isprintable() or not text:
        text = f"0x{key.hex()}"
    if len(text) <= LABEL_CHARACTERS_MAX:
        return text
    kept = (LABEL_CHARACTERS_MAX - 1) // 2
    return f"{text[:kept]}…{text[-kept:]}"
