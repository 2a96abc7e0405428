"""Read index rounds: at most one is in flight, and a reader wakes after a round that began after its request."""

from typing import Any

from tidemill.shard.read_index import ReadIndex


class StubReplica:
    """A replica that only counts the rounds; the test confirms them."""

    def __init__(self) -> None:
        self.begun = self.read_index_round = 0

    def request_read_index(self) -> int:
        self.begun += 1
        return self.begun


def opened() -> tuple[ReadIndex, Any, list[tuple[str, bool]]]:
    replica: Any = StubReplica()
    return ReadIndex(replica, lambda: None), replica, []


def test_readers_that_come_during_a_round_share_the_next_one() -> None:
    """
    Readers that come during a round wait for the next one: voters may have answered the round in flight before these
    readers asked.
    """
    reads, replica, heard = opened()
    for name in ("first", "second", "third"):
        reads.wait(lambda leads, name=name: heard.append((name, leads)))  # type: ignore[misc]

    reads.wake()
    unconfirmed = [*heard]
    replica.read_index_round = 1
    reads.wake()
    after_one = [*heard]
    replica.read_index_round = 2
    reads.wake()

    assert ([], [("first", True)]) == (unconfirmed, after_one)
    assert [("first", True), ("second", True), ("third", True)] == heard
    assert 2 == replica.begun


def test_lost_leadership_fails_the_readers_of_both_rounds() -> None:
    """If leadership is lost, the readers of both rounds fail, because this replica must not answer them."""
    reads, _, heard = opened()
    for name in ("first", "second"):
        reads.wait(lambda leads, name=name: heard.append((name, leads)))  # type: ignore[misc]

    reads.fail()

    assert [("first", False), ("second", False)] == heard
    assert not reads.waiting
