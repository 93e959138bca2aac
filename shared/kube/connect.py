"""Builds clients: for the management cluster from the environment, for workload clusters from their kubeconfig Secret.

A workload kubeconfig is untrusted input. It may only hold inline credentials, because a command or a file that it names
would be run or read with the rights of this process. The user's own kubeconfig may name both. The `kubernetes` package
handles everything beyond inline credentials. It is imported only then, because it adds 0.4 s and 30 MB to a cold start.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..network import origin
from ..settings import SETTINGS, namespaces
from .client import Client
from .credentials import Credentials, is_token
from .loading_rules import Kubeconfig, KubeconfigError, default_files, entry, load, parse
from .transport import Cluster

__all__ = [
    "KubeconfigError",
    "from_kubeconfig",
    "from_loaded",
    "inline_credentials",
    "management",
    "pod_namespace",
    "token_clients",
    "workload",
]

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_REREAD = 60.0
"""Seconds after which a service account's token is read again; the kubelet rotates it."""

_MAX_KUBECONFIG, _MAX_VALUES = 256 << 10, 2_000
"""The maximum number of bytes and of values of a workload kubeconfig: one with a single cluster has 6 KiB and 30."""
_MAX_PEM = 64 << 10
"""The maximum number of bytes of certificates or of a key: the TLS library takes ten times as many for each cluster."""

_NULL = ("", "~", "null", "Null", "NULL")
"""The spellings of null in YAML."""

_PREFIX = re.compile(r"(?:/[A-Za-z0-9_~:-][A-Za-z0-9._~:-]*)*/?")
_ONLY_HOST = re.compile(r"[A-Za-z]+://[^/?#]+/?")
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,253}")

_FORBIDDEN_USER = {
    "exec": "runs a command (exec plugin)",
    "auth-provider": "uses an auth provider",
    "client-certificate": "reads a certificate file",
    "client-key": "reads a key file",
    "tokenFile": "reads a token file",
}
_FORBIDDEN_CLUSTER = {"certificate-authority": "reads a CA file"}


def management() -> Client:
    """Returns a client for the management cluster: of `KUBECONFIG`, the pod's service account, or `~/.kube/config`.

    The first of these that exists is used. The client lists the namespaces of the installation. Raises
    `KubeconfigError`.
    """
    return _management().limited_to(namespaces(SETTINGS))


def _management() -> Client:
    if not os.environ.get("KUBECONFIG") and os.environ.get("KUBERNETES_SERVICE_HOST"):
        try:
            return Client(_in_cluster())
        except OSError as error:
            raise KubeconfigError(f"this pod's service account cannot be used: {error}") from error
    return from_loaded(load(default_files()))


def token_clients() -> Callable[[str], Client]:
    """Returns a function from a bearer token to a client with this token and no other credentials.

    It connects to the API server of the pod, or else of the kubeconfig in use. Raises `KubeconfigError`.
    """
    if not os.environ.get("KUBECONFIG") and os.environ.get("KUBERNETES_SERVICE_HOST"):
        try:
            known = _in_cluster()
        except OSError as error:
            raise KubeconfigError(f"the certificate of the API server cannot be read: {error}") from error
    else:
        loaded = load(default_files())
        known = _inline(loaded.document, loaded.context)
    server = replace(known, certificate=b"", key=b"", token=None)
    return lambda token: _client(replace(server, token=lambda: token))


def pod_namespace() -> str:
    """Returns the namespace of this pod; empty outside of a pod."""
    file = _SERVICE_ACCOUNT / "namespace"
    return file.read_text().strip() if file.is_file() else ""


def from_kubeconfig(path: str) -> Client:
    """Returns a client for a trusted kubeconfig file. Raises `KubeconfigError`."""
    return from_loaded(load([Path(path)]))


def from_loaded(kubeconfig: Kubeconfig) -> Client:
    """Returns a client for the selected context of a trusted kubeconfig. Raises `KubeconfigError`."""
    try:
        credentials = _inline(kubeconfig.document, kubeconfig.context)
    except KubeconfigError:
        credentials = _by_library(kubeconfig)
    return _client(credentials)


def workload(kubeconfig: bytes) -> Client:
    """Returns a client for the workload cluster of a kubeconfig from a Secret.

    It retries less often than the client of the management cluster, because events are delivered again. Raises
    `KubeconfigError`.
    """
    return _client(inline_credentials(kubeconfig), attempts=2, cluster="workload")


def inline_credentials(kubeconfig: bytes) -> Credentials:
    """Returns the credentials in a kubeconfig's current context, which must consist of inline data.

    Raises `KubeconfigError` if the kubeconfig names a command or a file, or cannot be used.
    """
    if len(kubeconfig) > _MAX_KUBECONFIG:
        raise KubeconfigError(f"kubeconfig is larger than {_MAX_KUBECONFIG >> 10} KiB")
    document = parse(kubeconfig, untyped=True, most=_MAX_VALUES)
    return _inline(document, document.get("current-context"))


def _inline(document: Mapping[str, Any], context_name: Any) -> Credentials:
    """Returns the credentials of a context. Raises `KubeconfigError` if they are not inline."""
    context = entry(document, "contexts", context_name, "context")
    cluster = entry(document, "clusters", context.get("cluster"), "cluster")
    user = entry(document, "users", context.get("user"), "user")
    server = _server(cluster)
    for fields, section in ((_FORBIDDEN_USER, user), (_FORBIDDEN_CLUSTER, cluster)):
        for field, why in fields.items():
            if field in section:
                raise KubeconfigError(f"kubeconfig is refused: it {why}, but only inline credentials are accepted")
    token = _text(user, "token").strip()
    if token and not is_token(token):
        raise KubeconfigError("kubeconfig token has invalid characters, such as a space or a line break")
    return Credentials(
        host=server,
        ca=_data(cluster, "certificate-authority-data"),
        certificate=_data(user, "client-certificate-data"),
        key=_data(user, "client-key-data"),
        token=(lambda: token) if token else None,
        verify=_text(cluster, "insecure-skip-tls-verify").lower() != "true",
        server_name=_server_name(cluster),
        proxy=_proxy(cluster),
    )


def _client(credentials: Credentials, *, attempts: int = 3, cluster: Cluster = "management") -> Client:
    try:
        return Client(credentials, attempts=attempts, cluster=cluster)
    except ssl.SSLError as error:
        reason = (error.reason or "unreadable").replace("_", " ").lower()
        raise KubeconfigError(f"kubeconfig contains certificates or keys that cannot be used: {reason}") from None
    except OSError as error:
        raise KubeconfigError(f"kubeconfig is refused: {error.strerror}") from None
    except ValueError:
        raise KubeconfigError("kubeconfig contains certificates or keys that cannot be used") from None


def _text(section: Mapping[str, Any], field: str) -> str:
    """Returns a field as a string, empty if it is absent. Messages do not quote the value because it may be secret."""
    value = section.get(field)
    if isinstance(value, dict | list):
        raise KubeconfigError(f"kubeconfig {field} is not a string")
    return "" if value is None or value in _NULL else str(value)


def _url(section: Mapping[str, Any], field: str) -> str:
    """Returns a field as an http(s) URL, empty if it is absent."""
    url = _text(section, field)
    try:
        if url:
            origin(url)
    except ValueError:
        raise KubeconfigError(f"kubeconfig {field} is not an http(s) URL") from None
    return url


def _server(cluster: Mapping[str, Any]) -> str:
    """Returns the server's URL: scheme, host, port, and the path prefix of a proxy such as Rancher's.

    Anything else would let the author of a kubeconfig choose the path and the query of requests to any server.
    """
    url = _url(cluster, "server")
    if not url:
        raise KubeconfigError("kubeconfig cluster has no server")
    if "@" in url:  # anywhere: credentials with an unescaped slash would otherwise pass as a path
        raise KubeconfigError("kubeconfig server contains credentials: move them to the user")
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if "?" in url or "#" in url or not _PREFIX.fullmatch(slash + path):
        raise KubeconfigError(
            "kubeconfig server has more than a host, a port and a plain path such as /k8s/clusters/x: remove query, "
            "fragment, escapes, dot segments and empty segments"
        )
    return f"{scheme.lower()}://{host}{slash}{path}".rstrip("/")


def _proxy(cluster: Mapping[str, Any]) -> str:
    url = _url(cluster, "proxy-url")
    if url and not _ONLY_HOST.fullmatch(url):
        raise KubeconfigError("kubeconfig proxy-url has more than a host and a port: remove path, query and fragment")
    return url


def _server_name(cluster: Mapping[str, Any]) -> str:
    name = _text(cluster, "tls-server-name")
    if name and not _NAME.fullmatch(name):
        raise KubeconfigError("kubeconfig tls-server-name is not a host name")
    return name


def _data(section: Mapping[str, Any], field: str) -> bytes:
    try:
        data = base64.b64decode(_text(section, field), validate=True)
    except (binascii.Error, ValueError):
        raise KubeconfigError(f"kubeconfig {field} is not base64") from None
    if len(data) > _MAX_PEM:
        raise KubeconfigError(f"kubeconfig {field} is larger than {_MAX_PEM >> 10} KiB: keep the certificates in use")
    return data


def _in_cluster() -> Credentials:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return Credentials(
        host=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        ca=(_SERVICE_ACCOUNT / "ca.crt").read_bytes(),
        token=_token_reader(_SERVICE_ACCOUNT / "token"),
    )


def _token_reader(file: Path) -> Callable[[], str]:
    """Returns a function that returns the token in the file, at most `_TOKEN_REREAD` seconds old."""
    token, read_at = "", float("-inf")

    def current() -> str:
        nonlocal token, read_at
        if time.monotonic() - read_at > _TOKEN_REREAD:
            token, read_at = file.read_text().strip(), time.monotonic()
        return token

    return current


def _by_library(kubeconfig: Kubeconfig) -> Credentials:
    """Reads credentials that are not inline: files, exec plugins, auth providers."""
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException, load_kube_config_from_dict

    configuration = Configuration()
    try:
        load_kube_config_from_dict(kubeconfig.document, context=kubeconfig.context, client_configuration=configuration)
    except ConfigException as error:
        raise KubeconfigError(f"{kubeconfig}: {error}") from error

    def token() -> str:
        # This calls the library's hook, which refreshes an expired token.
        return str(configuration.get_api_key_with_prefix("BearerToken") or "").removeprefix("Bearer ")

    def read(file: str | None) -> bytes:
        return Path(file).read_bytes() if file else b""

    return Credentials(
        host=configuration.host if "://" in configuration.host else f"http://{configuration.host}",
        ca=read(configuration.ssl_ca_cert),
        certificate=read(configuration.cert_file),
        key=read(configuration.key_file),
        token=token if configuration.api_key else None,
        verify=configuration.verify_ssl,
        server_name=configuration.tls_server_name or "",
        proxy=configuration.proxy or "",
    )
