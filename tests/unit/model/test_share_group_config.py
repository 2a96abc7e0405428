"""A share group's configuration: its own settings, the broker's defaults, and the broker's bounds."""

import pytest

from tidemill.model import errors
from tidemill.model.back_off import BackOff, Growth
from tidemill.model.config_keys import GROUP_KEYS, parse_named
from tidemill.model.config_resolution import BrokerLayers
from tidemill.model.errors import KafkaError
from tidemill.model.offset_reset import EARLIEST
from tidemill.model.share_group_config import (
    ShareGroupConfig,
    check_share_group_settings,
    compile_share_group_config,
)

SESSION, HEARTBEAT = "share.session.timeout.ms", "share.heartbeat.interval.ms"


def test_the_defaults_are_those_of_kafka() -> None:
    """A group without settings on a broker without settings has Kafka's defaults."""
    assert ShareGroupConfig() == compile_share_group_config({}, BrokerLayers())


def test_a_groups_setting_precedes_the_brokers() -> None:
    """A value that is set for the group takes precedence; otherwise the broker's key of the same meaning applies."""
    layers = BrokerLayers(
        static={"group.share.session.timeout.ms": "50000", "group.share.heartbeat.interval.ms": "6000"},
        dynamic_default={"group.share.assignment.interval.ms": "0"},
    )

    config = compile_share_group_config({SESSION: "55000", "share.auto.offset.reset": "earliest"}, layers)

    assert (
        ShareGroupConfig(
            session_timeout_ms=55_000, heartbeat_interval_ms=6_000, assignment_interval_ms=0, offset_reset=EARLIEST
        )
        == config
    )


@pytest.mark.parametrize(
    ("setting", "bounds", "effective"),
    [
        ("50000", {}, 50_000),
        ("50000", {"group.share.max.session.timeout.ms": "48000"}, 48_000),
        ("50000", {"group.share.min.session.timeout.ms": "52000"}, 52_000),
    ],
)
def test_a_value_is_moved_into_its_bounds(setting: str, bounds: dict[str, str], effective: int) -> None:
    """
    A stored value outside the broker's bounds is replaced by the nearest bound, so that the group keeps working if the
    bounds have changed since the value was set.
    """
    config = compile_share_group_config({SESSION: setting}, BrokerLayers(static=bounds))

    assert effective == config.session_timeout_ms


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({SESSION: "44999"}, "share.session.timeout.ms=44999 is refused: must be 45000 to 60000"),
        ({SESSION: "60001"}, "change group.share.min.session.timeout.ms or group.share.max.session.timeout.ms"),
        ({HEARTBEAT: "4999"}, "must be 5000 to 15000"),
        ({"share.assignment.interval.ms": "15001"}, "must be 0 to 15000"),
    ],
)
def test_a_value_out_of_its_bounds_is_refused(settings: dict[str, str], says: str) -> None:
    """
    Setting a group's value outside the broker's bounds fails with INVALID_CONFIG, and the message names the keys that
    set the bounds.
    """
    with pytest.raises(KafkaError) as refused:
        check_share_group_settings(settings.keys(), settings, BrokerLayers())

    assert errors.INVALID_CONFIG == refused.value.error_code
    assert says in refused.value.message


SHORT_SESSIONS = BrokerLayers(static={"group.share.min.session.timeout.ms": "1000"})


@pytest.mark.parametrize(
    ("changed", "settings"),
    [
        ({SESSION}, {SESSION: "5000"}),
        ({HEARTBEAT}, {SESSION: "6000", HEARTBEAT: "6000"}),
        ({HEARTBEAT}, {SESSION: "5000"}),  # the heartbeat interval is deleted, so its default applies again
    ],
)
def test_a_session_must_exceed_the_heartbeat_interval(changed: set[str], settings: dict[str, str]) -> None:
    """
    A session timeout that does not exceed the heartbeat interval is refused, because every member would lose its
    session between two heartbeats.
    """
    with pytest.raises(KafkaError, match=r"must exceed share\.heartbeat\.interval\.ms"):
        check_share_group_settings(changed, settings, SHORT_SESSIONS)


def test_other_changes_are_not_checked_again() -> None:
    """
    A change of one setting does not check the others again, so that a value that was legal once does not prevent the
    change.
    """
    settings = {SESSION: "1", "share.auto.offset.reset": "earliest"}

    check_share_group_settings({"share.auto.offset.reset"}, settings, BrokerLayers())


def test_the_keys_that_kafka_does_not_have_are_read() -> None:
    """The settings that only Tidemill has become plain values, too."""
    settings = {
        "tidemill.share.backoff": '{"kind": "constant", "first": "2s"}',
        "tidemill.share.ttl.ms": "60000",
        "tidemill.share.max.tracked": "1000",
        "tidemill.share.order": " key ",
        "tidemill.share.mode": "exclusive",
        "tidemill.share.lookahead": "500",
        "tidemill.share.priority": "true",
        "tidemill.share.failover.wait": "TRUE",
    }

    config = compile_share_group_config(settings, BrokerLayers())

    assert (
        ShareGroupConfig(
            back_off=BackOff(growth=Growth.CONSTANT, first_ms=2_000),
            ttl_ms=60_000,
            tracked_max=1_000,
            order="key",
            mode="exclusive",
            look_ahead=500,
            is_prioritized=True,
            waits_at_failover=True,
        )
        == config
    )


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("tidemill.share.backoff", '{"kind": "constant", "base": 1}', "is refused: unknown field 'base'"),
        ("tidemill.share.ttl.ms", "0", "tidemill.share.ttl.ms=0 is refused: must be -1"),
        ("tidemill.share.ttl.ms", "-2", "must be at least -1"),
        ("tidemill.share.max.tracked", "999", "must be at least 1000"),
        ("tidemill.share.max.tracked", "100001", "must be at most 100000"),
        ("tidemill.share.lookahead", "99", "must be at least 100"),
        ("tidemill.share.lookahead", "100001", "must be at most 100000"),
        ("tidemill.share.order", "record", "must be one of none, key, partition"),
        ("tidemill.share.mode", "failover", "must be one of shared, exclusive"),
        ("tidemill.share.priority", "1", "must be true or false"),
    ],
)
def test_a_value_that_a_key_does_not_permit_is_refused(name: str, value: str, says: str) -> None:
    """A value out of a key's own bounds is refused when it is set, with the key, the value and the requirement."""
    with pytest.raises(KafkaError) as refused:
        parse_named(GROUP_KEYS, name, value)

    assert errors.INVALID_CONFIG == refused.value.error_code
    assert says in refused.value.message
