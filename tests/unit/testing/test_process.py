"""The settings of brokers under test: those of the fixture, and none of the user's shell."""

import pytest

from tidemill.testing.process import environment_of


def test_settings_reach_the_broker_and_those_of_the_shell_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_SET_NUM_PARTITIONS", "7")
    found = environment_of({"message.max.bytes": "2000000", "tidemill.rebalance.enable": "false"})

    settings = {name: value for name, value in found.items() if name.startswith("TIDEMILL_")}
    assert {
        "TIDEMILL_SET_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "TIDEMILL_SET_MESSAGE_MAX_BYTES": "2000000",
        "TIDEMILL_SET_REBALANCE_ENABLE": "false",
    } == settings


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("message.max.byte", "tidemill_settings: message.max.byte='7': there is no such key"),
        ("log.dirs", "tidemill_settings: log.dirs='7': the fixtures choose it for each broker; leave it out"),
        ("tidemill.http.listener", "tidemill_settings: tidemill.http.listener='7': the fixtures choose it"),
    ],
)
def test_a_key_that_cannot_be_set_is_named_together_with_the_fixture(key: str, says: str) -> None:
    """A broker would call it a variable of the environment, which the user has not set."""
    with pytest.raises(ValueError, match=says):
        environment_of({key: "7"})
