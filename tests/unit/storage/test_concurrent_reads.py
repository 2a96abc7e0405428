"""Reader threads use a partition while the event loop appends to it, trims it and takes checkpoints."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tidemill.batches.batch import crc_matches, read_header
from tidemill.storage.partition.partition_log import OffsetGone
from tidemill.storage.store import StoreOptions

OPTIONS = StoreOptions(
    journal_first_bytes=1 << 18,
    journal_file_bytes=1 << 18,
    journal_bytes_max=1 << 18,
    cache_bytes_max=2_000,
    checkpoint_bytes=1 << 16,
)
TURNS = 300


@pytest.fixture
def eager_switches() -> Iterator[None]:
    """Switch threads after a few instructions, instead of every 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_switches")
def test_a_reader_gets_whole_batches_or_offset_gone(make_hand: Callable[..., Any]) -> None:
    """A reader gets no wrong batch, no false damage, and no error other than OffsetGone."""
    hand = make_hand(OPTIONS, segment_bytes=1_500, index_interval=300)
    hand.append(5)
    hand.write_all()
    hand.commit()
    wrong: list[str] = []
    is_over = threading.Event()

    def read() -> None:
        log = hand.log
        offset = 0
        while not is_over.is_set():
            try:
                end = hand.committed_end
                if offset >= end:
                    offset = log.log_start
                    log.first_at_or_after(1_000 + 7 * offset, end)
                    continue
                found = log.read(offset, 400, end, may_wait=True)
                header = read_header(found[0][0])
                if not crc_matches(found[0][0]) or not header.base_offset <= offset < header.end_offset:
                    wrong.append(f"offset {offset} was answered with {header}")
                offset = header.end_offset
            except OffsetGone:
                offset = log.log_start
            except Exception as error:  # any other error would stop the broker
                wrong.append(f"{type(error).__name__} at offset {offset}: {error}")
                return

    hand.committed_end = hand.log.end_offset
    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(TURNS):
        hand.append(3)
        hand.write_all()
        hand.commit()
        hand.committed_end = hand.log.end_offset
        if turn % 10 == 9:
            hand.store.trim(hand.shard, 0, hand.log.end_offset - 40)
            hand.write_all()
            hand.remove()
            hand.store.close_surplus_files()
        if hand.store.wants_checkpoint:
            hand.checkpoint()
    is_over.set()
    for thread in threads:
        thread.join()

    assert [] == wrong
