"""Certificates for tests with real TLS, made by `openssl`."""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest


class Pair(NamedTuple):
    certificate: Path
    key: Path


class Authority:
    """A certificate authority in a directory, for servers at 127.0.0.1 and for clients."""

    def __init__(self, directory: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("openssl, which creates certificates, is not installed")
        self._directory = directory
        self.pair = Pair(directory / "ca.pem", directory / "ca.key")
        self._openssl("req", "-x509", *_NEW_KEY, "-subj", "/CN=ca", "-out", self.pair[0], "-keyout", self.pair[1])

    @property
    def location(self) -> str:
        return str(self.pair.certificate)

    def issue(self, name: str, address: str = "IP:127.0.0.1") -> Pair:
        """Return a new certificate, signed by this authority, and its key."""
        pair = Pair(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        request, extensions = self._directory / f"{name}.csr", self._directory / f"{name}.cnf"
        extensions.write_text(f"subjectAltName={address}\n")
        self._openssl("req", *_NEW_KEY, "-subj", f"/CN={name}", "-out", request, "-keyout", pair.key)
        signed_by = ["-CA", self.pair.certificate, "-CAkey", self.pair.key, "-CAcreateserial"]
        self._openssl("x509", "-req", *signed_by, "-in", request, "-days", "2", "-extfile", extensions, "-out", pair[0])
        return pair

    def encrypted(self, key: Path, password: str) -> Path:
        """Write a copy of a private key, encrypted with this password, and return its path."""
        copy = key.with_suffix(".encrypted")
        self._openssl("pkcs8", "-topk8", "-in", key, "-out", copy, "-passout", f"pass:{password}")
        return copy

    def revoke(self, *pairs: Pair) -> Path:
        """Return a certificate revocation list (CRL) with exactly these certificates."""
        database, settings, crl = (self._directory / name for name in ("index.txt", "ca.cnf", "crl.pem"))
        database.write_text("")
        settings.write_text(f"[ca]\ndefault_ca=a\n[a]\ndatabase={database}\ndefault_md=sha256\ndefault_crl_days=2\n")
        authority = ["-config", settings, "-cert", self.pair.certificate, "-keyfile", self.pair.key]
        for pair in pairs:
            self._openssl("ca", *authority, "-revoke", pair.certificate)
        self._openssl("ca", *authority, "-gencrl", "-out", crl)
        return crl

    def in_directory(self, directory: Path) -> Path:
        """Put the authority's certificate into a directory under the name by which OpenSSL looks it up."""
        shutil.copy(self.pair.certificate, directory)
        self._openssl("rehash", directory)
        return directory

    def _openssl(self, *arguments: object) -> None:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, cwd=self._directory)


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
