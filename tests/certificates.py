"""Certificates for tests, made when they are needed and valid for a day."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from anchortm.federated import Certificate


class Authority:
    """An authority that signs certificates into a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.key, self.name = folder, ec.generate_private_key(ec.SECP256R1()), _named(name)
        self.ca = folder / "ca.pem"
        made = self._builder(name, 1, self.key).add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        self.ca.write_bytes(made.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def _builder(self, name: str, days: float, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=2))
            .not_valid_after(now + dt.timedelta(days=days))
        )

    def sign(self, name: str, days: float = 1.0) -> Certificate:
        """Return a certificate for this name; with negative days it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        made = self._builder(name, days, key).add_extension(names, False).sign(self.key, hashes.SHA256())
        files = [self.folder / f"{name}.{end}" for end in ("pem", "key")]
        files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return Certificate(str(files[0]), str(files[1]), str(self.ca))


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
