"""SentCopies: when each copy may send its next bytes."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.rebalance.sent_copies import BURST_MS, IDLE_MS, SHARE_MS, Copy, SentCopies

MIB = 1 << 20
STEP_MS = 10


def copy_of(shard: int, to: int = 9) -> Copy:
    return Copy(ShardId(shard), ReplicaKey(BrokerId(to), DirectoryId(bytes([to]) * 16)))


class Sender:
    """A broker that sends each copy as fast as it may."""

    def __init__(self, limit: int, now_ms: int = 0) -> None:
        self.copies = SentCopies()
        self.limit = limit
        self.now_ms = now_ms
        self.sent: dict[Copy, int] = {}

    def run(self, copies: Sequence[Copy], for_ms: int, size: int, written: int = 0) -> None:
        """Let `copies` send messages of `size` bytes; each of their shards is written `written` bytes a second."""
        for _ in range(for_ms // STEP_MS):
            self.now_ms += STEP_MS
            if self.copies.is_share_due(self.now_ms):
                self.copies.share(self.limit, self.now_ms)
            for copy in copies:
                while not self.copies.wait_ms(copy, self.now_ms):
                    self.copies.sent(copy, size, self.now_ms)
                    self.sent[copy] = self.sent.get(copy, 0) + size
            for shard_id in {copy.shard_id: None for copy in copies}:
                self.copies.written(shard_id, written * STEP_MS // 1_000)


@given(
    limit=st.integers(100_000, 1 << 30),
    count=st.integers(1, 8),
    messages_per_s=st.integers(8, 200),
    for_s=st.integers(10, 20),
)
@settings(max_examples=30)
def test_all_copies_together_take_the_limit(limit: int, count: int, messages_per_s: int, for_s: int) -> None:
    """
    What is sent is never above the limit by more than the bursts with which copies begin (the first one alone, the next
    one with half of the limit, and so on) and one message per copy.  It is never below it by more than two steps.
    """
    size = limit // messages_per_s
    sender = Sender(limit)
    copies = [copy_of(number) for number in range(count)]

    sender.run(copies, for_s * 1_000, size)

    sent = sum(sender.sent.values())
    assert sent == sender.copies.sent_bytes
    bursts = sum(limit * BURST_MS // 1_000 // number for number in range(1, count + 1))
    assert sent <= limit * for_s + bursts + count * size + count
    assert sent >= limit * for_s - limit * STEP_MS * 2 // 1_000 - count


@given(limit=st.integers(1, MIB), written=st.integers(MIB, 100 * MIB), size=st.integers(100_000, MIB))
@settings(max_examples=30)
def test_a_copy_gets_twice_what_is_written_to_its_shard(limit: int, written: int, size: int) -> None:
    """However low the limit is, a copy ends.  The rate is known after a second."""
    sender = Sender(limit)
    copy = copy_of(1)
    sender.run([copy], 3 * SHARE_MS, size, written)
    before = sender.sent[copy]

    sender.run([copy], 10_000, size, written)

    assert sender.sent[copy] - before >= 2 * written * 10 * 98 // 100 - size


def test_a_message_that_is_larger_than_the_rate_is_paid_back() -> None:
    """It may leave at once, and the next one waits for as long as it takes."""
    copies = SentCopies()
    copies.share(MIB, 5)
    assert 0 == copies.wait_ms(copy_of(1), 5)

    copies.sent(copy_of(1), 4 * MIB, 5)

    paid_ms = 5 + 4_000 - BURST_MS
    assert [1, 0] == [copies.wait_ms(copy_of(1), at_ms) for at_ms in (paid_ms - 1, paid_ms)]


def test_a_raised_limit_counts_from_the_next_share() -> None:
    """What is owed is paid back at the new rate."""
    copies = SentCopies()
    copies.share(1_000, 0)
    copies.sent(copy_of(1), 100_000, 0)

    copies.share(100_000, SHARE_MS)

    assert 990 - BURST_MS // 100 == copies.wait_ms(copy_of(1), SHARE_MS)


def test_the_share_of_a_copy_that_has_ended_goes_to_the_others() -> None:
    """Two copies get half of the limit each; when one has had nothing to send for a while, the other gets all."""
    sender = Sender(10 * MIB)
    left, right = copy_of(1), copy_of(2)
    sender.run([left, right], 10_000, 50_000)
    half = sender.sent[left]
    sender.run([left], IDLE_MS + SHARE_MS, 50_000)
    before = sender.sent[left]

    sender.run([left], 10_000, 50_000)

    assert 0.98 < half / (50 * MIB) < 1.02
    assert 0.98 < (sender.sent[left] - before) / (100 * MIB) < 1.02


def test_the_share_of_a_copy_that_is_said_to_have_ended_is_free_at_once() -> None:
    """The others do not wait until it has been idle for long."""
    sender = Sender(10 * MIB)
    left, right = copy_of(1), copy_of(2)
    sender.run([left, right], 10_000, 50_000)

    sender.copies.end(right)
    sender.run([left], SHARE_MS + STEP_MS, 50_000)
    before = sender.sent[left]
    sender.run([left], 1_000, 50_000)

    assert 0.98 < (sender.sent[left] - before) / (10 * MIB) < 1.02


def test_what_an_ended_copy_owes_is_paid_before_its_share_is_free() -> None:
    """Otherwise the end of each copy would take the sender above its limit by a message."""
    sender = Sender(MIB)
    left, right = copy_of(1), copy_of(2)
    sender.run([left, right], 3_000, 10_000)
    sender.copies.sent(right, 4 * MIB, sender.now_ms)  # 8 s at half of the limit
    sender.copies.end(right)
    before = sender.sent[left]

    sender.run([left], 7_000, 10_000)
    while_owed = sender.sent[left] - before
    sender.run([left], 3_000, 10_000)

    assert 0.98 < while_owed / (3.5 * MIB) < 1.02
    assert (sender.sent[left] - before) / MIB > 5


def test_an_ended_copy_that_sends_again_goes_on() -> None:
    """Its learner was removed, and came back."""
    copies = SentCopies()
    copies.share(MIB, 0)
    copies.sent(copy_of(1), 4 * MIB, 0)

    ended = []
    for send_again in (lambda: copies.sent(copy_of(1), 1, 0), lambda: copies.wait_ms(copy_of(1), 0)):
        copies.end(copy_of(1))
        ended.append(copies.has_ended(copy_of(1)))
        send_again()
        ended.append(copies.has_ended(copy_of(1)))

    assert [True, False, True, False] == ended


def test_two_copies_of_one_shard_have_a_share_each() -> None:
    """Each must catch up with the shard."""
    sender = Sender(1)
    copies = [copy_of(1, to=8), copy_of(1, to=9)]

    sender.run(copies, 12_000, 50_000, written=MIB)

    assert all(sender.sent[copy] >= 20 * MIB for copy in copies)


def test_a_copy_that_waits_long_is_not_forgotten() -> None:
    """If it were, its next message would not pay for the last one."""
    copies = SentCopies()
    copies.share(1_000, 0)
    copies.sent(copy_of(1), 60_000, 0)

    waits = []
    for now_ms in range(SHARE_MS, 60_000, SHARE_MS):
        copies.share(1_000, now_ms)
        waits.append(copies.wait_ms(copy_of(1), now_ms) + now_ms)

    assert {60_000 - BURST_MS} == {*waits}


def test_ingest_is_counted_only_while_a_copy_is_sent() -> None:
    """Shards at rest cost nothing, neither time nor memory."""
    copies = SentCopies()
    copies.share(MIB, 0)
    assert not copies.is_sent(ShardId(1))

    copies.sent(copy_of(1), 10, 0)
    is_sent = copies.is_sent(ShardId(1))
    copies.share(MIB, IDLE_MS)

    assert is_sent
    assert not copies.is_sent(ShardId(1))
