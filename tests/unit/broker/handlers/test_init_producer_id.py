"""InitProducerId assigns producers the ids by which the broker distinguishes retries from new batches."""

from dataclasses import replace

import pytest

from tests.unit.broker.broker_world import OPTIONS, BrokerWorld
from tidemill.broker.shards.ready_loop import CHECKPOINT_MS
from tidemill.model import errors
from tidemill.storage.partition import producer_states
from tidemill.wire.messages.init_producer_id import Request


def asked(world: BrokerWorld, producer_id: int = -1, epoch: int = -1, name: str | None = None) -> tuple[int, int, int]:
    request = Request(
        transactional_id=name, transaction_timeout_ms=1_000, producer_id=producer_id, producer_epoch=epoch
    )
    answer = world.ask(request)
    return answer.error_code, answer.producer_id, answer.producer_epoch


def test_no_two_producers_get_the_same_id() -> None:
    """
    Producer ids are unique, even if the broker is killed between two requests.
    """
    world = BrokerWorld()
    given = [asked(world) for _ in range(3)]

    given += [asked(world.restarted())]

    assert [(errors.NONE, 0)] * 4 == [(code, epoch) for code, _, epoch in given]
    assert 4 == len({producer_id for _, producer_id, _ in given})


def test_a_producer_with_an_id_gets_its_next_epoch() -> None:
    """
    KIP-360: a producer gets a new id only when it has used up the epochs of its current one.
    """
    world = BrokerWorld()

    bumped, worn_out = asked(world, 7, 3), asked(world, 7, 32_766)

    assert (errors.NONE, 7, 4) == bumped
    assert (errors.NONE, 0) == (worn_out[0], worn_out[2]) and worn_out[1] != 7


def test_a_transactional_producer_is_refused() -> None:
    """
    A transactional producer gets an error that clients do not retry, because transactions are not implemented.
    """
    world = BrokerWorld()

    answered = asked(world, name="ledger")

    assert (errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, -1) == answered


def test_a_retried_batch_gets_its_first_offset() -> None:
    """
    A retry is recognized even after a kill.  A batch that leaves a gap in the sequence is refused.
    """
    world = BrokerWorld()
    world.create("flights")
    _, producer_id, epoch = asked(world)
    identity = {"producer_id": producer_id, "producer_epoch": epoch}
    first = world.produce("flights", b"a", b"b", **identity, base_sequence=0)

    again = world.restarted()
    repeated = again.produce("flights", b"a", b"b", **identity, base_sequence=0)
    gap = again.produce("flights", b"d", **identity, base_sequence=3)

    assert [(errors.NONE, 0), (errors.NONE, 0)] == [(it.error_code, it.base_offset) for it in (first, repeated)]
    assert (errors.OUT_OF_ORDER_SEQUENCE_NUMBER, 2) == (gap.error_code, again.partition("flights").high_watermark)


def test_the_state_of_a_silent_producer_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The state expires at a checkpoint, once producer.id.expiration.ms have passed since the last batch, measured by
    append times.
    """
    monkeypatch.setattr(producer_states, "PRODUCERS_KEPT", 0)
    world = BrokerWorld(options=replace(OPTIONS, producer_expiration_ms=60_000))
    world.create("flights")
    _, producer_id, epoch = asked(world)
    identity = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": 0}
    offsets = []

    for silence_ms in (0, 50_000, 20_000):
        world.pass_time(silence_ms)
        world.produce("flights", b"of nobody")
        world.pass_time(CHECKPOINT_MS)
        offsets.append(world.produce("flights", b"a", **identity).base_offset)

    assert [1, 1, 4] == offsets


def test_a_clock_jump_does_not_make_a_retry_a_new_record() -> None:
    """
    A retry gets the offset of the original batch, even if a checkpoint was taken in between and, according to the
    append times, more than a day has passed.
    """
    world = BrokerWorld()
    world.create("flights")
    _, producer_id, epoch = asked(world)
    identity = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": 0}
    offsets = [world.produce("flights", b"a", **identity).base_offset]

    world.clock.wrong_ms = 25 * 3_600_000
    offsets.append(world.produce("flights", b"of nobody").base_offset)
    world.pass_time(CHECKPOINT_MS)
    offsets.append(world.produce("flights", b"a", **identity).base_offset)

    assert [0, 1, 0] == offsets
