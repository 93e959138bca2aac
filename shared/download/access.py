"""Access to a source: whether it is allowed, credentials, trusted certificates, endpoint and region of object stores.

No message and no `repr` contains credentials.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from shared.kube.resources import dig, key_of

from .errors import SourceError

HOSTS = "capi-functions.dev/hosts"
"""The annotation of a Secret: the hosts that its credentials are for, with a port if that is not 443, separated by
spaces or commas."""

_TYPES = ("Opaque", "kubernetes.io/basic-auth")
_FIELDS = {
    "token": "token",
    "username": "username",
    "password": "password",
    "ca.crt": "ca",
    "accessKeyId": "access_key",
    "secretAccessKey": "secret_key",
    "endpoint": "endpoint",
    "region": "region",
}


@dataclass(frozen=True, slots=True)
class Access:
    """Credentials and trust for one source; an empty field is not set.

    `ca` is a bundle of CA certificates in PEM, trusted in addition to the system's. `insecure` trusts any certificate.
    """

    token: str = field(default="", repr=False)
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    ca: str = field(default="", repr=False)
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    endpoint: str = ""
    region: str = ""
    insecure: bool = False

    @property
    def authorization(self) -> str:
        """The Authorization header of a first request: bearer token, else basic; empty without credentials."""
        if self.token:
            return f"Bearer {self.token}"
        return self.basic if self.username or self.password else ""

    @property
    def sends_secrets(self) -> bool:
        """Whether requests contain credentials. Keys of a bucket only sign requests, and stay here."""
        return bool(self.token or self.username or self.password)

    @property
    def basic(self) -> str:
        """The Authorization header of user name and password."""
        return f"Basic {base64.b64encode(f'{self.username}:{self.password}'.encode()).decode()}"


def from_secret(secret: Mapping[str, Any]) -> Access:
    """Returns the access that the keys of a Secret describe.

    Raises:
        SourceError: The Secret has another type, none of the keys, or values that are not text.
    """
    data, key = secret.get("data") or {}, key_of(secret)
    if secret.get("type", "Opaque") not in _TYPES:
        # Otherwise a ClusterStack could leak a Secret that its author cannot read, such as a service account's token.
        raise SourceError(
            f"Secret {key} has the type {secret['type']}: use a Secret of type {' or '.join(_TYPES)}", transient=False
        )
    known = {name: field for name, field in _FIELDS.items() if name in data}
    if not known:
        raise SourceError(f"Secret {key} has none of the keys {', '.join(_FIELDS)}", transient=False)
    values: dict[str, Any] = {}
    for name, attribute in known.items():
        try:
            values[attribute] = base64.b64decode(data[name] or "", validate=True).decode().strip()
        except (binascii.Error, ValueError):
            raise SourceError(f"Secret {key}: {name} is not text", transient=False) from None
        if attribute != "ca" and not values[attribute].isprintable():
            raise SourceError(f"Secret {key}: {name} is more than one line", transient=False)
    return Access(**values)


def hosts_of(secret: Mapping[str, Any]) -> frozenset[str] | None:
    """Returns the hosts that a Secret's annotation names, None without the annotation."""
    annotation = dig(secret, ("metadata", "annotations", HOSTS))
    return None if annotation is None else frozenset(map(without_default_port, annotation.replace(",", " ").split()))


def without_default_port(host: str) -> str:
    """Returns a host, or host and port, in lower case, without the port of https."""
    return host.lower().removesuffix(":443")


def not_sent(secret: str, host: str) -> str:
    """Returns the message for credentials that are not for a host; `secret` names their Secret."""
    return f"{secret} is not sent to {host[:253]}: add the host to its annotation {HOSTS}"


def is_allowed(url: str, prefixes: str) -> bool:
    """Returns whether a URL begins with one of the prefixes, which end at a segment of its path.

    Args:
        url: The URL of a source.
        prefixes: Prefixes of URLs, such as `oci://registry.example.com/team`, separated by whitespace; empty
            allows all.
    """
    listed = prefixes.split()
    return not listed or any(_begins(_parts(url), _parts(prefix)) for prefix in listed)


def _begins(url: tuple[str, ...] | None, prefix: tuple[str, ...] | None) -> bool:
    return url is not None and prefix is not None and url[: len(prefix)] == prefix


def _parts(url: str) -> tuple[str, ...] | None:
    """Returns scheme, host and path segments; None for a URL whose path a server may read in another way."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    decoded = unquote(parts.path).replace("\\", "/").split("/")
    if "\\" in parts.netloc or "@" in parts.netloc or {".", ".."} & set(decoded):
        return None
    return (parts.scheme, without_default_port(parts.netloc), *filter(None, parts.path.split("/")))
