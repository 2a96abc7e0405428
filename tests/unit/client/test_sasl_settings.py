"""The settings of a login; an error about a missing or unsupported setting names the fix."""

import pytest

from tidemill.client import connection_settings
from tidemill.client.failures import SettingsError
from tidemill.client.oauth_token import TokenRequest

SASL = {"bootstrap.servers": "b:1", "security.protocol": "SASL_SSL"}
PASSWORD = {"sasl.username": "alice", "sasl.password": "hunter2"}
BEARER = {"sasl.mechanism": "OAUTHBEARER"}
URL = "sasl.oauthbearer.token.endpoint.url"
CLIENT = {"sasl.oauthbearer.client.id": "me", "sasl.oauthbearer.client.secret": "hunter2"}


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (PASSWORD, "sasl.mechanism is not set: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"),
        (
            {"sasl.mechanism": "GSSAPI"},
            "sasl.mechanism=GSSAPI is not supported: Kerberos is not offered; use a listener",
        ),
        ({"sasl.mechanisms": "AWS_MSK_IAM"}, "sasl.mechanisms=AWS_MSK_IAM is not supported: AWS IAM is not offered"),
        ({"sasl.mechanism": "SCRAM-SHA-1"}, "sasl.mechanism=SCRAM-SHA-1 is not supported: use PLAIN, SCRAM-SHA-256"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.username is not set, but sasl.mechanism=PLAIN needs it"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "u"}, "sasl.password is not set, but sasl.mechanism=PLAIN"),
        ({"sasl.mechanism": "PLAIN", **PASSWORD, "sasl.jaas.config": "x"}, "are both set: remove one of them"),
        ({"sasl.mechanism": "PLAIN", **PASSWORD, "sasl.username": "a\0b"}, "must not contain a NUL character"),
        (BEARER, "needs sasl.oauthbearer.method=oidc and a token endpoint; for tests with unsigned tokens, set enable"),
        (BEARER | {"sasl.oauthbearer.method": "jwt"}, "sasl.oauthbearer.method=jwt is unknown: use oidc or default"),
        (
            BEARER | {"sasl.oauthbearer.method": "oidc"},
            "token.endpoint.url is not set and must be https://HOST/PATH or",
        ),
        (BEARER | {URL: "ftp://h/x", **CLIENT}, f"{URL}=ftp://h/x must be https://HOST/PATH or file:///PATH"),
        (
            BEARER | {URL: "https://h/x"},
            "sasl.oauthbearer.client.id is not set, but sasl.oauthbearer.method=oidc needs",
        ),
        (BEARER | {URL: "https://h/x", "sasl.oauthbearer.client.id": "me"}, "client.secret is not set"),
        (BEARER | {"sasl.jaas.config": "x.OAuthBearerLoginModule required;"}, "set sasl.oauthbearer.method=oidc, sasl"),
        (
            BEARER | {"sasl.oauthbearer.extensions": "auth=x"},
            "sasl.oauthbearer.extensions must have the form KEY=VALUE",
        ),
        (
            BEARER | {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "scope=a"},
            "sasl.oauthbearer.config must have the form principal=NAME",
        ),
        (
            BEARER | {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=a x=1"},
            "sasl.oauthbearer.config has x, which is unknown: use lifeSeconds, principal",
        ),
    ],
)
def test_what_is_missing_or_not_offered_is_named_with_the_fix(keys, sentence):
    """
    If a setting of a login is missing or not supported, the error names the key and says what to set, and it never
    shows a secret.
    """
    with pytest.raises(SettingsError) as refused:
        connection_settings.from_keys(SASL | keys)

    assert sentence in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_the_names_of_java_and_librdkafka_mean_the_same():
    """
    Client id and client secret have two names each, and Java programs do not set sasl.oauthbearer.method.
    """
    librdkafka = BEARER | CLIENT | {URL: "https://h/x", "sasl.oauthbearer.method": "OIDC"}
    java = BEARER | {URL: "https://h/x"}
    java |= {key.replace("bearer.client", "bearer.client.credentials.client"): value for key, value in CLIENT.items()}

    sources = [connection_settings.from_keys(SASL | keys).sasl.token_source for keys in (librdkafka, java)]

    assert [TokenRequest(url="https://h/x", client_id="me", client_secret="hunter2")] * 2 == sources


def test_a_client_secret_without_encryption_is_a_warning(caplog):
    """
    A warning says that a token endpoint without TLS gets the client secret in clear text.
    """
    connection_settings.from_keys(SASL | BEARER | CLIENT | {URL: "http://keycloak:8080/token"})

    assert [
        f"{URL}=http://keycloak:8080/token sends the client secret without encryption: use https"
    ] == caplog.messages


@pytest.mark.parametrize(
    ("keys", "warned"),
    [
        (
            {"sasl.mechanism": "PLAIN", **PASSWORD},
            "sasl.mechanism has no effect: security.protocol=PLAINTEXT does not use",
        ),
        (
            {"ssl.ca.location": "/ca"},
            "ssl.ca.location has no effect: security.protocol=PLAINTEXT does not use it; set SSL",
        ),
    ],
)
def test_a_forgotten_protocol_is_a_warning(caplog, keys, warned):
    """
    TLS and SASL keys have no effect in Kafka's clients if security.protocol uses neither; a warning says so.
    """
    connection_settings.from_keys({"bootstrap.servers": "b:1", **keys})

    assert warned in caplog.text
    assert "hunter2" not in caplog.text
