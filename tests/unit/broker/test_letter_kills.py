"""A broker that is killed at each step of a dead letter: the next process writes each letter once (KAFKA-20672)."""

from typing import Final

from tests.unit.broker.broker_world import BrokerWorld, HandClock
from tests.unit.broker.share_member import STATIC, WAIT_MS, ShareMember, configure_group
from tidemill.broker.shares.share_openings import shares_of
from tidemill.model import errors
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.share.record_status import RecordState
from tidemill.share.share import Share

DEAD = "dlq.jobs"
VALUES = [b"a", b"b", b"c"]

Outcome = tuple[list[bytes], int]
"""The letters, and the start of the share."""

NOT_DEAD: Final[Outcome] = ([], 0)
FINISHED: Final[Outcome] = (VALUES, len(VALUES))


def test_a_kill_after_any_step_leaves_one_letter() -> None:
    """
    A consumer rejects three records, and the broker is killed after each step that has changed its disk.  If the
    rejection has reached the disk, the next process writes one letter for each record, without any consumer.  Otherwise
    the records are available, and none has a letter.
    """
    world = BrokerWorld(STATIC)
    world.create("jobs")
    world.create(DEAD, errors_deadletterqueue_group_enable="true")
    configure_group(world, share_auto_offset_reset="earliest", errors_deadletterqueue_topic_name=DEAD)
    consumer = ShareMember(world)
    consumer.join("jobs")
    world.produce("jobs", *VALUES)
    assert VALUES == [it.value for it in consumer.receive(max_wait_ms=WAIT_MS)]
    sent = consumer.client.send(consumer.fetch_request({0: [(0, 2, Acknowledgement.REJECT)]}))

    killed_in: set[str] = set()
    found = NOT_DEAD
    disk_content = b""
    was_answered = False
    while world.step():
        if (answer := consumer.client.answer(*sent)) is not None:
            assert errors.NONE == answer.responses[0].partitions[0].acknowledge_error_code
            was_answered = True
        if disk_content != (disk_content := world.disk.digest()):
            killed_in.add(stage(world))
            before, found = found, outcome(after_kill(world))
            assert found in (before, FINISHED)
        assert found == FINISHED or not was_answered

    assert {"available", "dead", "assigned", "written", "finished"} == killed_in


def share(world: BrokerWorld) -> Share:
    (found,) = shares_of(world.partition("jobs")).by_number.values()
    return found


def stage(world: BrokerWorld) -> str:
    """Return how far the first record that is not finished has got on a broker."""
    state, written = share(world), world.partition(DEAD).high_watermark
    if state.start == len(VALUES):
        return "finished"
    if state.letters:
        return "written" if written > state.start else "assigned"
    return "dead" if state.runs.get(state.start).state == RecordState.ARCHIVING else "available"


def after_kill(world: BrokerWorld) -> BrokerWorld:
    """Return a broker on a copy of the disk, after time to continue with the letters."""
    clock = HandClock()
    clock.now_ms = world.clock.now_ms
    again = BrokerWorld(STATIC, disk=world.disk.after_kill(), clock=clock)
    for _ in range(3):
        again.pass_time(1_000)
    return again


def outcome(world: BrokerWorld) -> Outcome:
    assert {} == share(world).letters
    return sorted(letter.value or b"" for letter in world.read(DEAD)), share(world).start
