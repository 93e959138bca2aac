"""From credentials to clients: the management cluster from the surroundings, workload clusters from their Secret.

A workload kubeconfig is data from outside: it may only hold inline credentials, since a command to run or a file to
read would be run and read with our rights.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import yaml

from .client import Client
from .resources import dig


class KubeconfigError(Exception):
    """A kubeconfig that cannot be used; the message says what is wrong with it and never quotes its content."""


_FORBIDDEN_USER = {
    "exec": "runs a command (exec plugin)",
    "auth-provider": "uses an auth provider",
    "client-certificate": "reads a certificate file",
    "client-key": "reads a key file",
    "tokenFile": "reads a token file",
}
_FORBIDDEN_CLUSTER = {"certificate-authority": "reads a CA file"}


def management() -> Client:
    """The cluster this process belongs to: `KUBECONFIG`, else the pod's service account, else `~/.kube/config`."""
    from kubernetes.client import Configuration
    from kubernetes.config import load_incluster_config, load_kube_config

    configuration = Configuration()
    if not os.environ.get("KUBECONFIG") and os.environ.get("KUBERNETES_SERVICE_HOST"):
        load_incluster_config(client_configuration=configuration)
    else:
        # Given by name, since the library looks at the variable once, when it is imported.
        load_kube_config(config_file=os.environ.get("KUBECONFIG"), client_configuration=configuration)
    return Client(configuration)


def from_kubeconfig(path: str) -> Client:
    """A client for a kubeconfig file of the user's own."""
    from kubernetes.client import Configuration
    from kubernetes.config import load_kube_config

    configuration = Configuration()
    load_kube_config(config_file=path, client_configuration=configuration)
    return Client(configuration)


def workload(kubeconfig: bytes) -> Client:
    """A client for the cluster that a kubeconfig from a Secret points at; fewer tries, since events come again."""
    from kubernetes.client import Configuration
    from kubernetes.config import load_kube_config_from_dict

    document = check_kubeconfig(kubeconfig)
    configuration = Configuration()
    try:
        load_kube_config_from_dict(document, client_configuration=configuration)
        return Client(configuration, attempts=2)
    except Exception as error:  # whatever the loader makes of bad PEM or base64 is one thing for the user
        raise KubeconfigError(f"kubeconfig cannot be used: {type(error).__name__}: {error}") from error


def check_kubeconfig(kubeconfig: bytes) -> dict[str, Any]:
    """The parsed kubeconfig, if its current context has a server and inline credentials only."""
    try:
        document = yaml.safe_load(kubeconfig)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise KubeconfigError("kubeconfig is not valid YAML") from error
    if not isinstance(document, dict):
        raise KubeconfigError("kubeconfig is not a mapping")
    context = _named(document, "contexts", document.get("current-context"), "context")
    cluster = _named(document, "clusters", context.get("cluster"), "cluster")
    user = _named(document, "users", context.get("user"), "user")
    if not str(cluster.get("server", "")).startswith(("https://", "http://")):
        raise KubeconfigError(f"kubeconfig cluster {context.get('cluster')!r} has no http(s) server")
    for fields, section in ((_FORBIDDEN_USER, user), (_FORBIDDEN_CLUSTER, cluster)):
        for field, why in fields.items():
            if field in section:
                raise KubeconfigError(f"kubeconfig is refused: it {why}, only inline credentials are accepted")
    # Only what was checked is handed on; other contexts in the file are nobody's business.
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "checked",
        "contexts": [{"name": "checked", "context": {"cluster": "checked", "user": "checked"}}],
        "clusters": [{"name": "checked", "cluster": dict(cluster)}],
        "users": [{"name": "checked", "user": dict(user)}],
    }


def _named(document: Mapping[str, Any], section: str, name: Any, field: str) -> Mapping[str, Any]:
    for entry in document.get(section) or []:
        if isinstance(entry, dict) and entry.get("name") == name:
            value = dig(entry, (field,))
            if isinstance(value, dict):
                return value
    raise KubeconfigError(f"kubeconfig has no {field} named {name!r}")
