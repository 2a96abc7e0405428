"""Groups that send dead letters back to the topics from which they came."""

import pytest

from tests.unit.broker.cluster_world import ClusterWorld
from tests.unit.broker.handlers.test_delete_records import deleted
from tests.unit.broker.letter_cluster import (
    DEAD,
    configure,
    create_dead_letter_topic,
    headers,
    kill_records,
    letter_cluster,
    letters,
    values,
    wait_for,
)
from tidemill.batches.records import OPENED_HEADERS_MAX
from tidemill.broker.shares.led_share import ShareKey
from tidemill.broker.shares.letter_reader import ADDED_HEADERS_MAX
from tidemill.broker.shares.share_openings import shares_of
from tidemill.model import dead_letters as names
from tidemill.model import errors
from tidemill.share.interval_map import Interval
from tidemill.share.record_status import Reason, RecordState, RecordStatus


@pytest.fixture
def world() -> ClusterWorld:
    """A cluster whose broker 1 coordinates the share group `g`, and whose broker 2 leads the topic `jobs`."""
    return letter_cluster()


def resolve(world: ClusterWorld, group: str, offsets: range) -> None:
    """Reject records of the dead-letter topic in a redrive group, as an operator does."""
    host = world[3].broker.shares
    partition = world[3].partition(DEAD)
    key = ShareKey(group, world[3].broker.image.topics[DEAD].topic_id, 0)
    host.share(key, partition, may_create=True)
    world.until(lambda: host.share(key, partition) is not None, "the share is open")
    opened = host.share(key, partition)
    assert opened is not None
    status = RecordStatus(RecordState.ARCHIVING, 0, reason=Reason.REJECTED)
    host.decide(opened, [Interval(offsets.start, offsets.stop, status)])


def test_a_redrive_sends_records_back(world: ClusterWorld) -> None:
    """
    The record goes to the topic and partition from which it came, without the headers of the dead letter, and with the
    number of redrives.  What was sent back is not sent again.
    """
    create_dead_letter_topic(world)
    kill_records(world, [b"a", b"b"])
    wait_for(world, 2)
    resolve(world, "__redrive", range(1))

    found = wait_for(world, 3, "jobs")
    assert [b"a", b"b", b"a"] == values(found)
    assert {names.REDRIVE_COUNT: b"1"} == headers(found[2])
    resolve(world, "__redrive", range(2))
    assert [b"a", b"b", b"a", b"b"] == values(wait_for(world, 4, "jobs"))


def test_a_letter_of_a_record_with_many_headers_is_sent_back(world: ClusterWorld) -> None:
    """It has a few headers more than its record may have."""
    create_dead_letter_topic(world)
    kill_records(world, [b"a"], headers=[("", None)] * OPENED_HEADERS_MAX)
    wait_for(world, 1)
    resolve(world, "__redrive", range(1))

    found = wait_for(world, 2, "jobs")
    assert (b"a", OPENED_HEADERS_MAX + 1) == (found[1].value, len(found[1].headers))


def test_a_letter_with_countless_headers_is_not_sent_back(world: ClusterWorld) -> None:
    """Other programs may write to the topic of dead letters.  Those behind it are sent back."""
    create_dead_letter_topic(world)
    world.until(lambda: world.led_by(DEAD) != 0, "the topic is led")
    node = world[world.led_by(DEAD)]
    node.produce(DEAD, b"x", headers=[("", None)] * (OPENED_HEADERS_MAX + ADDED_HEADERS_MAX + 1))
    node.produce(DEAD, b"y", headers=[(names.TOPIC, b"jobs"), (names.PARTITION, b"0")])
    resolve(world, "__redrive", range(2))

    assert [b"y"] == values(wait_for(world, 1, "jobs"))
    assert 1 == world[3].broker.metrics.letters_dropped


def test_a_redrive_to_another_topic(world: ClusterWorld) -> None:
    create_dead_letter_topic(world)
    world.create("again", brokers=(1, 2, 3))
    kill_records(world, [b"a"])
    wait_for(world, 1)
    resolve(world, "__redrive.again", range(1))

    assert [b"a"] == values(wait_for(world, 1, "again"))


def test_a_redrive_to_an_unknown_topic_waits(world: ClusterWorld) -> None:
    """Records with other origins are sent back meanwhile."""
    create_dead_letter_topic(world)
    kill_records(world, [b"a"])
    wait_for(world, 1)
    world[3].produce(DEAD, b"without headers")
    world.until(lambda: len(letters(world)) == 2, "both")
    resolve(world, "__redrive", range(2))
    world.pass_time(3_000)

    assert [b"a", b"a"] == values(letters(world, "jobs"))
    (waiting,) = [it for it in world[3].broker.shares.led_shares if it.key.group == "__redrive"]
    assert "record 1 has no header that names its topic" in str(waiting.letter_problem)
    assert 1 == waiting.share.start


def test_a_letter_without_content_is_not_sent_back(world: ClusterWorld) -> None:
    configure(world, errors_deadletterqueue_copy_record_enable="false")
    create_dead_letter_topic(world)
    world.create("again", brokers=(1, 2, 3))
    kill_records(world, [b"a"])
    wait_for(world, 1)
    resolve(world, "__redrive.again", range(1))
    world.pass_time(3_000)

    assert [] == letters(world, "again")
    (waiting,) = [it for it in world[3].broker.shares.led_shares if it.key.group == "__redrive.again"]
    assert "letter 0 does not have the content of its record" in str(waiting.letter_problem)


def test_a_letter_that_is_removed_before_it_was_sent_back_is_reported(world: ClusterWorld) -> None:
    """Its target does not exist, and retention removes it meanwhile."""
    create_dead_letter_topic(world)
    kill_records(world, [b"a"])
    wait_for(world, 1)
    resolve(world, "__redrive.nowhere", range(1))
    world.stabilize()

    assert (errors.NONE, 1) == deleted(world[3], 1, DEAD)

    (line,) = [line for line in world[3].events if "records removed unread" in line]
    assert "group=__redrive.nowhere" in line and "records=0 letters=1 " in line


def test_retention_may_remove_letters_that_were_not_sent_back(world: ClusterWorld) -> None:
    """The loss of such letters is no loss of records that a group has yet to read, and causes no warning."""
    create_dead_letter_topic(world)
    kill_records(world, [b"a", b"b"])
    wait_for(world, 2)
    resolve(world, "__redrive", range(1))
    wait_for(world, 3, "jobs")

    assert (errors.NONE, 2) == deleted(world[3], 2, DEAD)

    (share,) = shares_of(world[3].partition(DEAD)).by_number.values()
    assert (2, 1) == (share.start, share.expired_unread)
    assert not [line for line in world[3].events if "records removed unread" in line]
