"""The exit code of `tidemill produce` says whether every line is stored."""

import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidemill.cli import line_producer, main
from tidemill.client import port_probe
from tidemill.client.port_probe import PortProtocol


class Sent:
    """A stand-in for confluent-kafka's message: a record that was sent to partition 1."""

    def partition(self) -> int:
        return 1


class ScriptedProducer:
    """A stand-in for confluent-kafka's producer: a record whose value is the code of an error fails with that error."""

    def __init__(self, _: Any) -> None: ...

    def produce(
        self, _: str, *, value: bytes, on_delivery: Callable[[KafkaError | None, Any], None], **__: Any
    ) -> None:
        code = int(value)
        on_delivery(KafkaError(code) if code else None, Sent())

    def poll(self, _: float) -> int:
        return 0

    def flush(self, _: float) -> int:
        return 0

    def list_topics(self, _: str, *, timeout: float) -> Any:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))


STORED, LATE, REFUSED = KafkaError.NO_ERROR, KafkaError._MSG_TIMED_OUT, KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("codes", "exit_code"),
    [([], 0), ([STORED, STORED], 0), ([STORED, LATE], 1), ([STORED, REFUSED], 1), ([LATE, REFUSED], 1)],
    ids=["no line", "stored", "timed out", "refused", "both"],
)
def test_the_exit_code_is_1_unless_every_line_is_stored(
    codes: list[int], exit_code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    The exit code is 1 if any line was refused or timed out, so that a script does not take the line for stored.
    """
    lines = "".join(f"{code}\n" for code in codes).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    monkeypatch.setattr(port_probe, "probe", lambda *_: PortProtocol.UNKNOWN)
    monkeypatch.setattr(line_producer, "TopicAdmin", lambda *_: None)
    monkeypatch.setattr(line_producer, "_leaders", lambda *_, create: {1: None})
    monkeypatch.setattr(line_producer, "Producer", ScriptedProducer)

    with pytest.raises(SystemExit) as ended:
        main.main(["produce", "orders", "--json", "--bootstrap", "h:1"])

    counts = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert exit_code == (ended.value.code or 0)
    assert [codes.count(code) for code in (STORED, REFUSED, LATE)] == [
        counts[name] for name in ("produced", "refused", "timed_out")
    ]
