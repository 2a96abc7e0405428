"""`tidemill cluster upgrade`: what it shows of the brokers, and what it asks of them."""

from typing import Any

import pytest

from tidemill.cli import cluster_upgrade
from tidemill.cli.cluster import upgrade
from tidemill.cli.cluster_upgrade import Levels
from tidemill.cli.failure import ExitCode, Failed
from tidemill.client.broker_http import NoResponse, NotReady, Refused


def row(number: int, level: int | None, *, is_live: bool = True, is_registered: bool = True) -> dict[str, Any]:
    return {"broker_id": number, "is_live": is_live, "is_registered": is_registered, "feature_level": level}


class Brokers:
    """A fake cluster at level 1, whose brokers answer at `address`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *rows: dict[str, Any]) -> None:
        self.rows = rows
        self.sent: list[dict[str, Any]] = []
        self.failure: Exception | None = None
        monkeypatch.setattr(cluster_upgrade, "ask", self.ask)
        monkeypatch.setattr(cluster_upgrade, "send", self.send)

    def ask(self, address: str, path: str) -> dict[str, Any]:
        if address == "127.0.0.1:1":
            raise NoResponse(address)
        if address == "127.0.0.1:2":
            raise NotReady(f"{address}: starting")
        return {"feature_level": 1} if path == "/v1/cluster" else {"brokers": list(self.rows)}

    def send(self, address: str, path: str, body: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        assert path == "/v1/cluster/level"
        if self.failure is not None:
            raise self.failure
        self.sent.append(body)
        return {"before": 1, "level": body["level"]}


def test_the_level_is_raised_to_the_highest_that_a_live_broker_supports(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    The target is not the highest level that all brokers support: a broker that was forgotten would not be noticed.  The
    table says for each broker what is missing.
    """
    rows = (row(1, 3), row(2, 2), row(3, None, is_live=False), row(4, 9, is_live=False, is_registered=False))
    brokers = Brokers(monkeypatch, *rows)

    upgrade(http="127.0.0.1:3")

    assert [{"level": 3, "dry_run": False}] == brokers.sent
    assert [
        "The cluster is at feature level 1.",
        "broker\tstatus\tsupports\tthen",
        "1\tup\t3\tready",
        "2\tup\t2\tupgrade Tidemill there",
        "3\tdown\t-\tbring it back, or start it on an empty directory",
        "4\tdown\t9\tnot registered",
        "It was raised to 3.",
    ] == capsys.readouterr().out.splitlines()


def test_a_cluster_that_can_record_it_has_a_lost_broker_removed() -> None:
    """Below level 2, removing is refused, so an empty directory has to take the lost broker's place."""
    lost = row(3, None, is_live=False)

    needed = [Levels(current=current, brokers=[lost]).cells(3)[0][-1] for current in (1, 2)]

    assert ["bring it back, or start it on an empty directory", "bring it back, or remove it"] == needed


def test_a_dry_run_is_sent_as_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The brokers check what would happen; `--level` chooses the level."""
    brokers = Brokers(monkeypatch, row(1, 3))

    upgrade(level=2, dry_run=True, http="127.0.0.1:3")

    assert [{"level": 2, "dry_run": True}] == brokers.sent
    assert "It can be raised to 2." == capsys.readouterr().out.splitlines()[-1]


def test_nothing_is_sent_if_there_is_nothing_to_raise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If no live broker supports more, the command succeeds: it may be repeated."""
    brokers = Brokers(monkeypatch, row(1, 1), row(2, 2, is_live=False))

    upgrade(http="127.0.0.1:3")

    assert [] == brokers.sent
    assert "No live broker supports a higher level." == capsys.readouterr().out.splitlines()[-1]


def test_a_refusal_and_a_lost_response_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal is the brokers' own.  Without a response, the level may have been raised, and the message says so."""
    brokers = Brokers(monkeypatch, row(1, 2))
    failures = []
    for brokers.failure in (Refused("127.0.0.1:3: broker 2 supports up to 1"), NoResponse("127.0.0.1:3: timed out")):
        with pytest.raises(Failed) as failed:
            upgrade(http="127.0.0.1:3", as_json=True)
        failures.append((failed.value.exit_code, failed.value.message))

    assert [
        (ExitCode.FAILED, "127.0.0.1:3: broker 2 supports up to 1"),
        (
            ExitCode.NO_BROKER,
            "127.0.0.1:3: timed out: whether the level was raised is not known; run the command again",
        ),
    ] == failures


def test_the_first_address_that_responds_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses that do not respond are skipped.  If none responds, one that is starting is named before the others."""
    Brokers(monkeypatch, row(1, 2))

    address, levels = cluster_upgrade.read_levels(["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"])

    assert ("127.0.0.1:3", Levels(current=1, brokers=[row(1, 2)])) == (address, levels)
    with pytest.raises(NotReady, match="starting"):
        cluster_upgrade.read_levels(["127.0.0.1:1", "127.0.0.1:2"])
    with pytest.raises(NoResponse):
        cluster_upgrade.read_levels(["127.0.0.1:1"])
