"""Clients with the rights that the generated manifests grant, and no others."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import yaml

from infra.generate.__main__ import PROJECT
from shared.api.resources import CLUSTER_ROLE, NAMESPACE
from shared.clients import Clients
from shared.kube import ApiError, Client, Key, Object, Resource
from shared.kube.connect import inline_credentials
from shared.kube.credentials import Credentials
from tests.support.until import until

_RBAC = ("rbac.authorization.k8s.io", "v1")
_RESOURCES = {
    "Namespace": NAMESPACE,
    "ServiceAccount": Resource("", "v1", "ServiceAccount", "serviceaccounts"),
    "ClusterRole": CLUSTER_ROLE,
    "ClusterRoleBinding": Resource(*_RBAC, "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    "Role": Resource(*_RBAC, "Role", "roles"),
    "RoleBinding": Resource(*_RBAC, "RoleBinding", "rolebindings"),
    **{
        kind: Resource("admissionregistration.k8s.io", "v1", kind, plural, namespaced=False)
        for kind, plural in (
            ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
            ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
        )
    },
}


def as_account(admin: Client, kubeconfig: Path, manifest: str, may: tuple[str, str, str]) -> Clients:
    """Returns clients of the one ServiceAccount in a manifest below `infra`, once the right `may` is granted.

    `may` is group, plural and verb.
    """
    client = _client(kubeconfig, _token(admin, *_install(admin, PROJECT / "infra/manifests" / manifest)))
    _await(client, *may)
    return Clients(client)


def as_function(admin: Client, kubeconfig: Path, function: str) -> Clients:
    """Returns clients of a function's ServiceAccount, once all its rights are granted."""
    manifest = PROJECT / f"infra/manifests/base/function-{function.replace('_', '-')}.yaml"
    client = _client(kubeconfig, _token(admin, *_install(admin, manifest)))
    _await_all(client, manifest)
    return Clients(client)


def with_rights(admin: Client, kubeconfig: Path, namespace: str, group: str, plural: str, verb: str) -> Client:
    """Returns a client of a new ServiceAccount in `namespace` with this one right in the whole cluster."""
    metadata = {"name": f"{namespace}-one-right"}
    rules = [{"apiGroups": [group], "resources": [plural], "verbs": [verb]}]
    subject = {"kind": "ServiceAccount", "namespace": namespace, **metadata}
    role = {"apiGroup": _RBAC[0], "kind": "ClusterRole", **metadata}
    for kind, content in (
        ("ServiceAccount", {}),
        ("ClusterRole", {"rules": rules}),
        ("ClusterRoleBinding", {"roleRef": role, "subjects": [subject]}),
    ):
        resource = _RESOURCES[kind]
        place = {"namespace": namespace} if resource.namespaced else {}
        body = {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata | place, **content}
        admin.apply(resource, body, manager="user")
    client = _client(kubeconfig, _token(admin, namespace, metadata["name"]))
    _await(client, group, plural, verb)
    return client


def grant(admin: Client, namespace: str, verb: str, group: str, plural: str, name: str = "") -> None:
    """Grants the account of `with_rights` a right in its namespace: to all objects, or to one by its name."""
    metadata = {"name": f"{verb}-{plural}".replace("/", "-"), "namespace": namespace}
    rule = {"apiGroups": [group], "resources": [plural], "verbs": [verb]}
    rules = [rule | ({"resourceNames": [name]} if name else {})]
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": f"{namespace}-one-right"}
    role = {"apiGroup": _RBAC[0], "kind": "Role", "name": metadata["name"]}
    for kind, content in (("Role", {"rules": rules}), ("RoleBinding", {"roleRef": role, "subjects": [subject]})):
        kept = _RESOURCES[kind]
        admin.apply(
            kept, {"apiVersion": kept.api_version, "kind": kind, "metadata": metadata, **content}, manager="user"
        )


def kubeconfig_of(admin: Client, kubeconfig: Path, manifest: Path, file: Path, account: str = "") -> None:
    """Writes the kubeconfig of a ServiceAccount in a manifest, by default of the one, once all rights are granted."""
    token = _token(admin, *_install(admin, manifest, account))
    client = _client(kubeconfig, token)
    _await_all(client, manifest, account)
    client.close()
    _write(kubeconfig, token, file)


def install(admin: Client, objects: Iterable[Object]) -> None:
    """Applies the accounts, rights and admission policies among the objects of an installation."""
    for obj in objects:
        if resource := _RESOURCES.get(obj["kind"]):
            admin.apply(resource, obj, manager="user")


def account(admin: Client, kubeconfig: Path, key: Key, file: Path | None = None) -> Client:
    """Returns a client of a ServiceAccount; its kubeconfig is written to `file`."""
    token = _token(admin, *key)
    if file is not None:
        _write(kubeconfig, token, file)
    return _client(kubeconfig, token)


def may(client: Client, verb: str, group: str, plural: str, namespace: str = "") -> bool:
    """Returns whether the API server allows a request, in all namespaces by default."""
    asked = {"group": group, "resource": plural, "verb": verb, "namespace": namespace}
    spec = {"resourceAttributes": asked}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return bool(client.request("POST", path, body=review)["status"]["allowed"])


def _write(kubeconfig: Path, token: str, file: Path) -> None:
    document = yaml.safe_load(kubeconfig.read_text())
    (user,) = document["users"]
    user["user"] = {"token": token}
    file.touch(0o600)
    file.write_text(yaml.safe_dump(document))


def _install(admin: Client, manifest: Path, account: str = "") -> tuple[str, str]:
    """Applies the rights in a manifest; returns namespace and name of this ServiceAccount, or of the one."""
    namespace = yaml.safe_load_all((PROJECT / "infra/manifests/base/namespace.yaml").read_text())
    objects = [obj for obj in (*namespace, *yaml.safe_load_all(manifest.read_text())) if obj]
    for obj in (obj for obj in objects if obj["kind"] in _RESOURCES):
        admin.apply(_RESOURCES[obj["kind"]], obj, manager="user")
    accounts = (obj["metadata"] for obj in objects if obj["kind"] == "ServiceAccount")
    (found,) = (each for each in accounts if account in ("", each["name"]))
    return found["namespace"], found["name"]


def _token(admin: Client, namespace: str, account: str) -> str:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    token: str = admin.request("POST", path, body=request)["status"]["token"]
    return token


def _client(kubeconfig: Path, token: str) -> Client:
    server = inline_credentials(kubeconfig.read_bytes())
    return Client(Credentials(server.host, server.ca, token=lambda: token))


def _await_all(client: Client, manifest: Path, account: str = "") -> None:
    """Waits until the authorizer knows all rules of a manifest that are bound in the whole cluster."""
    objects = [obj for obj in yaml.safe_load_all(manifest.read_text()) if obj]
    bound = {
        obj["roleRef"]["name"]
        for obj in objects
        if obj["kind"] == "ClusterRoleBinding" and account in ("", obj["subjects"][0]["name"])
    }
    for role in (obj for obj in objects if obj["kind"] == "ClusterRole" and obj["metadata"]["name"] in bound):
        for rule in role.get("rules", []):
            _await(client, rule["apiGroups"][0], rule["resources"][0], rule["verbs"][0])


def _await(client: Client, group: str, plural: str, verb: str) -> None:
    """Waits until the authorizer knows the role."""
    name, _, subresource = plural.partition("/")
    asked = {"resourceAttributes": {"group": group, "resource": name, "subresource": subresource, "verb": verb}}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": asked}

    def allowed() -> bool:
        with suppress(ApiError):
            path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
            return bool(client.request("POST", path, body=review)["status"]["allowed"])
        return False

    until(allowed, f"may {verb} {plural}.{group}")
