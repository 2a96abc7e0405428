"""How a producer of lines looks up its topic, and batches schedules."""

import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.unit.client.fake_cluster import FakeCluster
from tidemill.batches.records import read_records
from tidemill.cli import line_producer
from tidemill.cli.failure import ExitCode, Failed
from tidemill.cli.line_producer import LOOKUP_PAUSE_S, LineProducer
from tidemill.client import port_probe
from tidemill.client.port_probe import PortProtocol
from tidemill.timer.schedule import BATCH_SCHEDULES_MAX
from tidemill.wire.schema import Message


class SilentAdmin:
    """A stand-in for confluent-kafka's admin client: every request times out immediately, and `timeouts_s` collects the
    timeouts that were given.
    """

    timeouts_s: list[float]

    def __init__(self, _: Any) -> None: ...

    def describe_topics(self, _: Any, *, request_timeout: float) -> "dict[str, Future[Any]]":
        self.timeouts_s.append(request_timeout)
        future: Future[Any] = Future()
        future.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return {"orders": future}


def test_the_timeout_bounds_the_look_up_of_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    If brokers accept connections but never respond, `--timeout` ends the command before any record is sent.
    """
    waits_s: list[float] = []

    def probe(host: str, port: int, timeout_s: float) -> PortProtocol:
        waits_s.append(timeout_s)
        return PortProtocol.UNKNOWN

    monkeypatch.setattr(port_probe, "probe", probe)
    monkeypatch.setattr(SilentAdmin, "timeouts_s", waits_s, raising=False)
    monkeypatch.setattr("tidemill.cli.topic_admin.AdminClient", SilentAdmin)

    with pytest.raises(Failed, match="'orders': no response in time") as raised:
        LineProducer("h:1", "orders", timeout_s=0.5)

    assert ExitCode.NO_BROKER is raised.value.exit_code
    assert 2 == len(waits_s) and max(waits_s) <= 0.5


def producer_for(cluster: FakeCluster) -> LineProducer:
    return LineProducer(",".join(f"{host}:{port}" for host, port in cluster.settings().bootstrap), "t")


def test_a_batch_has_no_more_schedules_than_a_timer_topic_accepts() -> None:
    """
    Records without a schedule need no bound.  The order of the lines is kept.
    """
    plain, schedules = BATCH_SCHEDULES_MAX + 100, 2 * BATCH_SCHEDULES_MAX + 100

    def hook(_: int, name: str, __: Message) -> None:
        if name == "init_producer_id":
            time.sleep(0.5)  # lines that are sent meanwhile are batched together

    with FakeCluster() as cluster:
        cluster.hook = hook
        producer = producer_for(cluster)
        for number in range(plain + schedules):
            headers = [("tidemill-timer-id", b"%d" % number), ("tidemill-schedule", b"every 1h")]
            producer.send({"value": b"%d" % number, "headers": headers if number >= plain else []}, number)
        producer.flush()

    batches = [read_records(batch) for batch in cluster.partition.batches]
    assert [b"%d" % number for number in range(plain + schedules)] == [it.value for batch in batches for it in batch]
    assert plain == len(batches[0])
    assert BATCH_SCHEDULES_MAX == max(len(batch) for batch in batches[1:])
    assert plain + schedules == producer.produced_count


def test_a_look_up_of_the_kind_without_an_answer_is_repeated_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Not for each bad record: a look-up may take seconds.  An answer is kept.
    """
    refused, looked_up = [], []
    now_s = 1_000.0
    monkeypatch.setattr(line_producer, "time", SimpleNamespace(time=time.time, monotonic=lambda: now_s))
    with FakeCluster() as cluster:
        cluster.topics["t"].kind, cluster.message_bytes_max = "timer", None
        producer = producer_for(cluster)

        def send_two() -> None:
            for _ in range(2):
                producer.send({"value": b"v", "headers": [("tidemill-delay", b"soon")]}, 1)
            refused.append(producer.refused_count)
            looked_up.append(cluster.count("describe_configs"))

        send_two()
        cluster.message_bytes_max = 1_000
        send_two()
        for _ in range(2):
            now_s += LOOKUP_PAUSE_S
            send_two()
        producer.flush()

    assert [0, 0, 2, 4] == refused
    assert [1, 1, 2, 2] == looked_up
