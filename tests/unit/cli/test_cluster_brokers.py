"""What `tidemill cluster` says about brokers that are drained."""

from typing import Any

import pytest

from tidemill.cli.cluster_brokers import drain, undrain
from tidemill.cli.cluster_http import ClusterHttp


@pytest.mark.parametrize(
    ("findings", "said"),
    [
        ([], "Broker 3 is being drained of all.\n"),
        ([{"kind": "rack", "sentence": "fewer racks"}], "fewer racks\nBroker 3 is being drained of all.\n"),
        (
            [{"kind": "already", "sentence": "broker 3 is drained already, and is empty"}],
            "broker 3 is drained already, and is empty\n",
        ),
    ],
)
def test_a_drain_that_was_asked_for_before_is_not_said_to_begin(
    findings: list[dict[str, Any]], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is left to do, and the command ends well."""
    monkeypatch.setattr(ClusterHttp, "post", lambda *_: {"findings": findings})

    drain(3, http="127.0.0.1:1")

    assert said == capsys.readouterr().out


def test_a_broker_that_was_not_drained_is_not_said_to_be_undrained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = {"kind": "already", "sentence": "broker 3 is not drained"}
    monkeypatch.setattr(ClusterHttp, "post", lambda *_: {"findings": [finding]})

    undrain(3, http="127.0.0.1:1")

    assert "broker 3 is not drained\n" == capsys.readouterr().out
