"""
User and password in the format of Java's JAAS configuration; the error for another login module says what to set
instead.
"""

import pytest

from tidemill.client import jaas
from tidemill.client.failures import SettingsError

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    "text",
    [
        f'{SCRAM} required username="alice" password="p";',
        f"{SCRAM} REQUIRED username=alice password=p;",
        f'\n {SCRAM}\n  sufficient\n  serviceName="kafka" username = "alice"\tpassword="p" ;\n',
        'kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="p";',
    ],
)
def test_user_and_password_are_read(text):
    """
    Quoted and bare values, spaces, line breaks, other options, and login modules in renamed packages are accepted.
    """
    assert ("alice", "p") == jaas.parse(text)


def test_escapes_in_a_quoted_password_are_undone():
    """
    A quoted password may contain quotation marks, backslashes, semicolons, equals signs and spaces.
    """
    assert 'a"b\\c;d=e f' == jaas.parse(f'{SCRAM} required username="u" password="a\\"b\\\\c;d=e f";').password


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;", "GSSAPI .Kerberos. is not offered"),
        (
            'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientSecret="hunter2";',
            "login module OAuthBearerLoginModule, which cannot be loaded: set sasl.oauthbearer.method=oidc",
        ),
        ("software.amazon.msk.auth.iam.IAMLoginModule required;", "AWS_MSK_IAM is not offered"),
        ("com.example.Other required;", "login module Other, .*: set sasl.mechanism, sasl.username and sasl.password"),
        (f'{SCRAM} required username="alice" password="hunter2"', "does not have the form MODULE required"),
        (f'{SCRAM} required username="alice" password="hunter2;', "does not have the form MODULE required"),
        (f'{SCRAM} username="alice" password="hunter2";', "does not have the form"),
        (f'{SCRAM} required username "alice" password "hunter2";', "does not have the form"),
        (f'{SCRAM} required username="alice" pasword="hunter2";', "has no username or no password"),
        (f'{SCRAM} required username="id" password="hunter2" tokenauth="true";', "delegation tokens are not offered"),
        ("hunter2", "does not have the form"),
        ("", "does not have the form"),
    ],
)
def test_what_is_not_a_password_is_refused_with_the_fix(text, sentence):
    """
    If sasl.jaas.config has no user and password, the error says what to set instead.  It does not show the text, which
    may contain a secret.
    """
    with pytest.raises(SettingsError, match=sentence) as refused:
        jaas.parse(text)

    assert "hunter2" not in str(refused.value)
