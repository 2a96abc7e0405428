"""`tidemill top` against a real broker; `test_cluster_status.py` tests it with a cluster."""

import json
from typing import Any

import pytest

from tests.integration.cli.command import new_topic, tidemill
from tests.integration.cli.terminal import live_view


def test_lag_and_rates_are_shown(dev_broker: dict[str, Any]) -> None:
    """
    The lag is the number of records after the group's committed offset, and a broker reports its counters.  The output
    to a pipe contains three tables, without internal topics.
    """
    bootstrap, http = dev_broker["kafka"], dev_broker["http"]
    name = new_topic(bootstrap)
    group = f"{name}-g"
    tidemill("produce", name, stdin=b"1\n2\n3\n", bootstrap=bootstrap)
    tidemill("consume", name, "--group", group, "--max", "1", bootstrap=bootstrap)
    options = ("--interval", "0.2", "--http", http)

    view = json.loads(tidemill("top", *options, "--json", bootstrap=bootstrap).out)
    printed = tidemill("top", *options, bootstrap=bootstrap)
    internal = json.loads(tidemill("top", *options, "--all", "--json", bootstrap=bootstrap).out)

    (broker,) = view["brokers"]
    assert (1, "up", 1, []) == (broker["broker_id"], broker["status"], view["answered_by"], view["notes"])
    assert broker["requests_per_s"] > 0  # `tidemill top` itself sends requests
    assert [{"group": group, "state": "Empty", "topics": 1, "lag": 2, "committed_per_s": 0.0}] == [
        row for row in view["groups"] if row["group"] == group
    ]
    (topic,) = [row for row in view["topics"] if row["topic"] == name]
    assert (1, 0, 0.0) == (topic["partitions"], topic["leaderless"], topic["records_in_per_s"])
    assert (0, 3, "") == (printed.exit_code, len(printed.out.split("\n\n")), printed.err)
    assert {"__consumer_offsets"} == {row["topic"] for row in internal["topics"]} - {
        row["topic"] for row in view["topics"]
    }


def test_a_missing_http_listener_is_a_note_unless_it_was_asked_for(dev_broker: dict[str, Any]) -> None:
    """
    Without an HTTP listener, `top` still shows topics and groups, and a note says what is missing.  It is an error only
    if `--http` was given.
    """
    bootstrap = dev_broker["kafka"]

    required = tidemill("top", "--interval", "0.1", "--http", "127.0.0.1:1", bootstrap=bootstrap)
    mistaken = tidemill("top", "--interval", "0.1", "--http", bootstrap, bootstrap=bootstrap)
    view = json.loads(tidemill("top", "--interval", "0.1", "--json", bootstrap=bootstrap).out)

    assert 3 == required.exit_code and "--http" in required.err
    assert 3 == mistaken.exit_code and "is a Kafka port" in mistaken.err
    (broker,) = view["brokers"]
    assert (1, "up", None, None) == (
        broker["broker_id"], broker["status"], broker["requests_per_s"], view["answered_by"]
    )  # fmt: skip
    assert "no rates of brokers" in view["notes"][0]


@pytest.mark.parametrize("command", [("top", "--interval", "0.2"), ("cluster", "status", "--once")], ids=" ".join)
def test_the_first_address_that_responds_is_asked(dev_broker: dict[str, Any], command: tuple[str, ...]) -> None:
    """
    Several HTTP listeners may be given, so that any broker may be down.  A note says which address did not respond.
    """
    addresses = f"127.0.0.1:1,{dev_broker['http']}"

    given = tidemill(*command, "--http", addresses, "--json", bootstrap=dev_broker["kafka"])
    printed = tidemill(*command, bootstrap=dev_broker["kafka"], TIDEMILL_HTTP=addresses)

    note = "127.0.0.1:1: Connection refused; asked the next address"
    view = json.loads(given.out)
    assert (0, [1]) == (given.exit_code, [row["broker_id"] for row in view["brokers"] if row["status"] == "up"])
    assert [note] == [it[-len(note) :] for it in view["notes"]]
    assert 0 == printed.exit_code and note in printed.err


def test_the_live_view_is_updated_until_ctrl_c(dev_broker: dict[str, Any]) -> None:
    """
    On a terminal, the tables are redrawn after each interval, and Ctrl-C ends the command with code 0.
    """
    drawn = live_view(
        "top", "--interval", "0.2", redraws=3, TIDEMILL_BOOTSTRAP=dev_broker["kafka"], TIDEMILL_HTTP=dev_broker["http"]
    )

    assert "seen by broker 1" in drawn and "Topics" in drawn and "Groups" in drawn
