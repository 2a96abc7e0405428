"""If a reader's options refer to a secret, Spark pickles, prints and logs the reference, but never the secret."""

import pickle
import re

import pytest

pytest.importorskip("pyspark", reason="extra 'spark' is not installed")

from tidemill.client.security_keys import SECURITY_KEYS
from tidemill.columnar import sink_options, source_options
from tidemill.spark import row_schema
from tidemill.spark.batch_reader import BatchReader
from tidemill.spark.session import DEFAULTS
from tidemill.spark.stream_reader import StreamReader

OPTIONS = {
    "subscribe": "t",
    "kafka.bootstrap.servers": "b:1",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.username": "alice",
}


@pytest.mark.parametrize("name", [name for name, key in SECURITY_KEYS.items() if key.is_secret])
def test_spark_redacts_every_secret_option(name):
    """
    The pattern in `session.DEFAULTS` matches the option of every secret key, so Spark hides its value in plans, the
    event log and the web UI.
    """
    assert re.search(DEFAULTS["spark.redaction.regex"], f"kafka.{name}")


def readers(options):
    schema = row_schema.full(has_headers=False)
    return [
        BatchReader(source_options.for_batch(options), schema),
        StreamReader(source_options.for_stream(options), schema),
    ]


@pytest.mark.parametrize("kind", ["env", "file"])
def test_a_pickled_reader_has_references_instead_of_secrets(kind, monkeypatch, tmp_path):
    """
    Spark sends a pickled reader to every executor.  It contains the reference to the secret, but not the secret itself.
    """
    path = tmp_path / "password"
    path.write_text("hunter2")
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    reference = "env:KAFKA_PASSWORD" if kind == "env" else f"file:{path}"

    pickled = [pickle.dumps(reader) for reader in readers({**OPTIONS, "kafka.sasl.password": reference})]

    assert [(True, False)] * 2 == [(reference.encode() in one, b"hunter2" in one) for one in pickled]


@pytest.mark.parametrize(
    ("parse", "name"), [(source_options.for_batch, "source"), (sink_options.parse, "sink")], ids=["source", "sink"]
)
def test_a_literal_secret_is_not_printed_or_logged(parse, name, caplog):
    """
    A password in an option, or under a misspelt name, is neither in the repr of the parsed options nor in the log.
    """
    caplog.set_level("DEBUG")
    options = {**OPTIONS, "kafka.sasl.password": "hunter2", "kafka.sasl.pasword": "hunter2", "password": "hunter2"}

    parsed = parse(options)

    assert f"option kafka.sasl.pasword has no effect: the Tidemill {name} does not know it" in caplog.messages
    assert "hunter2" not in repr(parsed) + caplog.text
