"""The settings of librdkafka that a user gives."""

import re

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tidemill.sdk.async_mill import AsyncMill
from tidemill.sdk.discovery import http_addresses
from tidemill.sdk.kafka_settings import created
from tidemill.sdk.mill import connect
from tidemill.sdk.sender import KafkaSender

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"client.id": "me", "compresion.type": "lz4"}, 'refuses compresion.type: No such .* "compresion.type"; mend'),
        ({"client.id": "me", "linger.ms": "x"}, "refuses linger.ms: Invalid value"),
        ({"linger.ms": -5, "sasl.password": "secret"}, "refuses linger.ms: .* value -5 is outside allowed range"),
        ({"acks": 1, "enable.idempotence": True}, "refuses acks, enable.idempotence: .*must be set to `all`"),
    ],
)
def test_a_setting_that_is_refused_is_named_as_the_user_has_written_it(given: dict[str, object], says: str) -> None:
    for kind in (Producer, AdminClient):
        with pytest.raises(ValueError, match=says) as refused:
            created(kind, {"bootstrap.servers": "127.0.0.1:1", **given}, {"log_level": 0})
        assert "secret" not in str(refused.value)


def test_every_client_names_it() -> None:
    """Both that of the first connection and that which sends records, which sets more itself."""
    bad = re.escape("kafka: librdkafka refuses compresion.type")
    with pytest.raises(ValueError, match=bad):
        http_addresses({**NOWHERE, "compresion.type": "lz4"})
    with pytest.raises(ValueError, match=bad):
        connect("127.0.0.1:1", kafka={"compresion.type": "lz4"})
    with pytest.raises(ValueError, match=r"librdkafka refuses log_level, acks: .*enable.idempotence"):
        KafkaSender({**NOWHERE, "acks": 1}, 1.0)


def test_settings_that_nothing_would_use_are_refused() -> None:
    with pytest.raises(ValueError, match="without bootstrap"):
        AsyncMill(http="127.0.0.1:1", kafka={"compression.type": "lz4"})
