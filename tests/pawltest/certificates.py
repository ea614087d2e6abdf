# SPDX-License-Identifier: Apache-2.0
"""Certificates of a test's own, and an upstream behind TLS."""
from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pawltest.upstream import Upstream
from pawltest.wire import PATIENCE

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Certificate:
    """With its key, both as PEM files."""

    made: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    cert_file: Path
    key_file: Path


def issue(directory: Path, name: str, issuer: Certificate | None = None, *, names: Any = (),
          begin: float = -1, end: float = 1, is_ca: bool = False) -> Certificate:
    """One for `names`, signed by `issuer` or by itself, valid from day `begin` to day `end`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.utcnow()
    builder = (x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
               .issuer_name(issuer.made.subject if issuer else subject)
               .serial_number(x509.random_serial_number())
               .not_valid_before(now + begin * DAY).not_valid_after(now + end * DAY)
               .add_extension(x509.BasicConstraints(is_ca, None), critical=True))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(
            [general_name(one) for one in names]), critical=False)
    made = builder.sign(issuer.key if issuer else key, hashes.SHA256())
    files = directory / f"{name}.pem", directory / f"{name}.key"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM,
                                           serialization.PrivateFormat.PKCS8,
                                           serialization.NoEncryption()))
    return Certificate(made, key, *files)


def general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


class Polite(ssl.SSLSocket):
    """Announces its end, as RFC 8446 6.1 asks."""

    def close(self) -> None:
        try:
            self.settimeout(PATIENCE)
            self.unwrap()
        except (OSError, ValueError):
            pass
        super().close()


def served_by(certificate: Certificate, polite: bool = True) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert_file, certificate.key_file)
    if polite:
        context.sslsocket_class = Polite
    return context


class SecureUpstream(Upstream):
    """Its connections are under TLS by `context`; `refused` has what its handshakes failed at."""

    def __init__(self, context: ssl.SSLContext, host: str = "127.0.0.1", port: int = 0):
        self.context = context
        self.versions: list[str | None] = []
        self.names: list[str | None] = []  # what clients asked for (SNI)
        self.refused: list[OSError] = []
        context.sni_callback = lambda sock, name, _: self.names.append(name)
        super().__init__(host, port)

    def _connection(self, sock: socket.socket) -> None:
        try:
            secure = self.context.wrap_socket(sock, server_side=True)
        except OSError as error:
            self.refused.append(error)
            sock.close()
            return
        self.versions.append(secure.version())
        super()._connection(secure)
