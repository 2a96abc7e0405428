"""Logins with every mechanism, against fake brokers with real sockets."""

import threading
import time

import pytest

from tests.unit.client.fake_cluster import FakeCluster
from tests.unit.client.fake_sasl import FakeSasl
from tidemill.client import sasl_login
from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import BrokerUnreachable, RetriesExhausted, SettingsError
from tidemill.client.raw_fetcher import RawFetcher
from tidemill.model import errors
from tidemill.model.partition import TopicPartition
from tidemill.wire.messages import metadata, sasl_authenticate

PASSWORD = "hunter2-Gr\u00fc\u00dfe-\u00aa"  # SASLprep, which Kafka omits, would change the last character
LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "al=ice,x", "sasl_password": PASSWORD}
UNSIGNED = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "OAUTHBEARER",
    "enable_sasl_oauthbearer_unsecure_jwt": "true",
    "sasl_oauthbearer_config": "principal=alice extension_team=blue",
}
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def connect(cluster, **keys):
    settings = cluster.settings(**keys)
    return BrokerConnection(settings.bootstrap[0], settings)


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
def test_a_password_logs_in_with_every_mechanism(mechanism):
    """
    A login with user and password succeeds, even with characters that SCRAM escapes or that are not ASCII, and requests
    are then answered.
    """
    sasl = FakeSasl((mechanism,), {"al=ice,x": PASSWORD})

    with FakeCluster(sasl=sasl) as cluster:
        connection = connect(cluster, sasl_mechanism=mechanism, **LOGIN)
        answer = connection.request(metadata.API, metadata.Request(topics=None))
        connection.close()

    assert (["al=ice,x"], ["t"]) == (sasl.logins, [topic.name for topic in answer.topics])


@pytest.mark.parametrize("module", ["plain.PlainLoginModule", "scram.ScramLoginModule"])
def test_the_settings_of_java_programs_log_in(module):
    """
    The user and the password of sasl.jaas.config are used, even in distributions that rename Kafka's packages.
    """
    mechanism = "PLAIN" if module.startswith("plain") else "SCRAM-SHA-512"
    sasl = FakeSasl((mechanism,), {"alice": 'a "quoted" \\ password'})
    config = (
        f"kafkashaded.org.apache.kafka.common.security.{module} required "
        'username="alice" password="a \\"quoted\\" \\\\ password";'
    )
    java = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, "sasl_jaas_config": config}

    with FakeCluster(sasl=sasl) as cluster:
        connect(cluster, **java).close()

    assert ["alice"] == sasl.logins


def test_an_unsigned_token_logs_in_with_its_extensions():
    """
    OAUTHBEARER sends the token and the extensions in the format of RFC 7628.
    """
    sasl = FakeSasl(("OAUTHBEARER",))

    with FakeCluster(sasl=sasl) as cluster:
        connect(cluster, **UNSIGNED).close()

    assert (1, ["team=blue"]) == (len(sasl.logins), sasl.extensions)


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
def test_a_wrong_password_is_one_sentence_without_it(mechanism):
    """
    A refused login is not retried.  The error names the broker, the user and the mechanism, and says what to check, but
    it does not contain the password.
    """
    sasl = FakeSasl((mechanism,), {"al=ice,x": "another"})

    with FakeCluster(sasl=sasl) as cluster, pytest.raises(SettingsError) as refused:
        ClusterMetadata(cluster.settings(sasl_mechanism=mechanism, **LOGIN)).refresh({"t"})

    told = str(refused.value)
    assert 1 == cluster.count("sasl_handshake")
    assert f"refuses the login of sasl.username=al=ice,x with sasl.mechanism={mechanism}: Authentication" in told
    assert told.endswith("check user and password, and that the broker has this user for this mechanism")
    assert PASSWORD not in told


def test_a_broker_that_repeats_the_password_is_not_quoted():
    """
    The error never contains the password, even if the broker's message repeats it.
    """

    def refuse(broker_id, name, request):
        if name != "sasl_authenticate":
            return None
        return sasl_authenticate.Response(
            error_code=errors.SASL_AUTHENTICATION_FAILED, error_message=f"no: {PASSWORD}", auth_bytes=b""
        )

    with FakeCluster(sasl=FakeSasl(("PLAIN",))) as cluster:
        cluster.hook = refuse
        with pytest.raises(SettingsError, match="SASL_AUTHENTICATION_FAILED; check user") as refused:
            connect(cluster, sasl_mechanism="PLAIN", **LOGIN)

    assert PASSWORD not in str(refused.value)


def test_a_refused_token_is_one_sentence():
    """
    A broker that refuses a token sends an error and then ends the exchange; the error says what to check.
    """
    sasl = FakeSasl(("OAUTHBEARER",))
    refused = "refuses the login of the principal .*invalid_token.*check the token's issuer, audience and scope"

    with FakeCluster(sasl=sasl) as cluster, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sasl_login.oauth_token, "token", lambda source, timeout_s: "a.b.c")
        with pytest.raises(SettingsError, match=refused):
            connect(cluster, **UNSIGNED)


def test_an_impostor_is_refused():
    """
    A server that accepts every password but cannot prove with SCRAM that it knows the password gets no request.
    """
    sasl = FakeSasl(("SCRAM-SHA-256",), is_impostor=True)

    with (
        FakeCluster(sasl=sasl) as cluster,
        pytest.raises(SettingsError, match=r"the login of sasl.username=al=ice,x .* failed .*may be an impostor"),
    ):
        connect(cluster, sasl_mechanism="SCRAM-SHA-256", **LOGIN)


def test_a_mechanism_that_is_not_offered_is_named_with_those_that_are():
    """
    If the broker does not offer the client's mechanism, the error names this mechanism and those that the broker
    offers.
    """
    sasl = FakeSasl(("SCRAM-SHA-512", "OAUTHBEARER"))
    sentence = "does not offer sasl.mechanism=PLAIN: set one that it offers: OAUTHBEARER, SCRAM-SHA-512$"

    with FakeCluster(sasl=sasl) as cluster, pytest.raises(SettingsError, match=sentence):
        connect(cluster, sasl_mechanism="PLAIN", **LOGIN)


def test_a_broker_without_sasl_is_named():
    """
    A login to a listener without SASL fails, and the error names the protocols to set.
    """
    with FakeCluster() as cluster, pytest.raises(SettingsError, match="has no SASL on this listener: set security"):
        connect(cluster, sasl_mechanism="PLAIN", **LOGIN)


def test_a_client_without_login_learns_that_sasl_may_be_missing():
    """
    A broker with SASL closes the connection of a client that does not log in.  The error says that SASL settings may be
    missing.
    """
    with FakeCluster(sasl=FakeSasl(("PLAIN",))) as cluster:
        metadata_of = ClusterMetadata(cluster.settings(default_api_timeout_ms="200"))
        with pytest.raises(RetriesExhausted, match=r"if this listener needs TLS or SASL, set security.protocol"):
            metadata_of.refresh({"t"})


def test_a_broker_that_cannot_check_a_login_is_asked_again():
    """
    If a broker is temporarily unable to check a login, the failure is retriable.
    """

    def busy(broker_id, name, request):
        if name == "sasl_authenticate" and cluster.count("sasl_authenticate") == 1:
            return sasl_authenticate.Response(error_code=errors.REQUEST_TIMED_OUT, auth_bytes=b"")
        return None

    sasl = FakeSasl(("PLAIN",), {"al=ice,x": PASSWORD})
    with FakeCluster(sasl=sasl) as cluster:
        cluster.hook = busy
        metadata_of = ClusterMetadata(cluster.settings(sasl_mechanism="PLAIN", **LOGIN))
        metadata_of.refresh({"t"})
        metadata_of.close()

    assert ["al=ice,x"] == sasl.logins


def test_a_login_is_renewed_before_it_expires(monkeypatch):
    """
    A connection logs in again before its next request when its login is about to expire, with the password that is
    current then (KIP-368).
    """
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    sasl = FakeSasl(("SCRAM-SHA-256",), {"al=ice,x": PASSWORD}, lifetime_ms=1_000_000)
    keys = {**LOGIN, "sasl_mechanism": "SCRAM-SHA-256", "sasl_password": "env:KAFKA_PASSWORD"}

    with FakeCluster(sasl=sasl) as cluster:
        before = time.monotonic()
        connection = connect(cluster, **keys)
        renewal_s = connection._logs_in_again_at - before
        monkeypatch.setenv("KAFKA_PASSWORD", "rotated")
        sasl.passwords["al=ice,x"] = "rotated"
        connection.request(metadata.API, metadata.Request(topics=None))
        logins = list(sasl.logins)
        connection._logs_in_again_at = time.monotonic()
        connection.request(metadata.API, metadata.Request(topics=None))
        is_renewal_planned = connection._logs_in_again_at > time.monotonic()
        connection.close()

    assert (1, 2, True) == (len(logins), len(sasl.logins), is_renewal_planned)
    assert 850 <= renewal_s < 1_000


def test_responses_on_their_way_survive_another_login():
    """
    A login between two sends preserves the responses to earlier requests, their order, and views of the last response.
    """
    sasl = FakeSasl(("PLAIN",), {"al=ice,x": PASSWORD})

    with FakeCluster(sasl=sasl) as cluster:
        connection = connect(cluster, sasl_mechanism="PLAIN", **LOGIN)
        for topic in ("a", "b"):
            connection.send(metadata.API, metadata.Request(topics=[metadata.Request.Topic(name=topic)]))
        connection._logs_in_again_at = 0
        connection.send(metadata.API, metadata.Request(topics=[metadata.Request.Topic(name="c")]))
        was_idle = connection.is_idle
        names = [connection.receive().topics[0].name for _ in range(3)]
        is_idle = connection.is_idle
        connection.close()

    assert (False, ["a", "b", "c"], True, 2) == (was_idle, names, is_idle, len(sasl.logins))


def test_batches_stay_valid_while_the_fetcher_logs_in_again():
    """
    The fetcher requests the next batches before it yields the previous ones, which a login in between must not change.
    """
    sasl = FakeSasl(("SCRAM-SHA-512",), {"al=ice,x": PASSWORD}, lifetime_ms=3_600_000)

    with FakeCluster(sasl=sasl) as cluster:
        for number in range(3):
            cluster.partition.append_records([bytes([number]) * 70_000])
        settings = cluster.settings(sasl_mechanism="SCRAM-SHA-512", fetch_max_bytes="1", **LOGIN)
        known = ClusterMetadata(settings)
        known.refresh({"t"})
        connection = known.connection_to(1)
        received = []
        for run in RawFetcher(known).batches(TopicPartition("t", 0), 0, 3):
            received.append(bytes(run))
            connection._logs_in_again_at = 0  # the next fetch logs in first
        known.close()

    assert cluster.partition.batches == received
    assert len(sasl.logins) > 1


def test_a_refused_renewal_closes_the_connection():
    """
    If the broker refuses to renew a login, the connection is closed and the error says why.
    """
    sasl = FakeSasl(("PLAIN",), {"al=ice,x": PASSWORD})

    with FakeCluster(sasl=sasl) as cluster:
        connection = connect(cluster, sasl_mechanism="PLAIN", **LOGIN)
        sasl.passwords.clear()
        connection._logs_in_again_at = 0
        with pytest.raises(SettingsError, match="refuses the login of"):
            connection.send(metadata.API, metadata.Request(topics=None))

    assert not connection.is_open


def test_a_silent_login_ends_in_time():
    """
    If a broker never answers a login, the client gives up within the time limit for opening the connection.
    """

    is_over = threading.Event()

    def silent(broker_id, name, request):
        if name == "sasl_authenticate":
            is_over.wait(10)
        return

    with FakeCluster(sasl=FakeSasl(("PLAIN",), {"al=ice,x": PASSWORD})) as cluster:
        cluster.hook = silent
        settings = cluster.settings(sasl_mechanism="PLAIN", **LOGIN)
        with pytest.raises(BrokerUnreachable, match=r"did not respond within \d+ ms"):
            BrokerConnection(settings.bootstrap[0], settings, open_within_ms=90)
        is_over.set()
