"""Functions with the rights that the generated manifests give them, and no others."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import yaml

from infra.generate.__main__ import PROJECT
from shared.clients import Clients
from shared.kube import ApiError, Client, Resource
from shared.kube.connect import inline
from shared.kube.credentials import Credentials
from tests.support.until import until

_RBAC = ("rbac.authorization.k8s.io", "v1")
_RESOURCES = {
    "Namespace": Resource("", "v1", "Namespace", "namespaces", namespaced=False),
    "ServiceAccount": Resource("", "v1", "ServiceAccount", "serviceaccounts"),
    "ClusterRole": Resource(*_RBAC, "ClusterRole", "clusterroles", namespaced=False),
    "ClusterRoleBinding": Resource(*_RBAC, "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
}


def as_account(admin: Client, kubeconfig: Path, manifest: str, may: tuple[str, str, str]) -> Clients:
    """Clients of the one ServiceAccount in a file below `infra`, once it may do what is asked (group, plural, verb)."""
    name = ""
    for path in ("infra/knative/namespace.yaml", f"infra/{manifest}"):
        for obj in yaml.safe_load_all((PROJECT / path).read_text()):
            if obj["kind"] in _RESOURCES:
                admin.apply(_RESOURCES[obj["kind"]], obj, manager="user")
            name = obj["metadata"]["name"] if obj["kind"] == "ServiceAccount" else name
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/capi-functions/serviceaccounts/{name}/token"
    token: str = admin.request("POST", path, body=request)["status"]["token"]
    server = inline(kubeconfig.read_bytes())
    client = Client(Credentials(server.host, server.authority, token=lambda: token))
    _await(client, *may)
    return Clients(client)


def _await(client: Client, group: str, plural: str, verb: str) -> None:
    """The authorizer learns of roles a moment later."""
    asked = {"resourceAttributes": {"group": group, "resource": plural, "verb": verb}}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": asked}

    def allowed() -> bool:
        with suppress(ApiError):
            path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
            return bool(client.request("POST", path, body=review)["status"]["allowed"])
        return False

    until(allowed, f"may {verb} {plural}.{group}")
