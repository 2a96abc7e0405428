"""Share groups on timer topics: time to live, and dead letters that come back."""

from tests.unit.broker.broker_world import BrokerWorld
from tests.unit.broker.letter_cluster import (
    create_dead_letter_topic,
    headers,
    joined,
    letter_cluster,
    letters,
    wait_for,
)
from tests.unit.broker.share_member import STATIC, WAIT_MS, Got, ShareMember, configure_group
from tests.unit.broker.test_redrive import resolve
from tidemill.model import errors
from tidemill.shard.arrivals import timers_of
from tidemill.share.acknowledgement import Acknowledgement

HOUR_MS = 3_600_000
TTL_MS = 60_000
TIMER = (("tidemill-timer-id", b"a"), ("tidemill-delay", b"1h"))


def waited_for(record_ttl: bytes | None, **settings: str) -> tuple[BrokerWorld, ShareMember]:
    """Return a member of a group, and a record of a timer topic that has just been delivered after an hour."""
    world = BrokerWorld(STATIC)
    world.create("jobs", tidemill_kind="timer", tidemill_ttl_headers="true")
    configure_group(world, share_auto_offset_reset="earliest", **settings)
    member = ShareMember(world)
    member.join("jobs")
    own = () if record_ttl is None else (("tidemill-ttl", record_ttl),)
    world.produce("jobs", b"a", headers=(("tidemill-delay", b"1h"), *own))
    world.pass_time(HOUR_MS + 10)
    return world, member


def test_the_time_to_live_of_a_group_counts_from_the_delivery() -> None:
    """
    A record that has waited for longer than it may live is young when it is delivered, and ages from then on.
    """
    _, member = waited_for(None, tidemill_share_ttl_ms=str(TTL_MS))
    world, late = waited_for(None, tidemill_share_ttl_ms=str(TTL_MS))

    world.pass_time(TTL_MS)

    assert [Got(0, b"a", 1)] == member.receive(max_wait_ms=WAIT_MS)
    assert [] == late.receive()


def test_the_time_to_live_of_a_record_counts_from_the_delivery() -> None:
    _, member = waited_for(b"%d" % TTL_MS)
    world, late = waited_for(b"%d" % TTL_MS)

    world.pass_time(TTL_MS)

    assert [Got(0, b"a", 1)] == member.receive(max_wait_ms=WAIT_MS)
    assert [] == late.receive()


def test_a_letter_that_is_sent_back_to_a_timer_topic_is_delivered_at_once() -> None:
    """
    It waits no second time, and does not replace the timer that waits there with its id.
    """
    world = letter_cluster()
    world.create("again", brokers=(1, 2, 3), tidemill_kind="timer")
    create_dead_letter_topic(world)
    member = joined(world)
    world[2].produce("jobs", b"a", headers=(("other", b"1"), *TIMER))
    member.receive(max_wait_ms=WAIT_MS)
    assert errors.NONE == member.acknowledge(0, 0, Acknowledgement.REJECT)
    wait_for(world, 1)
    leader = world[world.led_by("again")]
    assert errors.NONE == leader.produce("again", b"waits", headers=TIMER).error_code

    resolve(world, "__redrive.again", range(1))

    (back,) = wait_for(world, 1, "again")
    found = headers(back)
    assert (b"a", b"1") == (back.value, found["other"])
    assert not found.keys() & {"tidemill-timer-id", "tidemill-delay", "tidemill-deliver-at"}
    assert 1 == timers_of(leader.partition("again")).waiting.count


def test_a_timer_topic_delivers_dead_letters_at_once() -> None:
    world = letter_cluster()
    world.create("dlq.jobs", brokers=(3, 1, 2), tidemill_kind="timer", errors_deadletterqueue_group_enable="true")
    member = joined(world)
    world[2].produce("jobs", b"a", headers=TIMER)
    member.receive(max_wait_ms=WAIT_MS)

    assert errors.NONE == member.acknowledge(0, 0, Acknowledgement.REJECT)

    world.until(lambda: len(letters(world)) == 1, "the letter")
