"""Tests of users move the clock of their brokers forward, and do not wait for an hour."""

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, Message, Producer

from tidemill.testing.broker import Broker
from tidemill.testing.cluster import Cluster
from tidemill.testing.served import Served

TIMER = {"tidemill.kind": "timer"}
AT_ONCE_S = 5.0  # milliseconds, on a machine that neither is busy nor stalls


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with closing(Broker(tmp_path_factory.mktemp("broker"), {})) as broker:
        yield broker


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with closing(Cluster(tmp_path_factory.mktemp("cluster"), {})) as cluster:
        yield cluster


class Reminders:
    """A timer topic with a producer and a consumer."""

    def __init__(self, served: Served) -> None:
        self.topic = served.topic(configs=TIMER)
        self.producer = Producer({"bootstrap.servers": served.bootstrap, "enable.idempotence": True})
        self._consumer = Consumer(
            {"bootstrap.servers": served.bootstrap, "group.id": served.group(), "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe([self.topic])

    def send(self, value: bytes, name: str, when: str) -> None:
        self.producer.produce(self.topic, value, headers={name: when})
        assert 0 == self.producer.flush(30), "the record was not written"

    def wait(self, seconds: float = 30) -> Message | None:
        """Return the next record; None if there is none within `seconds`."""
        found = self._consumer.consume(1, seconds)
        return found[0] if found else None

    def close(self) -> None:
        self._consumer.close()


def value_of(message: Message | None) -> bytes | None:
    return None if message is None else message.value()


def test_an_hour_passes_at_once(broker: Broker) -> None:
    """
    A record that is due in an hour is delivered when the clock has moved that far, and not before.
    """
    with closing(Reminders(broker)) as reminders:
        reminders.send(b"hello", "tidemill-delay", "1h")
        assert reminders.wait(0.5) is None
        broker.advance("59m")
        assert reminders.wait(0.5) is None
        before = broker.now()

        broker.advance(timedelta(minutes=1))
        message = reminders.wait(AT_ONCE_S)

        assert message is not None and b"hello" == message.value()
        kind, at_ms = message.timestamp()
        assert TIMESTAMP_LOG_APPEND_TIME == kind
        moved = timedelta(milliseconds=at_ms) - (before - datetime.fromtimestamp(0, before.tzinfo))
        assert timedelta(seconds=59) < moved < timedelta(seconds=90), "stamped by another clock than `now`"


def test_a_time_is_one_of_the_clock_that_was_moved(broker: Broker) -> None:
    """
    A record for a time that `now` has not reached waits, although the clock was moved before.
    """
    broker.advance("1d")
    with closing(Reminders(broker)) as reminders:
        at = broker.now() + timedelta(minutes=2)
        reminders.send(b"hello", "tidemill-deliver-at", at.isoformat())
        assert reminders.wait(0.5) is None

        broker.advance(120.0)

        assert b"hello" == value_of(reminders.wait(AT_ONCE_S))


def test_clients_stay_connected_for_days(broker: Broker) -> None:
    """
    Members stay in their groups, and idempotent producers go on, when the clock moves by more than their time-outs.
    """
    with closing(Reminders(broker)) as reminders:
        reminders.send(b"1", "tidemill-delay", "0ms")
        assert b"1" == value_of(reminders.wait())

        broker.advance(timedelta(days=400))
        reminders.send(b"2", "tidemill-delay", "0ms")

        assert b"2" == value_of(reminders.wait(AT_ONCE_S))


def test_a_retry_of_a_queue_comes_at_once(broker: Broker) -> None:
    """
    A message that a consumer has put off for an hour is delivered again when the clock has moved that far.
    """
    topic, group = broker.topic(), broker.group()
    with broker.connect() as mill, mill.queue(topic, group, idle="30s") as queue:
        queue.receive(wait=0)  # the group begins here
        mill.send(topic, "hello")
        next(queue).nack(delay="1h")
        assert queue.receive(wait=0.5) == []

        broker.advance("1h")

        again = next(queue)
        again.ack()
        assert ("hello", 2) == (again.text(), again.attempt)


@pytest.mark.parametrize("duration", [-1, "-1h", timedelta(seconds=-1), "soon", "101y", timedelta(days=36_501)])
def test_a_clock_goes_only_forward(broker: Broker, duration: object) -> None:
    before = broker.now()
    with pytest.raises(ValueError, match="duration="):
        broker.advance(duration)  # type: ignore[arg-type]

    assert timedelta(0) <= broker.now() - before < timedelta(seconds=30)


def test_the_clocks_of_a_cluster_move_together(cluster: Cluster) -> None:
    """
    A delay counts from the new time as soon as `advance` has returned.  If a leader did not know the time of the other
    brokers by then, it would stamp records with the old time, and an hour later they would be due at once.
    """
    with closing(Reminders(cluster)) as reminders:
        for number in range(3):
            cluster.advance("1h")
            reminders.send(b"%d" % number, "tidemill-delay", "1h")
        cluster.advance("59m")
        assert [b"0", b"1"] == [value_of(reminders.wait()) for _ in range(2)]
        assert reminders.wait(0.5) is None

        cluster.advance("1m")

        assert b"2" == value_of(reminders.wait(AT_ONCE_S))


def test_a_broker_that_was_down_has_the_time_of_the_others(cluster: Cluster) -> None:
    """
    The clock moves while a broker is down, and after its restart no record comes early or late because of it.
    """
    with closing(Reminders(cluster)) as reminders:
        reminders.send(b"1", "tidemill-delay", "1h")
        cluster.kill(1)
        cluster.advance("59m")
        cluster.restart(1)
        cluster.stop(2)  # now the time of broker 1 decides: of two clocks, the one that is behind counts
        assert reminders.wait(0.5) is None

        cluster.advance("1m")

        assert b"1" == value_of(reminders.wait())
    cluster.restore()
