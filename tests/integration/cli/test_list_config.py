"""`tidemill broker --list-config`.  These tests need no broker."""

import json

from tests.integration.cli.command import tidemill
from tidemill.model.config_keys import BROKER_KEYS


def test_every_key_of_a_broker_is_listed() -> None:
    """
    Tab-separated lines and JSON list each key that users may set, with its type, default and meaning.
    """
    listed = {name for name, key in BROKER_KEYS.items() if not key.internal}

    header, *lines = [line.split("\t") for line in tidemill("broker", "--list-config").out.splitlines()]
    rows = [json.loads(line) for line in tidemill("broker", "--list-config", "--json").out.splitlines()]

    assert ["key", "type", "default", "documentation"] == header
    assert sorted(listed) == [key for key, *_ in lines] == [row["key"] for row in rows]
    assert ["compression.zstd.level", "int", "3", BROKER_KEYS["compression.zstd.level"].documentation] in lines
    (row,) = [row for row in rows if row["key"] == "broker.rack"]
    assert {"type": "string", "default": None, "support": "obeyed", "update": "read-only"}.items() <= row.items()
