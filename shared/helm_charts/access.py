"""The access to a repository: the credentials and CA certificates in the Secrets that a HelmReleaseProxy names.

The author of a HelmReleaseProxy may not be allowed to read the Secrets. So a Secret of another namespace has to allow
the namespace, and credentials are only sent to the hosts that they are for.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping
from typing import Any, Final

from shared.api.resources import SECRET
from shared.clients import Clients
from shared.download import SourceError
from shared.download.access import Access, hosts_of, not_sent, without_default_port
from shared.kube import ApiError, Key, Object, Unavailable, dig, key_of
from shared.memory_budget import MemoryBusy

from .docker_config import InvalidConfig, login
from .request import ChartRequest, SecretKey

NAMESPACES: Final = "capi-functions.dev/namespaces"
"""The annotation of a Secret: the other namespaces whose HelmReleaseProxies may use it, separated by spaces or commas;
`*` for all."""
_OPAQUE: Final = "Opaque"
_LOGINS: Final = (_OPAQUE, "kubernetes.io/dockerconfigjson", "kubernetes.io/basic-auth")
"""The types of Secrets with credentials. A Secret of another type, such as the token of a ServiceAccount, is not for a
repository, and its content must not be sent to one."""


def read_access(clients: Clients, request: ChartRequest, host: str) -> Access:
    """Returns the access to a repository at `host`, which may have a port. Raises `SourceError`."""
    ca = user = password = ""
    if request.ca:
        secret = of_type(_secret(clients, request.ca, request.namespace), (_OPAQUE,))
        ca = _text(secret, request.ca.key)
    if request.credentials:
        secret = of_type(_secret(clients, request.credentials, request.namespace), _LOGINS)
        user, password = _login(secret, request.credentials, host)
    return Access(username=user, password=password, ca=ca, insecure=request.insecure)


def _secret(clients: Clients, wanted: SecretKey, namespace: str) -> Object:
    key = Key(wanted.namespace, wanted.name)
    refusal = SourceError(
        f"Secret {key} is not for namespace {namespace}: list the namespace in its annotation {NAMESPACES}, or use a "
        f"Secret of namespace {namespace}",
        transient=False,
    )
    try:
        secret = clients.management.find(SECRET, key)
    except ApiError as error:
        raise SourceError(f"Secret {key} cannot be read: {error}", transient=isinstance(error, Unavailable)) from error
    if wanted.namespace != namespace and not _allows(secret or {}, namespace):
        raise refusal  # also for a Secret that does not exist: who may not use it must not learn that
    if secret is None:
        raise SourceError(f"Secret {key} does not exist", transient=False)
    return secret


def of_type(secret: Object, types: Collection[str]) -> Object:
    """Returns the Secret. Raises `SourceError` unless it has one of the types."""
    type_ = secret.get("type") or _OPAQUE
    if type_ not in types:
        raise SourceError(
            f"Secret {key_of(secret)} has the type {type_}: use a Secret of type {' or '.join(types)}", transient=False
        )
    return secret


def _allows(secret: Mapping[str, Any], namespace: str) -> bool:
    listed = str(dig(secret, ("metadata", "annotations", NAMESPACES)) or "").replace(",", " ").split()
    return namespace in listed or "*" in listed


def _login(secret: Object, wanted: SecretKey, host: str) -> tuple[str, str]:
    """Returns user name and password, both empty if the Secret has none for the host.

    They are in a `config.json`, or else in the keys `username` and `password` of a Secret whose annotation names hosts.
    """
    hosts = hosts_of(secret)
    if hosts is not None and without_default_port(host) not in hosts:
        raise SourceError(not_sent(f"Secret {key_of(secret)}", host), transient=False)
    if wanted.key not in (secret.get("data") or {}) and "password" in (secret.get("data") or {}):
        if hosts is None:
            raise SourceError(not_sent(f"Secret {key_of(secret)}", host), transient=False)
        return _text(secret, "username"), _text(secret, "password")
    try:
        return login(_data(secret, wanted.key), host) or ("", "")
    except InvalidConfig as error:
        raise SourceError(f"Secret {key_of(secret)}: {wanted.key} {error}", transient=False) from None
    except MemoryBusy as error:
        raise SourceError(f"Secret {key_of(secret)}: {error}", transient=True) from None


def _text(secret: Object, key: str) -> str:
    """Returns a value without white space around it; user names and passwords have one line."""
    try:
        text = _data(secret, key).decode().strip()
    except ValueError:
        raise SourceError(f"Secret {key_of(secret)}: {key} is not text", transient=False) from None
    if key in ("username", "password") and not text.isprintable():
        raise SourceError(f"Secret {key_of(secret)}: {key} is more than one line", transient=False)
    return text


def _data(secret: Object, key: str) -> bytes:
    value = dig(secret, ("data", key))
    if not value:
        raise SourceError(f"Secret {key_of(secret)} has no key {key}", transient=False)
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise SourceError(f"Secret {key_of(secret)}: {key} is not base64", transient=False) from None
