"""Extracts the message of an error that Spark has wrapped."""

import re
from collections.abc import Iterator

from tidemill.client.failures import ClientError
from tidemill.columnar.data_loss import DataLossError

_OURS = (ValueError, ClientError, DataLossError)  # their messages state the fix


def sentence(error: BaseException) -> str:
    """
    Return the message of an error, on one line.

    Spark puts an error code and text before the message of a Python error, and a traceback after it.  If the Python
    error has one of the types in `_OURS`, only the error's own message is returned.
    """
    text = str(error).strip()
    ours = re.search(rf"(?:^|[\s.])(?:{'|'.join(sorted(_names()))}): (.+)", text)
    if ours:
        return ours[1].strip()
    return text.splitlines()[0] if text else type(error).__name__


def _names() -> set[str]:
    return {found.__name__ for ours in _OURS for found in (ours, *_subclasses(ours))}


def _subclasses(parent: type[BaseException]) -> Iterator[type[BaseException]]:
    for child in parent.__subclasses__():
        yield child
        yield from _subclasses(child)
