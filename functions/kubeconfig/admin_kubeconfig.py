"""Creates an admin kubeconfig with a new client certificate, signed by a cluster's CA.

Names, groups, key usage and validity are as in Cluster API's kubeconfigs, so that its tools can read this kubeconfig.
"""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from shared.certificates import CertificateAuthority

VALIDITY = timedelta(days=365)
"""The time for which a new client certificate is valid, unless its CA expires before."""
ADMIN, GROUP = "kubernetes-admin", "system:masters"
"""The user and the group of the client certificate."""


def server_url(host: str, port: int) -> str:
    """Returns `https://host:port`, with brackets around an IPv6 address."""
    host = host.strip("/")
    return f"https://[{host}]:{port}" if ":" in host and not host.startswith("[") else f"https://{host}:{port}"


def create_admin_kubeconfig(cluster: str, server: str, ca: CertificateAuthority, *, until: datetime) -> bytes:
    """Returns an admin kubeconfig (YAML) for `cluster` at the URL `server`.

    Its certificate expires at `until`, or with the CA. The key has the type of the CA's key. All certificates of a CA
    bundle are trusted, because while a CA is rotated, the server may have a certificate of either. Raises `ValueError`
    if the CA has expired.
    """
    from cryptography.hazmat.primitives import serialization

    key = ca.new_key()
    pair = ca.issue(ADMIN, [GROUP], until=until, key=key)
    # As PKCS#1 or SEC1, as Cluster API writes it.
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    user = f"{cluster}-admin"
    context = f"{user}@{cluster}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority-data": _b64(ca.cert_pem)}}],
        "contexts": [{"name": context, "context": {"cluster": cluster, "user": user}}],
        "current-context": context,
        "users": [
            {
                "name": user,
                "user": {"client-certificate-data": _b64(pair.cert_pem), "client-key-data": _b64(key_pem)},
            }
        ],
    }
    return yaml.safe_dump(document, sort_keys=False).encode()


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
