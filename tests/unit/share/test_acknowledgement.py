"""The checks of acknowledgements that do not depend on the states of the records."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.model import errors
from tidemill.share.acknowledgement import (
    AcknowledgedRange,
    Acknowledgement,
    AcknowledgementBatch,
    AcknowledgementRefused,
    acknowledged_ranges,
    check_renewal,
)

Batches = list[tuple[int, int, tuple[int, ...]]]


def ranges_of(batches: Batches, *, may_renew: bool = False) -> list[AcknowledgedRange]:
    return acknowledged_ranges([AcknowledgementBatch(*batch) for batch in batches], may_renew=may_renew)


def refusal_of(batches: Batches, *, may_renew: bool = False) -> int:
    with pytest.raises(AcknowledgementRefused) as refused:
        ranges_of(batches, may_renew=may_renew)
    return refused.value.code


@pytest.mark.parametrize(
    "batches",
    [
        [(3, 3, (1,))],
        [(3, 2, (1,))],
        [(-1, 2, (1,))],
        [(2, 4, (1,)), (3, 5, (1,))],
        [(4, 5, (1,)), (2, 3, (1,))],
        [(2, 5, (1, 1))],
        [(2, 5, (1, 1, 1, 1))],
        [(2, 5, ())],
        [(2, 3, (5,))],
        [(2, 4, (1, -1))],
        [(2, 3, (1,)), (4, 5, (-1,))],
    ],
    ids=[
        "empty", "backwards", "negative", "overlap", "descending", "few types", "many types", "no type", "unknown",
        "one unknown", "later batch",
    ],
)  # fmt: skip
def test_invalid_batches_are_refused(batches: Batches) -> None:
    """
    Acknowledgements are refused if their batches overlap or do not ascend, or if a batch has neither one valid type nor
    one for each of its offsets.
    """
    assert errors.INVALID_REQUEST == refusal_of(batches)


def test_locks_are_renewed_only_in_a_request_that_says_so() -> None:
    """
    An acknowledgement of type 4, which renews a lock, is refused unless the request has the flag for renewals
    (KIP-1222).  A request with the flag may contain other types, too.
    """
    batches: Batches = [(0, 2, (Acknowledgement.RENEW, Acknowledgement.ACCEPT))]

    assert errors.INVALID_REQUEST == refusal_of(batches)
    assert [AcknowledgedRange(0, 1, 4), AcknowledgedRange(1, 2, 1)] == ranges_of(batches, may_renew=True)


@pytest.mark.parametrize("limit", ["max_wait_ms", "min_bytes", "max_bytes", "max_records"])
def test_a_fetch_that_renews_locks_fetches_nothing(limit: str) -> None:
    """
    A ShareFetch that renews locks is refused unless max_wait_ms, min_bytes, max_bytes and max_records are all 0, so
    that it neither waits nor returns records.
    """
    limits = dict.fromkeys(["max_wait_ms", "min_bytes", "max_bytes", "max_records"], 0)
    check_renewal(**limits)

    with pytest.raises(AcknowledgementRefused) as refused:
        check_renewal(**limits | {limit: 1})

    assert errors.INVALID_REQUEST == refused.value.code


@given(st.lists(st.tuples(st.integers(0, 5), st.lists(st.integers(0, 4), min_size=1, max_size=8), st.booleans())))
def test_ranges_say_the_type_of_every_offset(drawn: list[tuple[int, list[int], bool]]) -> None:
    """
    The ranges contain exactly the acknowledged offsets, ascending, with their types.  Consecutive offsets of one batch
    form one range if they have the same type.
    """
    batches: Batches = []
    model: list[tuple[int, int]] = []
    offset = 0
    for gap, types, is_uniform in drawn:
        first = offset + gap
        offset = first + len(types)
        types = [types[0]] * len(types) if is_uniform else types
        batches.append((first, offset, (types[0],) if is_uniform else tuple(types)))
        model += zip(range(first, offset), types, strict=True)

    ranges = ranges_of(batches, may_renew=True)

    assert model == [(place, one.type) for one in ranges for place in range(one.first, one.end)]
    changes = sum(1 for _, _, types in batches for a, b in pairwise(types) if a != b)
    assert len(batches) + changes == len(ranges)
