"""TLS settings, from librdkafka's keys and the Java client's PEM keys.  `security_keys` lists the keys.

Java's store formats JKS and PKCS#12 are refused; the error names the command that converts a store to PEM.
"""

import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidemill.client.failures import SettingsError
from tidemill.client.setting_values import SettingValues

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_PEM: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=]+")
_CERTIFICATE_TO_PEM: Final = "keytool -exportcert -rfc -keystore {store} -alias ALIAS > ca.pem"
_KEY_TO_PEM: Final = "openssl pkcs12 -in {store} -out client.pem -nodes"
_JKS_TO_PKCS12: Final = "keytool -importkeystore -srckeystore {store} -destkeystore store.p12 -deststoretype PKCS12"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The TLS settings of a connection.  Files are read when a connection is opened."""

    ca_location: str | None = None  # None: the system's trusted authorities
    ca_certificates: str | None = field(default=None, repr=False)
    certificate_location: str | None = None
    certificate_chain: str | None = field(default=None, repr=False)
    key_location: str | None = None
    key: str | None = field(default=None, repr=False)  # not in the repr, which plans and logs show
    key_password: str | None = field(default=None, repr=False)
    crl_location: str | None = None
    cipher_suites: str | None = None
    versions: tuple[ssl.TLSVersion, ssl.TLSVersion] = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    is_hostname_checked: bool = True
    is_certificate_verified: bool = True

    @property
    def has_certificate(self) -> bool:
        return self.certificate_location is not None or self.certificate_chain is not None

    def context(self) -> ssl.SSLContext:
        """Return an SSL context for a client.  Raise SettingsError if a file is missing or not in PEM format."""
        context = trusting(self.ca_location, self.ca_certificates, "ssl.ca")
        self._load_certificate(context)
        self._load_crl(context)
        if self.cipher_suites is not None:
            context.set_ciphers(self.cipher_suites)
        context.minimum_version, context.maximum_version = self.versions
        context.check_hostname = self.is_hostname_checked and self.is_certificate_verified
        if not self.is_certificate_verified:
            context.verify_mode = ssl.CERT_NONE
        return context

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        if not self.has_certificate:
            return
        key = self.key_location or ("ssl.key.pem" if self.key else "ssl.certificate.location")
        try:
            with _as_file(self.certificate_chain) as chain_file, _as_file(self.key) as key_file:
                certificate = chain_file or self.certificate_location
                assert certificate is not None, "one of the two is set"
                context.load_cert_chain(certificate, key_file or self.key_location, lambda: self.key_password or "")
        except (OSError, ValueError) as error:  # SSLError is an OSError
            raise SettingsError(
                f"cannot load the client's certificate {self.certificate_location or 'of ssl.certificate.pem'} and its "
                f"key {key}: {_reason(error)}; both must be in PEM format, and ssl.key.password must match"
            ) from None

    def _load_crl(self, context: ssl.SSLContext) -> None:
        if self.crl_location is None:
            return
        try:
            context.load_verify_locations(self.crl_location)
        except OSError as error:
            raise SettingsError(f"cannot load ssl.crl.location={self.crl_location}: {_reason(error)}") from None
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def trusting(ca_location: str | None, ca_certificates: str | None, prefix: str) -> ssl.SSLContext:
    """Return a context that trusts these authorities, or the system's if both are None.

    `prefix` is the prefix of their configuration keys, for example `ssl.ca`.  Raise SettingsError if they cannot be
    loaded.
    """
    is_directory = ca_location is not None and Path(ca_location).is_dir()
    try:
        return ssl.create_default_context(
            cafile=None if is_directory else ca_location,
            capath=ca_location if is_directory else None,
            cadata=None if ca_certificates is None else _well_formed(ca_certificates),
        )
    except (OSError, ValueError) as error:
        what = f"{prefix}.pem" if ca_location is None else f"{prefix}.location={ca_location}"
        raise SettingsError(f"cannot load the trusted authorities of {what}: {_reason(error)}") from None


def from_values(values: SettingValues) -> TlsSettings:
    """Return the TLS settings.  Raise SettingsError for a value that is not supported."""
    _refuse_java_stores(values)
    certificate_location = values.text("ssl.certificate.location", "ssl.keystore.location")
    chain = values.text("ssl.certificate.pem", "ssl.keystore.certificate.chain")
    key_location, key = values.text("ssl.key.location"), values.text("ssl.key.pem", "ssl.keystore.key")
    ca_location = values.text("ssl.ca.location", "ssl.truststore.location")
    for one, other, names in (
        (certificate_location, chain, "ssl.certificate.location and ssl.certificate.pem"),
        (key_location, key, "ssl.key.location and ssl.key.pem"),
    ):
        if one and other:
            raise SettingsError(f"{names} are both set: remove one of them")
    if (key_location or key) and not (certificate_location or chain):
        name = "ssl.key.location" if key_location else "ssl.key.pem"
        raise SettingsError(f"{name} is set but ssl.certificate.location is not: set the key's certificate")
    return TlsSettings(
        ca_location=None if ca_location == "probe" else ca_location,  # librdkafka's name for the system's authorities
        ca_certificates=values.text("ssl.ca.pem", "ssl.truststore.certificates"),
        certificate_location=certificate_location,
        certificate_chain=chain,
        key_location=key_location,
        key=key,
        key_password=values.text("ssl.key.password"),
        crl_location=values.text("ssl.crl.location"),
        cipher_suites=_cipher_suites(values),
        versions=_versions(values),
        is_hostname_checked="https"
        == values.choice("ssl.endpoint.identification.algorithm", ("https", "none", ""), "https"),
        is_certificate_verified=values.truth("enable.ssl.certificate.verification", default=True),
    )


def _cipher_suites(values: SettingValues) -> str | None:
    """Return the cipher suites as an OpenSSL list, separated by colons; librdkafka also allows commas."""
    given = values.text("ssl.cipher.suites")
    if given is None:
        return None
    suites = ":".join(name.strip() for name in given.split(","))
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(suites)
    except ssl.SSLError:
        raise SettingsError(
            f"{values.shown('ssl.cipher.suites')} has no suite of TLS 1.2 that OpenSSL knows: use names that "
            "`openssl ciphers` prints, such as ECDHE-RSA-AES128-GCM-SHA256"
        ) from None
    return suites


def _versions(values: SettingValues) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    """Return the lowest and the highest TLS version that ssl.protocol and ssl.enabled.protocols allow."""
    protocol = values.text("ssl.protocol") or "TLS"
    if protocol not in ("TLS", *_VERSIONS):
        raise SettingsError(f"{values.shown('ssl.protocol')} is not supported: use TLS, {' or '.join(_VERSIONS)}")
    enabled = [name.strip() for name in (values.text("ssl.enabled.protocols") or ",".join(_VERSIONS)).split(",")]
    if not all(name in _VERSIONS for name in enabled):
        raise SettingsError(
            f"{values.shown('ssl.enabled.protocols')} is not supported: use {','.join(_VERSIONS)} or one of them"
        )
    usable = [_VERSIONS[name] for name in enabled if name == "TLSv1.2" or protocol != "TLSv1.2"]
    if not usable:
        raise SettingsError("ssl.protocol=TLSv1.2 and ssl.enabled.protocols have no version in common: remove one")
    return min(usable), max(usable)


def _refuse_java_stores(values: SettingValues) -> None:
    for store, to_pem, fix in (
        ("ssl.truststore", _CERTIFICATE_TO_PEM, "ssl.ca.location"),
        ("ssl.keystore", _KEY_TO_PEM, "ssl.certificate.location"),
    ):
        path = values.text(f"{store}.location")
        if path is None:
            continue
        kind = values.get(f"{store}.type")
        if kind is None:
            kind = "PKCS12" if path.lower().endswith((".p12", ".pfx")) else "JKS"  # Kafka's default store type
        if kind.strip().upper() != "PEM":
            is_jks_key = store == "ssl.keystore" and kind.strip().upper() == "JKS"
            commands = [_JKS_TO_PKCS12.format(store=path)] if is_jks_key else []
            commands.append(to_pem.format(store="store.p12" if is_jks_key else path))
            raise SettingsError(
                f"{values.shown(f'{store}.location')} is a {kind} store, which only Java can read: export it as PEM: "
                f"{'; '.join(commands)}; then name the PEM file in {fix}"
            )


@contextmanager
def _as_file(pem: str | None) -> Iterator[str | None]:
    """Yield the path of a temporary file with this text, because OpenSSL loads keys only from files.

    If possible, the file is in memory, so that a key is never written to a disk.
    """
    if pem is None:
        yield None
    elif hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tidemill-pem", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "w") as file:
            file.write(_well_formed(pem))
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
    else:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as named:  # only this user may read it
            named.write(_well_formed(pem))
            named.flush()
            yield named.name


def _well_formed(pem: str) -> str:
    r"""Return PEM with the line breaks that OpenSSL requires; settings often contain a single line, or a literal \n."""
    text = pem.replace("\\n", "\n")
    blocks = []
    for label, body in _PEM.findall(text):
        packed = "".join(body.split())
        is_base64 = _BASE64.fullmatch(packed) is not None  # in an old format, an encrypted key begins with a header
        lines = [packed[i : i + 64] for i in range(0, len(packed), 64)] if is_base64 else [body.strip()]
        blocks.append("\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""]))
    return "".join(blocks) or text


def _reason(error: Exception) -> str:
    """Return why OpenSSL or the operating system refuses a file, without revealing any content of the file."""
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not in PEM format").replace("_", " ").lower()
    return (error.strerror if isinstance(error, OSError) else None) or "not in PEM format"
