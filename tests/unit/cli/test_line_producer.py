"""How long a producer of lines waits for the metadata of its topic."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidemill.cli.failure import ExitCode, Failed
from tidemill.cli.line_producer import LineProducer
from tidemill.client import port_probe
from tidemill.client.port_probe import PortProtocol


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
