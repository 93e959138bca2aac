"""One Cluster of a management cluster in detail."""

from __future__ import annotations

import base64
from datetime import datetime

from shared.api.names import kubeconfig_secret_of
from shared.api.resources import CLUSTER, SECRET
from shared.kube import Client, Key, Object, connect, dig
from shared.kube.loading_rules import KubeconfigError, entry, parse

from .describe.cluster_objects import gather
from .describe.document import document
from .failure import Failure

_OF_SERVER = ("server", "certificate-authority-data", "tls-server-name", "proxy-url")
_OF_USER = ("client-certificate-data", "client-key-data", "token")
"""The fields of a kubeconfig that are inline."""


def get_cluster(management: Client, key: Key) -> Object:
    """Returns a Cluster. Raises `Failure` if it does not exist."""
    found = management.find(CLUSTER, key)
    if found is None:
        raise Failure(f"Cluster {key} does not exist")
    return found


def read_kubeconfig(management: Client, cluster: Key) -> Object:
    """Returns the kubeconfig of a workload cluster, with its current context and inline credentials only.

    A kubeconfig can start programs as its user, and a tenant may have written the Secret. So all other fields
    are left out, and a kubeconfig that names programs or files is refused. Raises `Failure`.
    """
    key = kubeconfig_secret_of(cluster)
    secret = management.find(SECRET, key)
    if secret is None:
        raise Failure(
            f"Secret {key} with the kubeconfig of Cluster {cluster} does not exist; `capi-functions describe cluster "
            f"{cluster.name}` shows what the Cluster waits for"
        )
    try:
        content = base64.b64decode(dig(secret, "data.value") or "", validate=True)
        credentials = connect.inline_credentials(content)
        document = parse(content, untyped=True)
        context = entry(document, "contexts", document["current-context"], "context")
        server = entry(document, "clusters", context["cluster"], "cluster")
        user = entry(document, "users", context["user"], "user")
    except (KubeconfigError, ValueError) as error:
        raise Failure(f"Secret {key}: {error}") from error
    name = cluster.name
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {
                    **{field: server[field] for field in _OF_SERVER if field in server},
                    **({} if credentials.verify else {"insecure-skip-tls-verify": True}),
                },
            }
        ],
        "users": [{"name": name, "user": {field: user[field] for field in _OF_USER if field in user}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def describe(management: Client, cluster: Object, now: datetime) -> Object:
    """Returns the document about a Cluster, its addons with their history, and its events; see `document`."""
    return document(gather(management, cluster), now)
