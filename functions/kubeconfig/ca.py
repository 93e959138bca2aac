"""Loads the CA in a Secret."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import TYPE_CHECKING

from shared.kube import Object, dig, key_of

if TYPE_CHECKING:
    from shared.certificates import CertificateAuthority


def ca_in(secret: Object | None, now: datetime) -> CertificateAuthority | str | None:
    """Returns the CA in a Secret, or a sentence on why it cannot sign; None without the Secret."""
    if secret is None:
        return None
    try:
        return _load(dig(secret, "data", {}), now)
    except ValueError as error:
        return f"Secret {key_of(secret).name} cannot be used: {error}"


def _load(data: Object, now: datetime) -> CertificateAuthority:
    """Returns the CA in the data of a Secret. Raises `ValueError`, without the data, if it cannot sign."""
    from shared.certificates import CertificateAuthority

    parts = []
    for name in ("tls.crt", "tls.key"):
        try:
            parts.append(base64.b64decode(data.get(name) or ""))
        except (binascii.Error, TypeError):
            raise ValueError(f"{name} is not base64") from None
        if not parts[-1].strip():
            raise ValueError(f"{name} is missing or empty")
    ca = CertificateAuthority.load(*parts)
    ca.check_validity(now)
    return ca
