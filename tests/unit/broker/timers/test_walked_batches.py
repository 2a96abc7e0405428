"""The records of a batch in memory are found without walking the batch for each of them."""

import pytest

from tidemill.batches.batch import read_header
from tidemill.batches.builder import build_batch
from tidemill.broker.timers import walked_batches
from tidemill.broker.timers.walked_batches import WalkedBatches
from tidemill.storage.partition.tail_cache import Tail
from tidemill.timer.arrival_records import starts_of
from tidemill.timer.release_batch import decoded


def batch_of(base: int, *values: bytes) -> bytearray:
    return build_batch([(None, value, (), 0) for value in values], base_offset=base)


def values(batches: WalkedBatches, *offsets: int) -> dict[int, bytes | None]:
    return {offset: decoded(record)[1] for offset, record in batches.records(offsets).items()}


@pytest.fixture
def tail() -> Tail:
    batches = batch_of(10, b"a", b"bb"), batch_of(12, b"c" * 200), batch_of(20, b"d", b"e", b"f")
    return {read_header(it).base_offset: it for it in batches}


def test_records_are_found_by_their_offsets(tail: Tail) -> None:
    """
    Those before the first batch, behind the last one, and between two batches are not in memory.
    """
    found = values(WalkedBatches(tail), 9, 10, 11, 12, 13, 19, 20, 22, 23)

    assert {10: b"a", 11: b"bb", 12: b"c" * 200, 20: b"d", 22: b"f"} == found


def test_a_batch_is_walked_once(tail: Tail, monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[int] = []
    monkeypatch.setattr(walked_batches, "starts_of", lambda batch: walked.append(len(batch)) or starts_of(batch))
    batches = WalkedBatches(tail)

    for offset in (10, 11, 10, 20, 22):
        batches.records([offset])

    assert [len(tail[10]), len(tail[20])] == walked


def test_a_batch_that_replaces_another_is_walked_again(tail: Tail) -> None:
    """
    After a truncation, other records get the same offsets.
    """
    batches = WalkedBatches(tail)
    batches.records([10, 11])

    tail[10] = batch_of(10, b"longer", b"other")

    assert {10: b"longer", 11: b"other"} == values(batches, 10, 11)


def test_positions_are_forgotten_with_their_batches() -> None:
    """
    Otherwise they would fill the memory.
    """
    tail: Tail = {}
    batches = WalkedBatches(tail)
    for base in range(100):
        tail[base] = batch_of(base, b"x")
        batches.records([base])
        if base >= 3:
            del tail[base - 3]

    assert len(batches._walked) <= 2 * len(tail) + 1
