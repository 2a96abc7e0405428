"""TLS settings: librdkafka's keys, and Java's keys for PEM files.

    ssl.ca.location                         PEM file of trusted certificate authorities   (librdkafka)
    ssl.truststore.type=PEM
      ssl.truststore.location               the same                                      (Java)
      ssl.truststore.certificates           the same, inline                              (Java)
    ssl.certificate.location, ssl.key.location, ssl.key.password                          (librdkafka; password in both)
    ssl.keystore.type=PEM
      ssl.keystore.location                 one PEM file with key and certificate chain   (Java)
    ssl.endpoint.identification.algorithm   https (default), or none or empty             (both)
    enable.ssl.certificate.verification     true (default) or false                       (librdkafka)

Java's store formats JKS and PKCS#12 are refused; the error names the command that converts a store to PEM.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemill.client.failures import SettingsError

_TO_PEM = "export it as PEM: keytool -exportcert -rfc -keystore STORE -alias ALIAS > ca.pem"
_UNSUPPORTED = {
    "ssl.ca.certificate.stores": "name a PEM file in ssl.ca.location",
    "ssl.certificate.pem": "write it to a file and name that in ssl.certificate.location",
    "ssl.cipher.suites": "the cipher suites of this Python's OpenSSL are used; leave the key out",
    "ssl.crl.location": "revocation lists are not read; leave the key out",
    "ssl.engine.factory.class": "a Java class cannot be loaded; leave the key out",
    "ssl.engine.location": "OpenSSL engines are not used; name PEM files instead",
    "ssl.key.pem": "write it to a file and name that in ssl.key.location",
    "ssl.keystore.certificate.chain": "write it to a file and name that in ssl.certificate.location",
    "ssl.keystore.key": "write it to a file and name that in ssl.key.location",
    "ssl.protocol": "TLS 1.2 and later are used; leave the key out",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """
    The TLS settings of a connection.  They are picklable, because files are read only when a connection is opened.
    """

    ca_location: str | None = None  # None: the system's trusted authorities
    ca_certificates: str | None = field(default=None, repr=False)
    certificate_location: str | None = None
    key_location: str | None = None
    key_password: str | None = field(default=None, repr=False)  # plans and logs show the repr
    is_hostname_checked: bool = True
    is_certificate_verified: bool = True

    def context(self) -> ssl.SSLContext:
        """Return an SSL context for a client.  Raise SettingsError if a file is missing or not in PEM format."""
        try:
            context = ssl.create_default_context(cafile=self.ca_location, cadata=self.ca_certificates)
            if self.certificate_location is not None:
                context.load_cert_chain(self.certificate_location, self.key_location, self.key_password)
        except (OSError, ValueError) as error:  # SSLError is an OSError
            names = [self.ca_location, self.certificate_location, self.key_location]
            raise SettingsError(
                f"cannot load the TLS files {', '.join(name for name in names if name)}: {error}"
            ) from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.is_hostname_checked and self.is_certificate_verified
        if not self.is_certificate_verified:
            context.verify_mode = ssl.CERT_NONE
        return context


def from_keys(keys: Mapping[str, str]) -> TlsSettings:
    """Return the TLS settings for these keys.  Raise SettingsError for a key or value that is not supported."""
    for key, fix in _UNSUPPORTED.items():
        if key in keys:
            raise SettingsError(f"{key} is not supported: {fix}")
    _refuse_java_stores(keys)
    certificate_location = keys.get("ssl.certificate.location") or keys.get("ssl.keystore.location")
    if keys.get("ssl.key.location") and certificate_location is None:
        raise SettingsError("ssl.key.location is set but ssl.certificate.location is not: set the key's certificate")
    return TlsSettings(
        ca_location=keys.get("ssl.ca.location") or keys.get("ssl.truststore.location") or None,
        ca_certificates=keys.get("ssl.ca.pem") or keys.get("ssl.truststore.certificates") or None,
        certificate_location=certificate_location,
        key_location=keys.get("ssl.key.location") or None,
        key_password=keys.get("ssl.key.password") or None,
        is_hostname_checked=_is_hostname_checked(keys.get("ssl.endpoint.identification.algorithm", "https")),
        is_certificate_verified=_truth("enable.ssl.certificate.verification", keys),
    )


def _refuse_java_stores(keys: Mapping[str, str]) -> None:
    for store in ("ssl.truststore", "ssl.keystore"):
        if f"{store}.location" not in keys:
            continue
        store_type = keys.get(f"{store}.type", "JKS")  # Java's default
        if store_type.upper() != "PEM":
            fix = "ssl.ca.location" if store == "ssl.truststore" else "ssl.certificate.location and ssl.key.location"
            raise SettingsError(
                f"{store}.location={keys[f'{store}.location']} is a {store_type} store, which only Java can read: "
                f"{_TO_PEM}; then name the PEM file in {fix}"
            )


def _is_hostname_checked(algorithm: str) -> bool:
    wanted = algorithm.strip().lower()
    if wanted not in ("https", "none", ""):
        raise SettingsError(f"ssl.endpoint.identification.algorithm={algorithm} is unknown: use https or none")
    return wanted == "https"


def _truth(key: str, keys: Mapping[str, str]) -> bool:
    value = keys.get(key, "true").strip().lower()
    if value not in ("true", "false"):
        raise SettingsError(f"{key}={keys[key]} must be true or false")
    return value == "true"
