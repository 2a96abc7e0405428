"""Acknowledgements as consumers send them: ranges of offsets, with one type for a range or one for each offset.

This file checks what can be checked without knowing the records' states; `leases` checks the rest (KIP-932, KIP-1222).
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import groupby
from typing import Final, NamedTuple

from tidemill.model import errors


class Acknowledgement(IntEnum):
    """A consumer's acknowledgement type for a record, with the numbers from KIP-932 and KIP-1222."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_WITH_RENEWAL: Final = frozenset(Acknowledgement)
_WITHOUT_RENEWAL: Final = _WITH_RENEWAL - {Acknowledgement.RENEW}


class AcknowledgementBatch(NamedTuple):
    """
    A consumer's acknowledgements for the offsets from `first` up to `end`: one type for all offsets, or one for each.
    """

    first: int
    end: int
    types: Sequence[int]


class AcknowledgedRange(NamedTuple):
    """Consecutive offsets that a consumer acknowledges with the same type."""

    first: int
    end: int
    type: int


class AcknowledgementRefused(Exception):
    """All acknowledgements of a partition are rejected together, with a Kafka protocol error code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def acknowledged_ranges(batches: Iterable[AcknowledgementBatch], *, may_renew: bool) -> list[AcknowledgedRange]:
    """
    Return the ranges that the acknowledgements of one partition consist of, in ascending order.

    `may_renew` is whether the request is of version 2 or later and has the flag `is_renew_ack`.  Raise
    AcknowledgementRefused with INVALID_REQUEST if any batch is invalid.
    """
    permitted = _WITH_RENEWAL if may_renew else _WITHOUT_RENEWAL
    ranges: list[AcknowledgedRange] = []
    last_end = 0
    for first, end, types in batches:
        if first < last_end or end <= first or len(types) not in (1, end - first):
            raise AcknowledgementRefused(
                errors.INVALID_REQUEST,
                f"the acknowledgement of offsets {first} to {end - 1} with {len(types)} types: batches ascend, and "
                "have one type, or one for each offset",
            )
        last_end = end
        if unknown := set(types) - permitted:
            raise AcknowledgementRefused(
                errors.INVALID_REQUEST,
                f"acknowledgement type {min(unknown)}: the types are 0 to 3, and 4 in a request with is_renew_ack",
            )
        if len(types) == 1:
            ranges.append(AcknowledgedRange(first, end, types[0]))
            continue
        for kind, group in groupby(types):
            ranges.append(AcknowledgedRange(first, first + len(list(group)), kind))
            first = ranges[-1].end
    return ranges


def check_renewal(*, max_wait_ms: int, min_bytes: int, max_bytes: int, max_records: int) -> None:
    """
    Check the limits of a ShareFetch with the flag `is_renew_ack`, which renews locks and fetches nothing.

    Raise AcknowledgementRefused with INVALID_REQUEST unless all limits are 0: waiting for records would use up the
    time for which the locks are renewed.
    """
    if max_wait_ms or min_bytes or max_bytes or max_records:
        raise AcknowledgementRefused(
            errors.INVALID_REQUEST,
            "a ShareFetch with is_renew_ack must have 0 as max_wait_ms, min_bytes, max_bytes and max_records",
        )
