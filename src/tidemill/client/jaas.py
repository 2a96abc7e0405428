"""Reads user and password from `sasl.jaas.config`, the setting that Java's clients use.

    org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="...";

The package of a login module is ignored, because some distributions of Spark rename Kafka's packages.
"""

import re
from typing import Final, NamedTuple

from tidemill.client.failures import SettingsError

_FORM: Final = 'MODULE required username="..." password="...";'
_TOKEN: Final = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s"=;]+)|([=;]))', re.DOTALL)
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_WITH_PASSWORD: Final = frozenset({"PlainLoginModule", "ScramLoginModule"})
_INSTEAD: Final = {
    "OAuthBearerLoginModule": (
        "set sasl.oauthbearer.method=oidc, sasl.oauthbearer.token.endpoint.url, sasl.oauthbearer.client.id and "
        "sasl.oauthbearer.client.secret instead"
    ),
    "Krb5LoginModule": "GSSAPI (Kerberos) is not offered; use a listener with SCRAM-SHA-512 or OAUTHBEARER",
    "IAMLoginModule": "AWS_MSK_IAM is not offered; use the cluster's listener with SCRAM-SHA-512",
}


class Credentials(NamedTuple):
    username: str
    password: str


def parse(text: str) -> Credentials:
    """Return the user and the password.  Raise SettingsError, which never shows the text."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[1].lower() not in _FLAGS or tokens[-1] != ";":
        raise SettingsError(f"sasl.jaas.config does not have the form {_FORM}")
    module = re.split(r"[.$]", tokens[0])[-1]
    if module not in _WITH_PASSWORD:
        instead = _INSTEAD.get(module, "set sasl.mechanism, sasl.username and sasl.password instead")
        raise SettingsError(f"sasl.jaas.config has the login module {module}, which cannot be loaded: {instead}")
    pairs = tokens[2:-1]
    if len(pairs) % 3 or any(sign != "=" for sign in pairs[1::3]):
        raise SettingsError(f"sasl.jaas.config does not have the form {_FORM}")
    options = dict(zip(pairs[::3], pairs[2::3], strict=True))
    if options.get("tokenauth", "false").lower() == "true":
        raise SettingsError("sasl.jaas.config has tokenauth=true: delegation tokens are not offered; use a password")
    if not options.get("username") or "password" not in options:
        raise SettingsError(f"sasl.jaas.config has no username or no password: write {_FORM}")
    return Credentials(options["username"], options["password"])


def _tokens(text: str) -> list[str]:
    """Return the tokens: words, quoted words without their quotes, and the symbols `=` and `;`."""
    tokens = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise SettingsError(f"sasl.jaas.config does not have the form {_FORM}")
        quoted, word, sign = match.groups()
        tokens.append(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL) if quoted is not None else word or sign)
        position = match.end()
    return tokens
