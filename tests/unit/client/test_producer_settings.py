"""Kafka's producer configuration keys: values, defaults, synonyms, and refusals."""

import pytest

from tidemill.batches.compression import Codec
from tidemill.client.failures import SettingsError
from tidemill.client.producer_settings import ProducerSettings, from_keys, unknown_keys


def test_without_keys_the_settings_are_the_defaults():
    assert ProducerSettings() == from_keys({})
    assert from_keys({}).is_idempotent


@pytest.mark.parametrize(
    ("keys", "field", "value"),
    [
        ({"acks": "-1"}, "in_flight_max", 5),
        ({"acks": "ALL"}, "in_flight_max", 5),
        ({"compression.type": "zstd", "compression.zstd.level": "7"}, "level", 7),
        ({"compression.type": "zstd", "compression.gzip.level": "7"}, "level", None),
        ({"compression.codec": "lz4", "compression.level": "3"}, "level", 3),
        ({"compression.type": "gzip", "compression.level": "-1"}, "level", -1),
        ({"compression.type": "lz4", "compression.level": "-1"}, "level", None),
        ({"compression.type": "snappy", "compression.level": "-1"}, "codec", Codec.SNAPPY),
        ({"compression.type": "none"}, "codec", Codec.NONE),
        ({"batch.size": "16384"}, "batch_bytes", 16_384),
        ({"max.request.size": "99"}, "request_bytes_max", 99),
        ({"message.max.bytes": "98"}, "request_bytes_max", 98),
        ({"buffer.memory": "97"}, "buffer_bytes", 97),
        ({"message.timeout.ms": "96"}, "delivery_timeout_ms", 96),
        ({"max.in.flight": "1"}, "in_flight_max", 1),
        ({"enable.idempotence": "false"}, "in_flight_max", 1),
        ({"retries": "2147483647"}, "retries_max", 2_147_483_647),
        ({"enable.idempotence": "false", "retries": "0"}, "retries_max", 0),
        ({"partitioner.ignore.keys": "true"}, "are_keys_ignored", True),
        ({"partitioner": "murmur2"}, "are_keys_ignored", False),
        ({"linger.ms": "5"}, "batch_bytes", 1 << 20),
    ],
)
def test_keys_set_fields(keys: dict[str, str], field: str, value: object):
    assert value == getattr(from_keys(keys), field)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"acks": "1"}, "acks=1 is not supported: a write is complete only when all in-sync replicas"),
        ({"request.required.acks": "0"}, "request.required.acks=0 is not supported"),
        ({"compression.type": "brotli"}, "compression.type=brotli is unknown: use none, gzip, snappy, lz4 or zstd"),
        ({"compression.type": "gzip", "compression.gzip.level": "10"}, "gzip has levels 1 to 9"),
        ({"compression.type": "gzip", "compression.gzip.level": "x"}, "compression.gzip.level=x must be a whole"),
        ({"batch.size": "0"}, "batch.size=0 must be a whole number above 0"),
        ({"max.in.flight.requests.per.connection": "6"}, "per.connection=6 is too large"),
        ({"retries": "0"}, "retries=0 must be a whole number above 0"),
        ({"enable.idempotence": "maybe"}, "enable.idempotence=maybe must be true or false"),
        ({"partitioner": "consistent_random"}, "partitioner=consistent_random is not supported: records with a key"),
        ({"partitioner.class": "a.B"}, "partitioner.class=a.B is not supported: a Java class"),
        ({"transactional.id": "x"}, "transactional.id=x is not supported: writes are at-least-once"),
        ({"key.serializer": "x"}, "key.serializer=x is not supported: keys are strings or binary"),
        ({"interceptor.classes": "x"}, "interceptor.classes=x is not supported"),
    ],
)
def test_an_unsupported_value_is_refused_with_the_fix(keys: dict[str, str], sentence: str):
    with pytest.raises(SettingsError) as refused:
        from_keys(keys)

    assert sentence in str(refused.value)


def test_unknown_keys_are_found():
    assert ("batch.sise", "request.timeout.ms") == unknown_keys(
        ["request.timeout.ms", "batch.size", "linger.ms", "batch.sise"]
    )


def test_references_are_looked_up(monkeypatch: pytest.MonkeyPatch):
    """A setting may be a reference to an environment variable.  Errors show the reference instead of its value."""
    monkeypatch.setenv("CODEC", "zstd")
    monkeypatch.setenv("BYTES", "hunter2")

    assert Codec.ZSTD == from_keys({"compression.type": "env:CODEC"}).codec
    for key in ("batch.size", "retries", "compression.type", "acks", "partitioner", "enable.idempotence"):
        with pytest.raises(SettingsError, match=f"{key}=env:BYTES ") as refused:
            from_keys({key: "env:BYTES"})
        assert "hunter2" not in str(refused.value)
    with pytest.raises(SettingsError, match=r"batch.size=env:MISSING: the environment variable MISSING is not set"):
        from_keys({"batch.size": "env:MISSING"})
