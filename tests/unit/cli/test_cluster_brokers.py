"""What `tidemill cluster` says about brokers that are drained, and when it has waited for too long."""

from collections.abc import Callable
from typing import Any

import pytest

from tidemill.cli import cluster_waits
from tidemill.cli.cluster_brokers import drain, may_stop, undrain
from tidemill.cli.cluster_http import ClusterHttp
from tidemill.cli.cluster_shards import move, moves
from tidemill.cli.failure import Failed

HTTP = "127.0.0.1:1"


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

    drain(3, http=HTTP)

    assert said == capsys.readouterr().out


def test_a_broker_that_was_not_drained_is_not_said_to_be_undrained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = {"kind": "already", "sentence": "broker 3 is not drained"}
    monkeypatch.setattr(ClusterHttp, "post", lambda *_: {"findings": [finding]})

    undrain(3, http=HTTP)

    assert "broker 3 is not drained\n" == capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "rows", "said"),
    [
        (
            lambda: drain(3, leaders=True, wait="1ms", http=HTTP),
            {"shards": [{"shard_id": 1, "replicas": [1, 3]}, {"shard_id": 2, "replicas": [3, 2]}], "next_after": None},
            "broker 3 still leads after 1ms: it leads 2 shards.  The drain goes on without this command; wait again "
            "with `tidemill cluster drain 3 --leaders --wait 1ms --http 127.0.0.1:1`",
        ),
        (
            lambda: undrain(3, wait="1ms", http=HTTP),
            {"brokers": []},
            "broker 3 is not back after 1ms: it is not live.  Its drain has ended, and its replicas catch up without "
            "this command; wait again with `tidemill cluster undrain 3 --wait 1ms --http 127.0.0.1:1`",
        ),
        (
            lambda: may_stop(3, wait="1ms", http=HTTP),
            {"may_stop": False, "findings": [{"kind": "majority", "sentence": "shard 1: late"}]},
            "broker 3 must not stop after 1ms: shard 1: late.  The other replicas catch up without this command; wait "
            "again with `tidemill cluster may-stop 3 --wait 1ms --http 127.0.0.1:1`",
        ),
        (
            lambda: move(4, to="1,2", wait="1ms", http=HTTP),
            {"moves": [{"shard_id": 4, "voters": [1, 3], "remaining": 512}], "count": 1, "untold": 0},
            "shard 4 has not arrived after 1ms: voters [1, 3], 512 B to copy.  The move goes on without this command; "
            "wait again with `tidemill cluster move 4 --to 1,2 --wait 1ms --http 127.0.0.1:1`",
        ),
    ],
)
def test_a_wait_that_is_over_says_what_is_left_and_how_to_wait_again(
    command: Callable[[], None], rows: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClusterHttp, "post", lambda *_: {"findings": []})
    monkeypatch.setattr(ClusterHttp, "get", lambda *_, **__: rows)
    monkeypatch.setattr(cluster_waits, "POLL_S", 0.001)

    with pytest.raises(Failed) as failed:
        command()

    assert said == failed.value.message


def test_moves_that_a_new_controller_does_not_know_are_not_passed_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty table alone would say that nothing moves."""
    monkeypatch.setattr(ClusterHttp, "get", lambda *_: {"moves": [], "count": 0, "untold": 2, "untold_shards": [4, 7]})

    moves(once=True, http=HTTP)

    assert (
        "The controller is new, or shards have no leader: the voters of shards 4, 7 are not known yet"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize("alone", [[], [5], [*range(12)]])
def test_a_drain_of_leaders_names_the_shards_that_no_other_broker_can_lead(
    alone: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not wait for them, so it says that they are not served while the broker is down."""
    rows = [{"shard_id": number, "replicas": [3]} for number in alone]
    monkeypatch.setattr(ClusterHttp, "post", lambda *_: {"findings": []})
    monkeypatch.setattr(ClusterHttp, "get", lambda *_, **__: {"shards": rows, "next_after": None})

    drain(3, leaders=True, wait="1m", http=HTTP)

    said = capsys.readouterr().err
    assert ("shard 5: it has the only replica" in said) == (alone == [5])
    assert ("shards 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more" in said) == (len(alone) == 12)
    assert bool(said) == bool(alone)
