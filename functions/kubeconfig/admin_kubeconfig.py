"""Creates an admin kubeconfig with a new client certificate, signed by a cluster's CA.

Names, groups, key usage and validity are those of Cluster API's kubeconfigs, so that its tools can read this one.
"""

from __future__ import annotations

import base64
import warnings
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.x509 import Certificate

VALIDITY = timedelta(days=365)
"""The time for which a new client certificate is valid."""


def server_url(host: str, port: int) -> str:
    """Returns `https://host:port`, with brackets around an IPv6 address."""
    host = host.strip("/")
    return f"https://[{host}]:{port}" if ":" in host and not host.startswith("[") else f"https://{host}:{port}"


@dataclass(frozen=True)
class CA:
    """A certificate authority that may be able to sign: certificate and private key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    def check(self) -> None:
        """Raises `ValueError` if it cannot sign; the text names the fault without quoting the content."""
        _load(self)


def create_admin_kubeconfig(cluster: str, server: str, ca: CA, *, until: datetime) -> bytes:
    """Returns an admin kubeconfig (YAML) for `cluster` at the URL `server`, whose certificate expires at `until`.

    Raises `ValueError` as `CA.check` does.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    issuer, signing_key = _load(ca)
    # RSA 2048, which every consumer of kubeconfigs can read.
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters"),
        x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes-admin"),
    ]
    usage = dict.fromkeys(
        (
            "content_commitment",
            "data_encipherment",
            "key_agreement",
            "key_cert_sign",
            "crl_sign",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(subject))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(issuer.not_valid_before_utc)
        .not_valid_after(until)
        .add_extension(x509.KeyUsage(digital_signature=True, key_encipherment=True, **usage), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(signing_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    user = f"{cluster}-admin"
    context = f"{user}@{cluster}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": cluster,
                "cluster": {
                    "server": server,
                    "certificate-authority-data": _b64(issuer.public_bytes(pem)),
                },
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": cluster, "user": user}}],
        "current-context": context,
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _b64(certificate.public_bytes(pem)),
                    "client-key-data": _b64(
                        key.private_bytes(
                            pem, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
                        )
                    ),
                },
            }
        ],
    }
    return yaml.safe_dump(document, sort_keys=False).encode()


def _load(ca: CA) -> tuple[Certificate, RSAPrivateKey | EllipticCurvePrivateKey]:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if not ca.certificate.strip():
        raise ValueError("tls.crt is missing or empty")
    if not ca.key.strip():
        raise ValueError("tls.key is missing or empty")
    try:
        with warnings.catch_warnings():
            # Cluster API's own CAs have serial number 0, which the library warns about.
            warnings.simplefilter("ignore")
            certificate = x509.load_pem_x509_certificates(ca.certificate)[0]
    except (ValueError, IndexError) as error:
        raise ValueError("tls.crt is not a PEM certificate") from error
    try:
        private = serialization.load_pem_private_key(ca.key, password=None)
    except (ValueError, TypeError) as error:
        raise ValueError("tls.key is not a PEM private key") from error
    if not isinstance(private, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)):
        raise ValueError("tls.key is neither an RSA nor an EC key")
    if private.public_key() != certificate.public_key():
        raise ValueError("tls.key does not belong to tls.crt")
    return certificate, private


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
