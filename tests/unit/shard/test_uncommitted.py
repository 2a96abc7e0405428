"""
Uncommitted entries are counted by size.  The first of them, up to NEAR_BYTES_MAX, count as near the commit index: with
acks=0 or 1, they are acknowledged before they commit.
"""

from random import Random

import pytest

from tidemill.raft.entry import BATCH, Entry
from tidemill.shard import uncommitted
from tidemill.shard.uncommitted import ENTRY_BYTES, Uncommitted

NEAR = 10 * ENTRY_BYTES


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uncommitted, "NEAR_BYTES_MAX", NEAR)


def entry(index: int, size: int = 0) -> Entry:
    return Entry(BATCH, bytes(size), index=index)


def near_of(entries: list[Entry]) -> int | None:
    """
    Return the expected `near_index`: the log index of the last entry that counts as near, or None if all entries do.
    Entries count as near from the first one on, as many as fit into NEAR bytes, but at least one.
    """
    size = 0
    for at, it in enumerate(entries):
        size += ENTRY_BYTES + it.payload_bytes
        if at and size > NEAR:
            return entries[at - 1].index
    return None


@pytest.mark.parametrize("seed", range(20))
def test_the_counts_match_those_of_a_plain_list(seed: int) -> None:
    """After any sequence of appends, commits and truncations, the counts match those of a plain list."""
    random, plain = Random(seed), list[Entry]()
    counted = Uncommitted([])
    last = 0
    for _ in range(300):
        deed = random.random()
        if deed < 0.5:
            new = [entry(last + at, random.choice((0, 50, 3_000, 5_000))) for at in range(1, random.choice((2, 4)))]
            counted.extend(new)
            plain += new
        elif deed < 0.9:
            index = random.randint(max(last - len(plain), 0), last)
            assert [it for it in plain if it.index <= index] == counted.committed(index)
            plain = [it for it in plain if it.index > index]
        elif plain:
            index = random.randint(plain[0].index, last)
            counted.truncate(index)
            plain = [it for it in plain if it.index < index]
            last = index - 1
        last = plain[-1].index if plain else last
        assert near_of(plain) == counted.near_index
        assert sum(ENTRY_BYTES + it.payload_bytes for it in plain) == counted.bytes
