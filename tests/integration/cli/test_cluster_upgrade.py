"""`tidemill cluster upgrade` against a real broker."""

import json
from typing import Any

from tests.integration.cli.command import tidemill
from tidemill.metadata.feature_levels import NEWEST


def test_a_cluster_at_the_newest_level_stays_there(dev_broker: dict[str, Any]) -> None:
    """The command can be repeated.  It shows what each broker supports."""
    address = ("--http", dev_broker["http"])

    shown, row = tidemill("cluster", "upgrade", *address), tidemill("cluster", "upgrade", *address, "--json")

    assert 0 == shown.exit_code, shown.err
    assert f"1\tup\t{NEWEST}\tready" in shown.out.splitlines()
    broker = {"broker_id": 1, "is_live": True, "is_registered": True, "feature_level": NEWEST}
    assert {"before": NEWEST, "level": NEWEST, "dry_run": False, "brokers": [broker]} == json.loads(row.out)


def test_a_refused_upgrade_names_the_broker(dev_broker: dict[str, Any]) -> None:
    """The command fails with the reason of the controller."""
    wanted = ("--level", str(NEWEST + 1), "--dry-run")

    refused = tidemill("cluster", "upgrade", *wanted, "--http", dev_broker["http"])

    assert 1 == refused.exit_code
    assert f"1\tup\t{NEWEST}\tupgrade Tidemill there" in refused.out.splitlines()
    assert f"feature level {NEWEST + 1} is refused: broker 1 supports up to {NEWEST}" in refused.err
