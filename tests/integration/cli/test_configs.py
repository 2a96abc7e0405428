"""`tidemill configs` against a real broker."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.command import new_topic, tidemill
from tests.integration.cli.dev_broker import running_broker

KEY = "log.segment.delete.delay.ms"  # a broker key whose default no other test needs


@pytest.fixture
def key(bootstrap: str) -> Iterator[str]:
    """Yield a key that may be set for the cluster and for broker 1; remove both values afterwards."""
    yield KEY
    for resource in (("--cluster",), ("--broker", "1")):
        tidemill("configs", "unset", *resource, KEY, bootstrap=bootstrap)


def described(bootstrap: str, *arguments: str) -> dict[str, Any]:
    """Return the configurations by key."""
    finished = tidemill("configs", "describe", *arguments, "--json", bootstrap=bootstrap)
    assert 0 == finished.exit_code, finished.err
    return {row["key"]: row for row in json.loads(finished.out)["configs"]}


def test_a_topic_keeps_the_keys_that_are_not_named(bootstrap: str) -> None:
    """
    `set` and `unset` change only the keys that are named.  `describe` shows the keys that differ from their defaults
    or, if asked to, all keys.
    """
    name = new_topic(bootstrap)
    topic = ("--topic", name)

    tidemill("configs", "set", *topic, "retention.ms=1000", "retention.bytes=5", bootstrap=bootstrap)
    tidemill("configs", "set", *topic, "retention.ms=2000", bootstrap=bootstrap)
    both = described(bootstrap, *topic)
    unset = tidemill("configs", "unset", *topic, "retention.ms", "--json", bootstrap=bootstrap)

    after = described(bootstrap, *topic)
    assert {"resource": "topic", "name": name, "changes": {"retention.ms": None}} == json.loads(unset.out)
    assert ("2000", "5") == (both["retention.ms"]["value"], both["retention.bytes"]["value"])
    assert "cleanup.policy" not in both and "retention.bytes" in after and "retention.ms" not in after
    assert ("DYNAMIC_TOPIC_CONFIG", "-1") == (after["retention.bytes"]["source"], after["retention.bytes"]["default"])
    assert {"retention.ms", "retention.bytes", "cleanup.policy"} < described(bootstrap, *topic, "--all").keys()
    assert {"cleanup.policy"} == described(bootstrap, *topic, "cleanup.policy").keys()


def test_a_broker_overrides_the_cluster(bootstrap: str, key: str) -> None:
    """
    A cluster-wide value applies to every broker that has no value of its own, and each value is shown with its source.
    """
    tidemill("configs", "set", "--cluster", f"{key}=1000", bootstrap=bootstrap)
    of_cluster = described(bootstrap, "--broker", "1", key)[key]
    tidemill("configs", "set", "--broker", "1", f"{key}=2000", bootstrap=bootstrap)
    own = described(bootstrap, "--broker", "1", key)[key]

    assert "1000" == described(bootstrap, "--cluster")[key]["value"]
    assert ("1000", "DYNAMIC_DEFAULT_BROKER_CONFIG", "60000") == tuple(
        of_cluster[name] for name in ("value", "source", "default")
    )
    assert ("2000", "DYNAMIC_BROKER_CONFIG") == (own["value"], own["source"])
    assert ["2000", "1000", "60000"] == [level["value"] for level in own["levels"]]


def test_a_retention_in_hours_is_shown_once(tmp_path: Path) -> None:
    """
    If a broker sets `log.retention.hours`, its description lists neither `log.retention.minutes` nor
    `log.retention.ms`.  A topic with its own retention also shows the broker's value, which applies once the topic's
    value is unset.
    """
    hours = {"TIDEMILL_SET_LOG_RETENTION_HOURS": "72"}
    with running_broker(tmp_path, **hours) as ready:
        name = new_topic(ready["kafka"])
        tidemill("configs", "set", "--topic", name, "retention.ms=1000", bootstrap=ready["kafka"])
        of_broker = described(ready["kafka"], "--broker", "1")
        of_topic = described(ready["kafka"], "--topic", name)["retention.ms"]
        tidemill("configs", "unset", "--topic", name, "retention.ms", bootstrap=ready["kafka"])
        after = described(ready["kafka"], "--topic", name)["retention.ms"]
        table = tidemill("configs", "describe", "--topic", name, bootstrap=ready["kafka"]).out

    assert ["log.retention.hours"] == [key for key in of_broker if "retention.m" in key or "retention.h" in key]
    assert ("log.retention.hours=72", "log.retention.hours=168") == (of_topic["if_unset"], of_topic["default"])
    assert ("259200000", "STATIC_BROKER_CONFIG") == (after["value"], after["source"])
    assert "config\tvalue\tsource\tif unset" == table.splitlines()[0]


def test_a_group_is_configured_before_it_exists(bootstrap: str) -> None:
    """
    The configuration of a share group can be set before its first member joins, and overrides the broker's value.
    """
    group = ("--group", new_topic(bootstrap))

    done = tidemill("configs", "set", *group, "share.delivery.count.limit=3", bootstrap=bootstrap)
    ours = described(bootstrap, *group)
    refused = tidemill("configs", "set", *group, "share.delivery.count.limit=1000", bootstrap=bootstrap)
    tidemill("configs", "unset", *group, "share.delivery.count.limit", bootstrap=bootstrap)

    limit = ours["share.delivery.count.limit"]
    assert (0, ["share.delivery.count.limit"]) == (done.exit_code, [*ours])
    assert ("3", "DYNAMIC_GROUP_CONFIG", "5") == (limit["value"], limit["source"], limit["if_unset"])
    assert 1 == refused.exit_code and "share.delivery.count.limit=1000" in refused.err
    assert {} == described(bootstrap, *group)


def test_a_key_without_effect_is_set_with_a_note(bootstrap: str) -> None:
    """
    If a key has no effect, the command sets it and explains on stderr why it has none.  A key that has an effect causes
    no note.
    """
    name = new_topic(bootstrap)
    pairs = ("flush.ms=1000", "retention.ms=1000")
    options = [text for pair in pairs for text in ("--config", pair)]
    commands = (
        ("configs", "set", "--topic", name, *pairs),
        ("topics", "alter", name, *options),
        ("topics", "create", f"{name}-2", *options),
    )
    plain = [tidemill(*command, bootstrap=bootstrap) for command in commands]
    as_json = [tidemill(*command, "--json", bootstrap=bootstrap) for command in commands[:2]]

    why = "every record is on disk before it is acknowledged"
    assert [(0, f"tidemill: note: flush.ms is accepted without effect: {why}\n")] * 3 == [
        (finished.exit_code, finished.err) for finished in plain
    ]
    for finished in as_json:
        note = json.loads(finished.err)
        assert ("note", "flush.ms", 0) == (note["event"], note["key"], finished.exit_code) and why in note["message"]


def test_a_refused_configuration_is_named(bootstrap: str) -> None:
    """
    The error names what was refused: the resource, the key or the value.
    """
    name = new_topic(bootstrap)

    def refused(*arguments: str) -> str:
        finished = tidemill("configs", *arguments, bootstrap=bootstrap)
        assert 1 == finished.exit_code, finished
        return finished.err

    told = refused("set", "--topic", name, "retention.ms=soon")
    assert name in told and "retention.ms" in told and "soon" in told
    assert "no configuration 'retention'" in refused("describe", "--topic", name, "retention")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in refused("describe", "--topic", f"{name}-2")
    assert "--broker 99" in refused("describe", "--broker", "99")
