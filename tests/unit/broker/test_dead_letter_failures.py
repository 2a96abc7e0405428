"""Dead letters whose leader, target or record fails: each is written once, or kept until it can be written."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from tests.unit.broker.cluster_world import ClusterWorld, Node
from tests.unit.broker.letter_cluster import (
    DEAD,
    create_dead_letter_topic,
    headers,
    kill_records,
    led,
    letter_cluster,
    letters,
    share,
    values,
    wait_for,
)
from tests.unit.broker.share_member import WAIT_MS
from tidemill.metadata.topics import DeleteTopics
from tidemill.model import dead_letters as names
from tidemill.model import errors
from tidemill.peer import share_letter
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.share.share_row import Letter


@pytest.fixture
def world() -> ClusterWorld:
    """A cluster whose broker 1 coordinates the share group `g`, and whose broker 2 leads the topic `jobs`."""
    return letter_cluster()


@contextmanager
def unsent_letters(world: ClusterWorld) -> Iterator[list[share_letter.Request]]:
    """Lose the letters that broker 2 sends to other brokers.  Yield them."""
    sent: list[share_letter.Request] = []
    peers = world[2].broker.cluster.peers
    ask = peers.ask

    def losing(voter: Any, api: Any, request: Any, *args: Any, **kwargs: Any) -> bool:
        if api is not share_letter.API:
            return ask(voter, api, request, *args, **kwargs)
        sent.append(request)
        return True

    with patch.object(peers, "ask", losing):
        yield sent


def assign_letters(world: ClusterWorld, values_: Sequence[bytes] = (b"a", b"b", b"c")) -> list[Letter]:
    """Let broker 2 assign letters, which it loses, and return them.  Broker 1 then leads."""
    create_dead_letter_topic(world)
    with unsent_letters(world):
        kill_records(world, values_)
        world.until(lambda: len(share(world[2]).letters) == min(len(values_), 4), "letters are assigned")
        assigned = [*share(world[2]).letters.values()]
        world.lead("jobs", by=1)
    return assigned


def test_the_next_leader_sends_the_letters_with_the_same_ids(world: ClusterWorld) -> None:
    """
    The letters of the old leader may be written.  The next leader sends them again with their own producer ids and
    sequences, so that they are duplicates, and uses an id of its own for further ones.
    """
    producer_ids = {letter.producer_id for letter in assign_letters(world, [bytes([number]) for number in range(6)])}

    assert [bytes([number]) for number in range(6)] == sorted(values(wait_for(world, 6)))
    producers = world[3].partition(DEAD).log.producers.newest()
    assert 1 == len(producer_ids) < len(producers)
    assert producer_ids < {*producers}
    assert 6 == share(world[1]).start


def test_a_new_leader_continues_without_consumers(world: ClusterWorld) -> None:
    """
    The records have no letters yet, because their topic is missing, and no consumer fetches from the next leader
    (KAFKA-20672).
    """
    member = kill_records(world, [b"a", b"b"])
    member.disconnect()
    world.pass_time(1_000)
    assert {} == share(world[2]).letters
    world.lead("jobs", by=1)

    create_dead_letter_topic(world)

    assert [b"a", b"b"] == values(wait_for(world, 2))
    assert 2 == share(world[1]).start


@pytest.mark.parametrize("answers", range(4))
def test_a_leader_that_fails_after_a_letter_is_written_writes_it_once(world: ClusterWorld, answers: int) -> None:
    """The letters are written, but `answers` of the answers, and what follows from them, arrive at the old leader."""
    create_dead_letter_topic(world)
    arrived = 0
    answered = type(world[2].broker.shares.letters)._answered

    def lossy(self: Any, it: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal arrived
        if self is world[2].broker.shares.letters:
            arrived += 1
            if arrived > answers:
                return
        answered(self, it, *args, **kwargs)

    with patch.object(type(world[2].broker.shares.letters), "_answered", lossy):
        kill_records(world, [b"a", b"b", b"c"])
        world.until(lambda: len(letters(world)) > min(answers, 2), "letters are written")
        world.pass_time(500)
        world.lead("jobs", by=1)
        assert [b"a", b"b", b"c"] == sorted(values(wait_for(world, 3)))
    assert 3 == share(world[1]).start


def test_the_first_letter_of_a_producer_id_goes_alone(world: ClusterWorld) -> None:
    """
    A target accepts any first sequence.  If the second letter overtook the first one, the first one could never be
    written.
    """
    create_dead_letter_topic(world)
    with unsent_letters(world) as sent:
        kill_records(world, [b"a", b"b", b"c"])
        world.pass_time(3_000)

    assert 3 == len(share(world[2]).letters)
    assert 1 == len(sent)


def test_at_most_four_letters_wait_for_an_answer(world: ClusterWorld) -> None:
    """The target remembers the last five batches of a producer, so it would not recognize an older duplicate."""
    create_dead_letter_topic(world)
    member = kill_records(world, [b"first"])
    wait_for(world, 1)
    with unsent_letters(world) as sent:
        world[2].produce("jobs", *[bytes([number]) for number in range(9)])
        got = member.receive(max_wait_ms=WAIT_MS)
        assert errors.NONE == member.acknowledge(got[0].offset, got[-1].offset, Acknowledgement.REJECT)
        world.pass_time(3_000)

    assert 4 == len(sent) == len(share(world[2]).letters)


def test_a_leaderless_target_holds_the_letters(world: ClusterWorld) -> None:
    """The letters are sent again, with a back-off, until the target has a leader."""
    world.create(DEAD, brokers=(3,), errors_deadletterqueue_group_enable="true")
    world.cut_off(3)
    kill_records(world, [b"a", b"b"])
    world.pass_time(8_000)
    problem = led(world[2]).letter_problem
    assert problem is not None and problem.startswith(f"{DEAD}-0: "), problem

    world.heal()
    world.pass_time(30_000)
    assert [b"a", b"b"] == values(wait_for(world, 2))


def test_a_full_disk_holds_the_letters(world: ClusterWorld) -> None:
    create_dead_letter_topic(world)
    with patch.object(world[3].broker, "storage_problem", lambda: "the disk is full"):
        kill_records(world, [b"a", b"b"])
        world.pass_time(8_000)
        assert led(world[2]).letter_problem == f"{DEAD}-0: KAFKA_STORAGE_ERROR: the disk is full"

    world.pass_time(30_000)
    assert [b"a", b"b"] == values(wait_for(world, 2))


def test_letters_to_a_topic_that_is_created_anew_get_another_id(world: ClusterWorld) -> None:
    """
    A letter that was written to the deleted topic is gone with it.  The letters are assigned to the new topic.
    """
    create_dead_letter_topic(world)
    with unsent_letters(world):
        kill_records(world, [b"a", b"b", b"c"])
        world.pass_time(1_000)
        old = {(letter.producer_id, letter.topic_id) for letter in share(world[2]).letters.values()}
        world.controller.broker.controller.submit(DeleteTopics(topics=(DEAD,)))
        world.lead("jobs", by=1)
    world.pass_time(3_000)
    create_dead_letter_topic(world)

    assert [b"a", b"b", b"c"] == values(wait_for(world, 3))
    ((producer_id, topic_id),) = old
    assert topic_id != world[1].broker.image.topics[DEAD].topic_id
    assert producer_id not in world[3].partition(DEAD).log.producers


def test_a_target_that_has_lost_a_letter_gets_the_rest_with_another_id(world: ClusterWorld) -> None:
    """
    The target refuses the next sequence of a producer whose last batch it lacks.  Without a new id, it would refuse the
    letters for ever.
    """
    create_dead_letter_topic(world)
    member = kill_records(world, [b"a"])
    wait_for(world, 1)
    (window,) = world[3].partition(DEAD).log.producers._producers.values()
    window[-1] = window[-1]._replace(first_sequence=7, last_sequence=7)
    world[2].produce("jobs", b"b", b"c")
    got = member.receive(max_wait_ms=WAIT_MS)

    assert errors.NONE == member.acknowledge(got[0].offset, got[-1].offset, Acknowledgement.REJECT)
    assert [b"a", b"b", b"c"] == values(wait_for(world, 3))
    assert 2 == len(world[3].partition(DEAD).log.producers)


def move_log_start(world: ClusterWorld, node: Node, offset: int) -> None:
    partition = node.partition("jobs")
    partition.shard.move_log_start(0, offset, world.clock.now_ms)
    world.until(lambda: partition.log.log_start == offset, "retention has removed the records")


def test_an_assigned_letter_is_written_after_retention_has_removed_its_record(world: ClusterWorld) -> None:
    """
    It may have been written before, so only a letter with the same id and sequence cannot be a second one.  Why the
    record is dead is not known any more.
    """
    create_dead_letter_topic(world)
    with unsent_letters(world):
        kill_records(world, [b"a", b"b"])
        world.pass_time(1_000)
        move_log_start(world, world[2], 2)
        assert (2, 2) == (share(world[2]).start, len(share(world[2]).letters))
        world.lead("jobs", by=1)

    found = wait_for(world, 2)
    assert {b"0", b"1"} == {headers(letter)[names.OFFSET] for letter in found}
    assert not any(names.MESSAGE in headers(letter) for letter in found)
    assert {} == share(world[1]).letters


def test_dead_records_that_retention_removes_are_counted_as_lost(world: ClusterWorld) -> None:
    kill_records(world, [b"a", b"b"])
    world.pass_time(1_000)
    move_log_start(world, world[2], 2)

    assert 2 == world[2].broker.metrics.letters_lost
    assert any("records removed unread" in line and "letters=2" in line for line in world[2].events)
