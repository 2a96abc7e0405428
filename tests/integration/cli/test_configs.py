"""`tidemill configs` against a real broker."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.cli.command import new_topic, tidemill

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
