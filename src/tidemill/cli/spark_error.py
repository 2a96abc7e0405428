"""Finds the sentence of an error that Spark has wrapped."""

import re
from collections.abc import Iterator

from tidemill.client.failures import ClientError
from tidemill.columnar.data_loss import DataLossError

_OURS = (ValueError, ClientError, DataLossError)  # their sentences say what to do


def sentence(error: BaseException) -> str:
    """
    Return what an error says, on one line.

    Spark puts a code and its own words in front of an error in Python, and a trace after it.  If one of our errors is
    among them, only its sentence is returned.
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
