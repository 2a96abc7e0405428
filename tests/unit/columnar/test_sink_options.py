"""The options of the sink, and their documentation."""

import logging
import pickle

import pytest

from tidemill.client import connection_settings, producer_settings
from tidemill.columnar import sink_options

SERVERS = {"kafka.bootstrap.servers": "a:1"}


def test_options_become_one_value_that_can_be_pickled():
    options = sink_options.parse({**SERVERS, "topic": " orders ", "kafka.compression.type": "zstd"})

    assert "orders" == options.topic
    assert "zstd" == options.producer.codec.name.lower()
    assert options == pickle.loads(pickle.dumps(options))  # noqa: S301 - our own bytes
    assert hash(options.connection) == hash(sink_options.parse({**SERVERS, "topic": "x"}).connection)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"topic": "t"}, "Option 'kafka.bootstrap.servers' must be specified"),
        ({**SERVERS, "topic": " "}, "topic=' ' is empty"),
        ({**SERVERS, "includeheaders": "yes"}, "includeHeaders=yes must be true or false"),
        ({**SERVERS, "kafka.acks": "1"}, "acks=1 is not supported"),
        ({**SERVERS, "kafka.value.serializer": "x"}, "value.serializer=x is not supported"),
    ],
)
def test_an_illegal_option_is_refused_with_the_fix(options: dict[str, str], sentence: str):
    with pytest.raises(ValueError) as refused:
        sink_options.parse(options)

    assert sentence in str(refused.value)


def test_unknown_options_are_named_in_a_warning(caplog: pytest.LogCaptureFixture):
    """Producer keys, connection keys and keys without effect are known; any other key is probably misspelt."""
    known = {"kafka.batch.size": "1", "kafka.request.timeout.ms": "1", "kafka.linger.ms": "5", "kafka.client.id": "x"}
    with caplog.at_level(logging.WARNING):
        sink_options.parse({**SERVERS, **known, "topik": "t", "kafka.compresion.type": "zstd"})

    assert [
        "option topik is ignored: did you mean topic?",
        "option kafka.compresion.type has no effect: the Tidemill sink does not know it",
    ] == [record.getMessage() for record in caplog.records]


def test_the_documented_options_are_known():
    """The parsers know every documented option, and the documentation spells each Kafka key as the parsers do."""
    documented = [option.name for option in sink_options.OPTIONS]
    kafka = [name.removeprefix("kafka.") for name in documented if name.startswith("kafka.")]
    unknown = connection_settings.unknown_keys(dict.fromkeys(producer_settings.unknown_keys(kafka), ""))

    assert () == unknown
    assert {"topic", "includeHeaders"} == {name for name in documented if not name.startswith("kafka.")}
    assert len(set(documented)) == len(documented)


def test_the_documented_defaults_are_those_of_the_settings():
    defaults = {option.name.removeprefix("kafka."): option.default for option in sink_options.OPTIONS}
    settings = producer_settings.ProducerSettings()

    assert str(settings.batch_bytes) == defaults["batch.size"]
    assert str(settings.request_bytes_max) == defaults["max.request.size"]
    assert str(settings.buffer_bytes) == defaults["buffer.memory"]
    assert str(settings.delivery_timeout_ms) == defaults["delivery.timeout.ms"]
    assert str(settings.in_flight_max) == defaults["max.in.flight.requests.per.connection"]
