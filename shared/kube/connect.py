"""From credentials to clients: the management cluster from the surroundings, workload clusters from their Secret.

A workload kubeconfig is data from outside: it may only hold inline credentials, since a command to run or a file to
read would be run and read with our rights. The user's own kubeconfig may do all that; what goes beyond inline
credentials is left to the `kubernetes` package, which is loaded only then, since a cold start feels it (0.4 s, 30 MB).
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from ..network import origin
from .client import Client
from .credentials import Credentials, is_token
from .loading_rules import Kubeconfig, KubeconfigError, default_files, load, named, parse

__all__ = ["KubeconfigError", "from_kubeconfig", "inline", "management", "opened", "workload"]

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_LIVES = 60.0
"""Seconds until a service account's token is read again; the kubelet rotates it."""

_NOTHING = ("", "~", "null", "Null", "NULL")
"""How YAML writes that there is no value."""

_FORBIDDEN_USER = {
    "exec": "runs a command (exec plugin)",
    "auth-provider": "uses an auth provider",
    "client-certificate": "reads a certificate file",
    "client-key": "reads a key file",
    "tokenFile": "reads a token file",
}
_FORBIDDEN_CLUSTER = {"certificate-authority": "reads a CA file"}


def management() -> Client:
    """The cluster this process belongs to: `KUBECONFIG`, else the pod's service account, else `~/.kube/config`.

    Raises `KubeconfigError`.
    """
    if not os.environ.get("KUBECONFIG") and os.environ.get("KUBERNETES_SERVICE_HOST"):
        try:
            return Client(_in_cluster())
        except OSError as error:
            raise KubeconfigError(f"this pod's service account cannot be used: {error}") from error
    return opened(load(default_files()))


def from_kubeconfig(path: str) -> Client:
    """A client for a kubeconfig file of the user's own. Raises `KubeconfigError`."""
    return opened(load([Path(path)]))


def opened(kubeconfig: Kubeconfig) -> Client:
    """A client for the context in use of the user's own kubeconfig. Raises `KubeconfigError`."""
    try:
        credentials = _inline(kubeconfig.document, kubeconfig.context)
    except KubeconfigError:
        credentials = _by_library(kubeconfig)
    return _client(credentials)


def workload(kubeconfig: bytes) -> Client:
    """A client for the cluster that a kubeconfig from a Secret points at; fewer tries, since events come again.

    Raises `KubeconfigError`.
    """
    return _client(inline(kubeconfig), attempts=2, cluster="workload")


def inline(kubeconfig: bytes) -> Credentials:
    """The credentials in a kubeconfig's current context, if there is nothing but inline data.

    Raises `KubeconfigError`.
    """
    document = parse(kubeconfig, texts=True)
    return _inline(document, document.get("current-context"))


def _inline(document: Mapping[str, Any], used: Any) -> Credentials:
    context = named(document, "contexts", used, "context")
    cluster = named(document, "clusters", context.get("cluster"), "cluster")
    user = named(document, "users", context.get("user"), "user")
    server = _url(cluster, "server")
    if not server:
        raise KubeconfigError("kubeconfig cluster has no server")
    if "@" in server:  # also one after a slash that should have been escaped
        raise KubeconfigError("kubeconfig server has credentials in it: they belong into the user")
    for fields, section in ((_FORBIDDEN_USER, user), (_FORBIDDEN_CLUSTER, cluster)):
        for field, why in fields.items():
            if field in section:
                raise KubeconfigError(f"kubeconfig is refused: it {why}, only inline credentials are accepted")
    token = _text(user, "token").strip()
    if token and not is_token(token):
        raise KubeconfigError("kubeconfig token has characters that no token has, such as a space or a line break")
    return Credentials(
        host=server,
        authority=_data(cluster, "certificate-authority-data"),
        certificate=_data(user, "client-certificate-data"),
        key=_data(user, "client-key-data"),
        token=(lambda: token) if token else None,
        verify=_text(cluster, "insecure-skip-tls-verify").lower() != "true",
        server_name=_text(cluster, "tls-server-name"),
        proxy=_url(cluster, "proxy-url"),
    )


def _client(
    credentials: Credentials, *, attempts: int = 3, cluster: Literal["management", "workload"] = "management"
) -> Client:
    try:
        return Client(credentials, attempts=attempts, cluster=cluster)
    except ssl.SSLError as error:
        words = (error.reason or "unreadable").replace("_", " ").lower()
        raise KubeconfigError(f"kubeconfig holds certificates or keys that cannot be used: {words}") from None
    except OSError as error:
        raise KubeconfigError(f"kubeconfig is refused: {error.strerror}") from None
    except ValueError:
        raise KubeconfigError("kubeconfig holds certificates or keys that cannot be used") from None


def _text(section: Mapping[str, Any], field: str) -> str:
    """Empty where there is none. Messages do not quote it: it may be secret."""
    value = section.get(field)
    if isinstance(value, dict | list):
        raise KubeconfigError(f"kubeconfig {field} is not a text")
    return "" if value is None or value in _NOTHING else str(value)


def _url(section: Mapping[str, Any], field: str) -> str:
    """An http(s) URL, empty where there is none."""
    url = _text(section, field)
    try:
        if url:
            origin(url)
    except ValueError:
        raise KubeconfigError(f"kubeconfig {field} is no http(s) URL") from None
    return url


def _data(section: Mapping[str, Any], field: str) -> bytes:
    try:
        return base64.b64decode(_text(section, field), validate=True)
    except (binascii.Error, ValueError):
        raise KubeconfigError(f"kubeconfig {field} is not base64") from None


def _in_cluster() -> Credentials:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return Credentials(
        host=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        authority=(_SERVICE_ACCOUNT / "ca.crt").read_bytes(),
        token=_rotated(_SERVICE_ACCOUNT / "token"),
    )


def _rotated(file: Path) -> Callable[[], str]:
    token, read_at = "", float("-inf")

    def present() -> str:
        nonlocal token, read_at
        if time.monotonic() - read_at > _TOKEN_LIVES:
            token, read_at = file.read_text().strip(), time.monotonic()
        return token

    return present


def _by_library(kubeconfig: Kubeconfig) -> Credentials:
    """Whatever else a kubeconfig of the user's may hold: files, exec plugins, auth providers."""
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException, load_kube_config_from_dict

    configuration = Configuration()
    try:
        load_kube_config_from_dict(kubeconfig.document, context=kubeconfig.context, client_configuration=configuration)
    except ConfigException as error:
        raise KubeconfigError(f"{kubeconfig}: {error}") from error

    def token() -> str:
        # Asking goes through the library's hook, which refreshes what has expired.
        return str(configuration.get_api_key_with_prefix("BearerToken") or "").removeprefix("Bearer ")

    def read(file: str | None) -> bytes:
        return Path(file).read_bytes() if file else b""

    return Credentials(
        host=configuration.host if "://" in configuration.host else f"http://{configuration.host}",
        authority=read(configuration.ssl_ca_cert),
        certificate=read(configuration.cert_file),
        key=read(configuration.key_file),
        token=token if configuration.api_key else None,
        verify=configuration.verify_ssl,
        server_name=configuration.tls_server_name or "",
        proxy=configuration.proxy or "",
    )
