"""Charts like those of addons: a few kinds per component, and an upgrade that changes one object."""

from __future__ import annotations

from shared.kube import Object

CHANGED = "config-0"
"""The ConfigMap that differs between versions."""

VERSION_LABEL = "bench.example.com/version"


def addon(namespace: str, prefix: str, version: str, *, maps: int) -> list[Object]:
    """Returns 10 objects and `maps` ConfigMaps; cluster-scoped names begin with the namespace."""
    labels = {"app": prefix}

    def obj(api: str, kind: str, name: str, *, wide: bool = False, **content: object) -> Object:
        metadata: Object = {"name": f"{namespace}-{name}" if wide else name, "labels": labels}
        if not wide:
            metadata["namespace"] = namespace
        return {"apiVersion": api, "kind": kind, "metadata": metadata, **content}

    rbac = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}]
    subject = [{"kind": "ServiceAccount", "name": prefix, "namespace": namespace}]
    pod = {
        "metadata": {"labels": labels},
        "spec": {
            "serviceAccountName": prefix,
            "containers": [{"name": "main", "image": "registry.example.com/addon:1.0", "args": ["--v=2"]}],
        },
    }
    selector = {"matchLabels": labels}

    def role_ref(kind: str, name: str) -> Object:
        return {"apiGroup": rbac, "kind": kind, "name": name}

    return [
        obj("v1", "ServiceAccount", prefix),
        obj("v1", "Secret", f"{prefix}-settings", stringData={"key": "value"}),
        obj(f"{rbac}/v1", "ClusterRole", prefix, wide=True, rules=rules),
        obj(
            f"{rbac}/v1",
            "ClusterRoleBinding",
            prefix,
            wide=True,
            roleRef=role_ref("ClusterRole", f"{namespace}-{prefix}"),
            subjects=subject,
        ),
        obj(f"{rbac}/v1", "Role", prefix, rules=rules),
        obj(f"{rbac}/v1", "RoleBinding", prefix, roleRef=role_ref("Role", prefix), subjects=subject),
        obj("v1", "Service", prefix, spec={"selector": labels, "ports": [{"name": "http", "port": 80}]}),
        obj("apps/v1", "Deployment", prefix, spec={"replicas": 1, "selector": selector, "template": pod}),
        obj("apps/v1", "DaemonSet", f"{prefix}-agent", spec={"selector": selector, "template": pod}),
        obj("policy/v1", "PodDisruptionBudget", prefix, spec={"minAvailable": 1, "selector": selector}),
        *(
            obj(
                "v1",
                "ConfigMap",
                f"config-{number}" if prefix == "addon" else f"{prefix}-config-{number}",
                data={"version": version if number == 0 and prefix == "addon" else "same", "k": "v" * 200},
            )
            for number in range(maps)
        ),
    ]


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def fifteen(name: str, version: str) -> list[Object]:
    """Returns a small addon in its own namespace."""
    return [namespace(name), *addon(name, "addon", version, maps=4)]


def labelled(name: str, version: str) -> list[Object]:
    """Returns the objects of `fifteen` with their version as a label. Other versions than v1 leave out one of them."""
    objects = fifteen(name, "any")
    for obj in objects:
        obj["metadata"]["labels"] = {**obj["metadata"].get("labels", {}), VERSION_LABEL: version}
    return objects if version == "v1" else objects[:-1]


def four_hundred(name: str, version: str) -> list[Object]:
    """Returns the objects of an umbrella chart with 27 components, without their namespace, which must exist."""
    objects = addon(name, "addon", version, maps=4)
    for number in range(1, 27):
        objects += addon(name, f"part{number:02}", version, maps=5)
    return objects[:400]
