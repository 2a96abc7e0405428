"""The documented connection keys are those that the client uses, with its defaults."""

from tidemill.client import connection_settings
from tidemill.columnar.connection_option_table import OPTIONS

ELSEWHERE = {"bootstrap.servers", "isolation.level"}  # documented with the source and the sink


def test_every_key_that_the_client_obeys_is_documented():
    documented = [option.name.removeprefix("kafka.") for option in OPTIONS]

    assert connection_settings.OBEYED - ELSEWHERE == set(documented)
    assert len(set(documented)) == len(documented)


def test_the_documented_defaults_are_those_of_the_settings():
    defaults = {option.name: option.default for option in OPTIONS}
    keys = {name.removeprefix("kafka."): value for name, value in defaults.items()}

    without, with_defaults = (
        connection_settings.from_keys({"bootstrap.servers": "b:1", **given}) for given in ({}, keys)
    )

    assert without == with_defaults
