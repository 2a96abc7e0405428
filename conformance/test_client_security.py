"""Tidemill's own client reads and writes topics of Apache Kafka through listeners with TLS and every SASL mechanism."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.broker import Unavailable, free_port
from tests.unit.client.certificates import Authority
from tidemill.client import connection_settings
from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import ClientError
from tidemill.columnar import sink_options, source_options
from tidemill.columnar.offset_ranges import OffsetRange
from tidemill.columnar.range_reader import RangeReader
from tidemill.columnar.topic_writer import TopicWriter
from tidemill.wire.messages import metadata

TOPIC, WRITTEN = "secured", "written"
VALUES = [b"a", b"b", b"c"]
PASSWORD = "Gr\u00fc\u00dfe-\u00aa"  # SASLprep would change the last character; Kafka does not
LOGIN_LIFETIME_MS = 2_000
MODULES = "org.apache.kafka.common.security"
JAAS = {
    "plain": f'{MODULES}.plain.PlainLoginModule required user_alice="{PASSWORD}";',
    "scram-sha-256": f"{MODULES}.scram.ScramLoginModule required;",
    "scram-sha-512": f"{MODULES}.scram.ScramLoginModule required;",
    "oauthbearer": f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
}
MECHANISMS = {
    "PLAIN": {"sasl.username": "alice", "sasl.password": PASSWORD},
    "SCRAM-SHA-256": {"sasl.username": "alice", "sasl.password": PASSWORD},
    "SCRAM-SHA-512": {
        "sasl.jaas.config": f'{MODULES}.scram.ScramLoginModule required username="alice" password="{PASSWORD}";'
    },
    "OAUTHBEARER": {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=alice"},
}


@dataclass(frozen=True)
class SecuredKafka:
    """The ports of one broker by listener, and the files of its TLS."""

    ports: dict[str, int]
    authority: Authority

    def keys(self, listener: str, **more: str) -> dict[str, str]:
        return {
            "bootstrap.servers": f"127.0.0.1:{self.ports[listener]}",
            "security.protocol": listener,
            "socket.connection.setup.timeout.ms": "3000",
            **({"ssl.ca.location": self.authority.location} if listener.endswith("SSL") else {}),
            **{key.replace("_", "."): value for key, value in more.items()},
        }


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    directory = tmp_path_factory.mktemp("kafka")
    authority = Authority(tmp_path_factory.mktemp("tls"))
    ports = {name: free_port() for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "CONTROLLER")}
    try:
        broker = ApacheKafka(directory, port=ports["PLAINTEXT"], settings=broker_settings(ports, authority, directory))
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        broker.wait_until_ready()
        fill(f"127.0.0.1:{ports['PLAINTEXT']}")
        yield SecuredKafka(ports, authority)
    finally:
        broker.stop()


def broker_settings(ports: dict[str, int], authority: Authority, directory: Path) -> dict[str, str]:
    pair = authority.issue("broker")
    store = directory / "broker.pem"
    store.write_text(pair.key.read_text() + pair.certificate.read_text())
    addresses = {name: f"{name}://127.0.0.1:{port}" for name, port in ports.items()}
    return {
        "controller.quorum.voters": f"1@127.0.0.1:{ports['CONTROLLER']}",
        "listeners": ",".join(addresses.values()),
        "advertised.listeners": ",".join(address for name, address in addresses.items() if name != "CONTROLLER"),
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,"
        + ",".join(f"{name}:{name}" for name in ports if name != "CONTROLLER"),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        **{f"listener.name.sasl_ssl.{name}.sasl.jaas.config": escaped(text) for name, text in JAAS.items()},
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": JAAS["scram-sha-512"],
        "connections.max.reauth.ms": str(LOGIN_LIFETIME_MS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.location,
        "listener.name.ssl.ssl.client.auth": "required",
    }


def escaped(text: str) -> str:
    """Return the text as a properties file has it, whose encoding is Latin-1."""
    return text.encode("ascii", "backslashreplace").decode().replace("\\x", "\\u00")


def fill(bootstrap: str) -> None:
    """Create the topic, its records, and the users of SCRAM, through the listener without login."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(TOPIC, 1, 1), NewTopic(WRITTEN, 1, 1)]).values():
        created.result(30)
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        user = UserScramCredentialUpsertion("alice", ScramCredentialInfo(mechanism, 4_096), PASSWORD.encode())
        admin.alter_user_scram_credentials([user])["alice"].result(30)  # a request may change a user once
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in VALUES:
        producer.produce(TOPIC, value)
    assert 0 == producer.flush(30)


def values_read(keys: dict[str, str]) -> list[bytes]:
    """Read the topic as Spark's executors do."""
    options = source_options.for_batch({"subscribe": TOPIC, **{f"kafka.{key}": value for key, value in keys.items()}})
    cluster = ClusterMetadata(options.connection)
    cluster.refresh({TOPIC})
    cluster.close()
    rows = RangeReader(options, ["value"]).record_batches(OffsetRange(TOPIC, 0, 0, len(VALUES)))
    return [value for batch in rows for value in batch.column("value").to_pylist()]


def values_written(keys: dict[str, str], text: str) -> list[bytes]:
    """Write a few rows as Spark's executors do, and return their values as the cluster has them."""
    options = sink_options.parse({"topic": WRITTEN, **{f"kafka.{key}": value for key, value in keys.items()}})
    rows = pa.record_batch({"value": [f"{text} {number}" for number in range(len(VALUES))]})
    with TopicWriter(options, rows.schema) as writer:
        writer.write(rows)
        ((start, end),) = writer.flush().offsets.values()
    read = source_options.for_batch({"subscribe": WRITTEN, **{f"kafka.{key}": value for key, value in keys.items()}})
    found = RangeReader(read, ["value"]).record_batches(OffsetRange(WRITTEN, 0, start, end))
    return [value for batch in found for value in batch.column("value").to_pylist()]


def failure(keys: dict[str, str]) -> str:
    with pytest.raises(ClientError) as failed:
        ClusterMetadata(connection_settings.from_keys(keys)).refresh({TOPIC})
    assert PASSWORD not in str(failed.value)
    return str(failed.value)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_topic_is_read_with_tls_and_every_mechanism(kafka: SecuredKafka, mechanism: str) -> None:
    """
    The client logs in with the mechanism over TLS and reads every record.
    """
    keys = kafka.keys("SASL_SSL", sasl_mechanism=mechanism) | MECHANISMS[mechanism]

    assert VALUES == values_read(keys)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_topic_is_written_with_tls_and_every_mechanism(kafka: SecuredKafka, mechanism: str) -> None:
    """
    The sink's producer logs in with the mechanism over TLS, and the cluster has every row.
    """
    keys = kafka.keys("SASL_SSL", sasl_mechanism=mechanism) | MECHANISMS[mechanism]

    assert [b"%s %d" % (mechanism.encode(), number) for number in range(len(VALUES))] == values_written(keys, mechanism)


def test_a_write_renews_its_login_before_the_broker_ends_it(kafka: SecuredKafka) -> None:
    """
    A write that lasts longer than the broker's connections.max.reauth.ms loses no connection and no row (KIP-368).
    """
    keys = kafka.keys("SASL_SSL", sasl_mechanism="SCRAM-SHA-512") | MECHANISMS["SCRAM-SHA-512"]
    options = sink_options.parse({"topic": WRITTEN, **{f"kafka.{key}": value for key, value in keys.items()}})
    rows = pa.record_batch({"value": ["row"]})
    ends_at = time.monotonic() + 1.5 * LOGIN_LIFETIME_MS / 1_000
    count = 0

    with TopicWriter(options, rows.schema) as writer:
        while time.monotonic() < ends_at:
            writer.write(rows)
            count += 1
            summary = writer.flush()

    assert count == summary.records


def test_a_topic_is_read_with_a_login_but_without_tls(kafka: SecuredKafka) -> None:
    """
    The client logs in over a connection without TLS.
    """
    keys = kafka.keys("SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-512") | MECHANISMS["SCRAM-SHA-512"]

    assert VALUES == values_read(keys)


def test_a_topic_is_read_with_a_client_certificate(kafka: SecuredKafka) -> None:
    """
    A listener that demands a client's certificate accepts one in inline PEM.
    """
    pair = kafka.authority.issue("client")
    inline = {"ssl.certificate.pem": pair.certificate.read_text(), "ssl.key.pem": pair.key.read_text()}

    assert VALUES == values_read(kafka.keys("SSL") | inline)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_login_is_renewed_before_the_broker_ends_it(kafka: SecuredKafka, mechanism: str) -> None:
    """
    A connection that is used for longer than the broker's connections.max.reauth.ms is never closed (KIP-368).
    """
    keys = kafka.keys("SASL_SSL", sasl_mechanism=mechanism) | MECHANISMS[mechanism]
    settings = connection_settings.from_keys(keys)
    connection = BrokerConnection(settings.bootstrap[0], settings)
    planned = connection._logs_in_again_at
    ends_at = time.monotonic() + 1.5 * LOGIN_LIFETIME_MS / 1_000

    while time.monotonic() < ends_at:
        connection.request(metadata.API, metadata.Request(topics=[]))
    renewed = connection._logs_in_again_at
    connection.close()

    assert planned is not None and renewed is not None
    assert planned < renewed


@pytest.mark.parametrize(
    ("listener", "keys", "sentences"),
    [
        (
            "SASL_SSL",
            {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "wrong"},
            ["refuses the login of sasl.username=alice with sasl.mechanism=PLAIN: Authentication failed: Invalid"],
        ),
        (
            "SASL_SSL",
            {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "alice", "sasl.password": "wrong"},
            ["refuses the login of sasl.username=alice with sasl.mechanism=SCRAM-SHA-256: ", "; check user and"],
        ),
        (
            "SASL_PLAINTEXT",
            {"sasl.mechanism": "PLAIN", **MECHANISMS["PLAIN"]},
            ["does not offer sasl.mechanism=PLAIN: set one that it offers: SCRAM-SHA-512"],
        ),
        (
            "PLAINTEXT",
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **MECHANISMS["PLAIN"]},
            ["has no SASL on this listener: set security.protocol=PLAINTEXT or SSL"],
        ),
        ("SASL_PLAINTEXT", {"security.protocol": "PLAINTEXT"}, ["if this listener needs TLS or SASL, set security"]),
        ("SASL_SSL", {"security.protocol": "SSL"}, ["if this listener needs SASL, set security.protocol"]),
        ("SASL_SSL", {"security.protocol": "PLAINTEXT"}, ["set security.protocol"]),
        ("PLAINTEXT", {"security.protocol": "SSL"}, ["security.protocol"]),
        ("SSL", {}, ["certificate", "ssl.certificate.location"]),
        ("SASL_SSL", {"sasl.mechanism": "PLAIN", **MECHANISMS["PLAIN"], "ssl.ca.location": ""}, ["is not trusted"]),
    ],
    ids=[
        "wrong password", "wrong password with SCRAM", "mechanism not offered", "no SASL", "SASL needed",
        "SASL needed over TLS", "TLS needed", "no TLS", "certificate needed", "untrusted",
    ],
)  # fmt: skip
def test_a_wrong_setting_is_one_sentence(
    kafka: SecuredKafka, listener: str, keys: dict[str, str], sentences: list[str]
) -> None:
    """
    What Kafka does with a client whose settings do not fit becomes a sentence that names the key.
    """
    told = failure(kafka.keys(listener) | keys)

    assert [] == [sentence for sentence in sentences if sentence not in told], told
